// The places where credentials are, as the tools of each provider look for them.
#pragma once

#include <memory>
#include <string_view>

#include "remote/credentials.h"
#include "remote/http_client.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// What sources use. Must outlive them.
struct CredentialContext {
  Environment environment = &ProcessEnvironment;
  ReadableFileSystem* files = PosixFileSystem();
  HttpClient* http = nullptr;
};

// In this order: none when AWS_NO_SIGN_REQUEST is set; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN;
// the role of AWS_ROLE_ARN with the token of AWS_WEB_IDENTITY_TOKEN_FILE; the profile (keys or credential_process);
// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI; the instance's role (IMDSv2), unless AWS_EC2_METADATA_DISABLED.
std::unique_ptr<CredentialSource> NewAmazonCredentials(const CredentialContext& context);

// GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (HMAC keys); GOOGLE_OAUTH_ACCESS_TOKEN; the machine's service account.
std::unique_ptr<CredentialSource> NewGoogleCredentials(const CredentialContext& context);

// HF_TOKEN, or the file of HF_TOKEN_PATH (~/.cache/huggingface/token).
std::unique_ptr<CredentialSource> NewHuggingFaceCredentials(const CredentialContext& context);

namespace internal {

using Found = absl::StatusOr<std::optional<Credentials>>;

Found FetchWebIdentity(const CredentialContext& context);
Found FetchContainer(const CredentialContext& context);
Found FetchInstance(const CredentialContext& context);
Found FetchGoogle(const CredentialContext& context);

// The JSON of AWS's endpoints and of credential_process. DataLoss, without quoting it, when keys are missing.
absl::StatusOr<Credentials> ParseCredentialsJson(std::string_view text);

// "2026-11-23T01:02:03Z", with or without a fraction; nullopt for other texts.
std::optional<std::chrono::system_clock::time_point> ParseTime(std::string_view text);

// Whether an environment variable is set to something else than "", "0", "false" and "no".
bool IsSet(const Environment& environment, const char* name);

}  // namespace internal
}  // namespace shardkit::remote
