// The places where credentials are, as the tools of each provider look for them.
#pragma once

#include <string_view>

#include "remote/credentials/credentials.h"
#include "remote/credentials/profile_files.h"
#include "remote/http/http_client.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// What sources use. Must outlive them.
struct CredentialContext {
  Environment environment = &ProcessEnvironment;
  ReadableFileSystem* files = PosixFileSystem();
  HttpClient* http = nullptr;
  std::string certificates = {};  // HttpRequest::certificates
};

// In this order: none when AWS_NO_SIGN_REQUEST is set; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN;
// the role of AWS_ROLE_ARN with the token of AWS_WEB_IDENTITY_TOKEN_FILE; the profile (a role, keys or
// credential_process); AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI; the instance's role (IMDSv2), unless
// AWS_EC2_METADATA_DISABLED.
CredentialSource NewAmazonCredentials(const CredentialContext& context);

// GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (HMAC keys); GOOGLE_OAUTH_ACCESS_TOKEN; the machine's service account.
CredentialSource NewGoogleCredentials(const CredentialContext& context);

// HF_TOKEN, or the file of HF_TOKEN_PATH (~/.cache/huggingface/token).
CredentialSource NewHuggingFaceCredentials(const CredentialContext& context);

// The variables that NewAmazonCredentials and the address of s3:// may come from.
inline constexpr const char* kAmazonVariables[] = {"AWS_ACCESS_KEY_ID",
                                                   "AWS_SECRET_ACCESS_KEY",
                                                   "AWS_SESSION_TOKEN",
                                                   "AWS_NO_SIGN_REQUEST",
                                                   "AWS_WEB_IDENTITY_TOKEN_FILE",
                                                   "AWS_ROLE_ARN",
                                                   "AWS_ROLE_SESSION_NAME",
                                                   "AWS_PROFILE",
                                                   "AWS_DEFAULT_PROFILE",
                                                   "AWS_CONFIG_FILE",
                                                   "AWS_SHARED_CREDENTIALS_FILE",
                                                   "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                                   "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                                   "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                                   "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                                   "AWS_EC2_METADATA_DISABLED",
                                                   "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                                   "AWS_REGION",
                                                   "AWS_DEFAULT_REGION",
                                                   "AWS_ENDPOINT_URL",
                                                   "AWS_ENDPOINT_URL_S3",
                                                   "AWS_ENDPOINT_URL_STS",
                                                   "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                                                   "AWS_USE_FIPS_ENDPOINT",
                                                   "AWS_USE_DUALSTACK_ENDPOINT",
                                                   "AWS_SIGV4A_SIGNING_REGION_SET",
                                                   "AWS_REQUEST_PAYER",
                                                   "HOME"};

namespace internal {

// The token of HF_TOKEN or the file; empty when there is none.
absl::StatusOr<std::string> HuggingFaceToken(const Environment& environment, ReadableFileSystem& files);

using Found = absl::StatusOr<std::optional<Credentials>>;

// The JSON of AWS's endpoints and of credential_process. DataLoss, without quoting it, when keys are missing.
absl::StatusOr<Credentials> ParseCredentialsJson(std::string_view text);

// RFC 3339, as "2026-11-23T01:02:03Z", with or without a fraction; nullopt for other texts.
std::optional<std::chrono::system_clock::time_point> ParseTime(std::string_view text);

// Whether an environment variable is set to something else than "", "0", "false" and "no".
bool IsSet(const Environment& environment, const char* name);

}  // namespace internal
}  // namespace shardkit::remote
