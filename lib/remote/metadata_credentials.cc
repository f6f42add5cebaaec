// Credentials that a machine's surroundings give: web identity, container and instance metadata, Google's metadata.
#include <algorithm>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "remote/credential_sources.h"
#include "remote/object_error.h"
#include "remote/profile_files.h"
#include "remote/signature.h"
#include "remote/url.h"
#include "remote/xml.h"

namespace shardkit::remote::internal {
namespace {

// Metadata servers are on the same machine. On other machines nobody answers, and every start would wait so long.
constexpr std::chrono::milliseconds kMetadataDeadline{1'000};
constexpr int kAttempts = 3;
constexpr uint64_t kLongestToken = uint64_t{64} << 10;

// The body of a good answer.
absl::StatusOr<std::string> Ask(const CredentialContext& context, const HttpRequest& request) {
  absl::Status error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    absl::StatusOr<HttpResponse> response = context.http->Send(request);
    error = response.ok() ? StatusOfAnswer(*response) : response.status();
    if (error.ok()) return std::move(response->body);
    // Where nobody answers, nobody will; a server that is busy may.
    if (!response.ok() || !absl::IsUnavailable(error)) break;
  }
  return Annotate(error, WithoutSecrets(request.url));
}

HttpRequest MetadataRequest(std::string url, std::vector<HttpHeader> headers) {
  HttpRequest request;
  request.url = std::move(url);
  request.headers = std::move(headers);
  request.deadline = kMetadataDeadline;
  request.proxy = false;
  request.follow_redirects = false;
  return request;
}

bool Unreachable(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

// The address that the container's environment gives may be in plain HTTP only on the machine itself.
bool IsLocal(std::string_view url) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"http://127.0.0.1", "http://localhost", "http://[::1]",
                                              "http://169.254.170.2", "http://169.254.170.23", "http://[fd00:ec2::23]"},
      [url](std::string_view origin) {
        return url.substr(0, origin.size()) == origin &&
               (url.size() == origin.size() || url[origin.size()] == ':' || url[origin.size()] == '/');
      });
}

}  // namespace

Found AssumeRole(const CredentialContext& context, const Profile& profile, const Credentials& base) {
  const std::string session = ValueOf(profile, "role_session_name");
  std::vector<std::pair<std::string, std::string>> form = {{"Action", "AssumeRole"},
                                                           {"Version", "2011-06-15"},
                                                           {"RoleArn", ValueOf(profile, "role_arn")},
                                                           {"RoleSessionName", session.empty() ? "shardkit" : session}};
  for (const auto& [setting, name] :
       {std::pair("external_id", "ExternalId"), {"duration_seconds", "DurationSeconds"}}) {
    const std::string value = ValueOf(profile, setting);
    if (!value.empty()) form.emplace_back(name, value);
  }
  if (base.anonymous()) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::string token,
                              context.files->ReadFile(ValueOf(profile, "web_identity_token_file"), kLongestToken));
    form.front().second = "AssumeRoleWithWebIdentity";
    form.emplace_back("WebIdentityToken", token);
  }
  const std::string region = RegionOf(context.environment, profile);
  SHARDKIT_ASSIGN_OR_RETURN(std::string origin, EndpointOf(context.environment, profile, "sts"));
  if (origin.empty()) origin = StrCat("https://sts.", region, AmazonDomain(region));
  const Target target = {origin, "/", {}};
  const std::string body = EncodeQuery(form);
  HttpRequest request;
  request.method = "POST";
  request.url = target.Url();
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = body;
  request.certificates = context.certificates;
  request.deadline = std::chrono::seconds(10);
  if (!base.anonymous()) {
    SHARDKIT_RETURN_IF_ERROR(Sign({region, "sts", std::chrono::system_clock::now()}, base.keys, request.method, target,
                                  Sha256Hex(body), &request.headers));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string answer, Ask(context, request));
  Credentials credentials;
  std::string expiration;
  SHARDKIT_RETURN_IF_ERROR(
      ForEachXmlElement(answer, [&](std::string_view element, std::string_view text) -> absl::Status {
        if (element.ends_with("/Credentials/AccessKeyId")) credentials.keys.key_id = text;
        if (element.ends_with("/Credentials/SecretAccessKey")) credentials.keys.secret_key = text;
        if (element.ends_with("/Credentials/SessionToken")) credentials.keys.session_token = text;
        if (element.ends_with("/Credentials/Expiration")) expiration = text;
        return absl::OkStatus();
      }));
  credentials.expiry = ParseTime(expiration);
  if (credentials.keys.secret_key.empty() || !credentials.expiry)
    return DataLoss(request.url, ": the answer has no credentials");
  return credentials;
}

Found FetchWebIdentity(const CredentialContext& context) {
  const Environment& environment = context.environment;
  const std::optional<std::string> path = environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                                   role = environment("AWS_ROLE_ARN");
  if (!path || !role) return std::nullopt;
  // A profile that cannot be read matters only to those who use it.
  Profile profile = LoadProfile(environment, *context.files, ProfileName(environment)).value_or(Profile());
  profile["role_arn"] = *role;
  profile["role_session_name"] = environment("AWS_ROLE_SESSION_NAME").value_or("");
  profile["web_identity_token_file"] = *path;
  return AssumeRole(context, profile, {});
}

Found FetchContainer(const CredentialContext& context) {
  const Environment& environment = context.environment;
  std::string url;
  if (const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    url = "http://169.254.170.2" + *relative;
  } else if (const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
    url = *full;
    if (url.substr(0, 8) != "https://" && !IsLocal(url)) {
      return InvalidArgument("AWS_CONTAINER_CREDENTIALS_FULL_URI: ", WithoutSecrets(url),
                             " is neither of https nor on this machine");
    }
  } else {
    return std::nullopt;
  }
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  if (const auto path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    SHARDKIT_ASSIGN_OR_RETURN(token, context.files->ReadFile(*path, kLongestToken));
    token.resize(token.find_last_not_of(" \r\n") + 1);
  }
  std::vector<HttpHeader> headers;
  if (!token.empty()) headers.push_back({"authorization", token, /*secret=*/true});
  SHARDKIT_ASSIGN_OR_RETURN(const std::string answer, Ask(context, MetadataRequest(url, std::move(headers))));
  absl::StatusOr<Credentials> credentials = ParseCredentialsJson(answer);
  if (!credentials.ok()) return Annotate(credentials.status(), WithoutSecrets(url));
  return *std::move(credentials);
}

Found FetchInstance(const CredentialContext& context) {
  if (IsSet(context.environment, "AWS_EC2_METADATA_DISABLED")) return std::nullopt;
  const std::string origin =
      context.environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254");
  HttpRequest request =
      MetadataRequest(origin + "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}});
  request.method = "PUT";
  const absl::StatusOr<std::string> token = Ask(context, request);
  if (!token.ok())
    return Unreachable(token.status()) || absl::IsNotFound(token.status()) ? Found(std::nullopt)
                                                                           : Found(token.status());
  const std::vector<HttpHeader> headers = {{"x-aws-ec2-metadata-token", *token, /*secret=*/true}};
  const std::string folder = origin + "/latest/meta-data/iam/security-credentials/";
  const absl::StatusOr<std::string> role = Ask(context, MetadataRequest(folder, headers));
  if (absl::IsNotFound(role.status())) return std::nullopt;  // the instance has no role
  if (!role.ok()) return role.status();
  const std::string url = folder + PercentEncode(role->substr(0, role->find('\n')), false);
  SHARDKIT_ASSIGN_OR_RETURN(const std::string answer, Ask(context, MetadataRequest(url, headers)));
  absl::StatusOr<Credentials> credentials = ParseCredentialsJson(answer);
  if (!credentials.ok()) return Annotate(credentials.status(), url);
  return *std::move(credentials);
}

Found FetchGoogle(const CredentialContext& context) {
  const Environment& environment = context.environment;
  const std::optional<std::string> id = environment("GS_ACCESS_KEY_ID"), secret = environment("GS_SECRET_ACCESS_KEY");
  if (id && secret) return Credentials{{*id, *secret, {}}, {}, {}};
  if (const auto token = environment("GOOGLE_OAUTH_ACCESS_TOKEN")) return Credentials{{}, *token, {}};
  const std::string url = StrCat("http://", environment("GCE_METADATA_HOST").value_or("metadata.google.internal"),
                                 "/computeMetadata/v1/instance/service-accounts/default/token");
  const absl::StatusOr<std::string> answer = Ask(context, MetadataRequest(url, {{"metadata-flavor", "Google"}}));
  if (answer.ok()) {
    std::string token;
    uint64_t seconds = 0;
    const absl::Status status = ReadJson(*answer, /*all=*/true, [&](JsonReader& json) {
      return json.Object({{"access_token", &token}, {"expires_in", &seconds, JsonField::kRequired, 1'000'000}});
    });
    if (!status.ok()) return Annotate(status, StrCat(url, ": the answer has no access token"));
    return Credentials{{}, token, std::chrono::system_clock::now() + std::chrono::seconds(seconds)};
  }
  if (!Unreachable(answer.status()) && !absl::IsNotFound(answer.status())) return answer.status();
  if (environment("GOOGLE_APPLICATION_CREDENTIALS")) {
    return Unimplemented(
        "GOOGLE_APPLICATION_CREDENTIALS: Shardkit does not read key files; run: "
        "export GOOGLE_OAUTH_ACCESS_TOKEN=\"$(gcloud auth application-default print-access-token)\"");
  }
  return std::nullopt;
}

}  // namespace shardkit::remote::internal
