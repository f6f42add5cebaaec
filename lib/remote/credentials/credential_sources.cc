#include "remote/credentials/credential_sources.h"

#include <algorithm>

#include "absl/time/time.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "remote/credentials/profile_files.h"
#include "remote/credentials/run_command.h"
#include "remote/credentials/signature.h"
#include "remote/http/answers.h"
#include "remote/url.h"
#include "remote/xml.h"

namespace shardkit::remote {

namespace internal {

std::optional<std::chrono::system_clock::time_point> ParseTime(std::string_view text) {
  absl::Time time;
  // Not the words that absl also takes, as "infinite-future".
  if (!text.starts_with('2') || !absl::ParseTime(absl::RFC3339_full, ToAbsl(text), &time, nullptr)) return std::nullopt;
  return absl::ToChronoTime(time);
}

bool IsSet(const Environment& environment, const char* name) {
  std::string value = environment(name).value_or("");
  for (char& c : value) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return !value.empty() && value != "0" && value != "false" && value != "no";
}

absl::StatusOr<std::string> HuggingFaceToken(const Environment& environment, ReadableFileSystem& files) {
  std::string token = environment("HF_TOKEN").value_or("");
  if (!token.empty()) return token;
  const std::string home = environment("HF_HOME").value_or(environment("HOME").value_or("") + "/.cache/huggingface");
  absl::StatusOr<std::string> text = files.ReadFile(environment("HF_TOKEN_PATH").value_or(home + "/token"), 4096);
  if (absl::IsNotFound(text.status())) return std::string();
  if (!text.ok()) return text.status();
  return text->substr(0, text->find_first_of(" \r\n"));
}

absl::StatusOr<Credentials> ParseCredentialsJson(std::string_view text) {
  Credentials credentials;
  std::string session, expiration;
  const absl::Status status = ReadJson(text, /*all=*/true, [&](JsonReader& json) {
    constexpr auto kOrNull = JsonField::kOrNull;
    return json.Object({{"AccessKeyId", &credentials.keys.key_id, kOrNull},
                        {"SecretAccessKey", &credentials.keys.secret_key, kOrNull},
                        {"Token", &credentials.keys.session_token, kOrNull},
                        {"SessionToken", &session, kOrNull},
                        {"Expiration", &expiration, kOrNull}});
  });
  if (!status.ok()) return Annotate(status, "the credentials");
  if (credentials.keys.session_token.empty()) credentials.keys.session_token = session;
  if (credentials.keys.key_id.empty() || credentials.keys.secret_key.empty()) {
    return DataLoss("the credentials have no AccessKeyId or no SecretAccessKey");
  }
  if (!expiration.empty()) {
    credentials.expiry = ParseTime(expiration);
    if (!credentials.expiry) return DataLoss("the Expiration of the credentials is no time");
  }
  return credentials;
}

}  // namespace internal

namespace {

using internal::Found;

// Credentials that a machine's surroundings give: web identity, container and instance metadata, Google's metadata.

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

// The role of a profile with role_arn. `base`: who asks for it; anonymous with web_identity_token_file.
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
  credentials.expiry = internal::ParseTime(expiration);
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
  absl::StatusOr<Credentials> credentials = internal::ParseCredentialsJson(answer);
  if (!credentials.ok()) return Annotate(credentials.status(), WithoutSecrets(url));
  return *std::move(credentials);
}

Found FetchInstance(const CredentialContext& context) {
  if (internal::IsSet(context.environment, "AWS_EC2_METADATA_DISABLED")) return std::nullopt;
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
  absl::StatusOr<Credentials> credentials = internal::ParseCredentialsJson(answer);
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

constexpr std::chrono::seconds kCommandDeadline{60};

Credentials Keys(std::string id, std::string secret, std::string token = {}) {
  return {{std::move(id), std::move(secret), std::move(token)}, {}, {}};
}

Found FetchProfile(const CredentialContext& context, const std::string& name, int deeper);

// Whose role a profile with role_arn takes. nullopt when the machine has no such credentials.
Found FetchSource(const CredentialContext& context, const std::string& name, const Profile& profile, int deeper) {
  if (const std::string source = ValueOf(profile, "source_profile"); !source.empty()) {
    if (source == name) {
      return Keys(ValueOf(profile, "aws_access_key_id"), ValueOf(profile, "aws_secret_access_key"),
                  ValueOf(profile, "aws_session_token"));
    }
    if (deeper == 0) return InvalidArgument("profile \"", name, "\": its source_profile leads back, or on and on");
    return FetchProfile(context, source, deeper - 1);
  }
  const std::string source = ValueOf(profile, "credential_source");
  if (source == "Ec2InstanceMetadata") return FetchInstance(context);
  if (source == "EcsContainer") return FetchContainer(context);
  if (source != "Environment") {
    return InvalidArgument("profile \"", name, "\": role_arn comes with source_profile, web_identity_token_file, or ",
                           "credential_source = Environment, Ec2InstanceMetadata or EcsContainer");
  }
  const Environment& environment = context.environment;
  return Keys(environment("AWS_ACCESS_KEY_ID").value_or(""), environment("AWS_SECRET_ACCESS_KEY").value_or(""),
              environment("AWS_SESSION_TOKEN").value_or(""));
}

Found FetchProfile(const CredentialContext& context, const std::string& name, int deeper) {
  SHARDKIT_ASSIGN_OR_RETURN(Profile profile, LoadProfile(context.environment, *context.files, name));
  const auto refused = [&name](std::string_view setting) {
    return Unimplemented("profile \"", name, "\": Shardkit does not know ", setting,
                         "; add to ~/.aws/config a profile with credential_process = aws configure export-credentials "
                         "--profile ",
                         name, " --format process, and name it in AWS_PROFILE");
  };
  if (profile.contains("role_arn")) {
    if (profile.contains("mfa_serial")) return refused("mfa_serial");
    Credentials base;
    if (!profile.contains("web_identity_token_file")) {
      SHARDKIT_ASSIGN_OR_RETURN(std::optional<Credentials> found, FetchSource(context, name, profile, deeper));
      if (!found || found->anonymous()) {
        return FailedPrecondition("profile \"", name, "\": there are no credentials to take its role with");
      }
      base = *std::move(found);
    }
    Found role = AssumeRole(context, profile, base);
    return role.ok() ? role : Annotate(role.status(), StrCat("profile \"", name, "\": its role_arn cannot be used"));
  }
  if (profile.contains("aws_access_key_id") && profile.contains("aws_secret_access_key")) {
    return Keys(profile["aws_access_key_id"], profile["aws_secret_access_key"], profile["aws_session_token"]);
  }
  if (profile.contains("credential_process")) {
    absl::StatusOr<std::string> output = RunCommand(profile["credential_process"], kCommandDeadline);
    absl::StatusOr<Credentials> credentials = output.ok() ? internal::ParseCredentialsJson(*output) : output.status();
    if (!credentials.ok()) {
      return Annotate(credentials.status(), StrCat("profile \"", name, "\": its credential_process cannot be used"));
    }
    return *std::move(credentials);
  }
  for (const char* setting : {"sso_session", "sso_start_url", "login_session"}) {
    if (profile.contains(setting)) return refused(setting);
  }
  return std::nullopt;
}

Found FetchPresentProfile(const CredentialContext& context) {
  constexpr int kMostSources = 5;
  return FetchProfile(context, ProfileName(context.environment), kMostSources);
}

Found FetchAmazon(const CredentialContext& context) {
  const Environment& environment = context.environment;
  if (internal::IsSet(environment, "AWS_NO_SIGN_REQUEST")) return std::nullopt;
  const std::optional<std::string> id = environment("AWS_ACCESS_KEY_ID"), secret = environment("AWS_SECRET_ACCESS_KEY");
  if (id && secret) return Keys(*id, *secret, environment("AWS_SESSION_TOKEN").value_or(""));
  for (const auto fetch : {&FetchWebIdentity, &FetchPresentProfile, &FetchContainer, &FetchInstance}) {
    SHARDKIT_ASSIGN_OR_RETURN(std::optional<Credentials> found, fetch(context));
    if (found) return found;
  }
  return std::nullopt;
}

Found FetchHuggingFace(const CredentialContext& context) {
  SHARDKIT_ASSIGN_OR_RETURN(std::string token, internal::HuggingFaceToken(context.environment, *context.files));
  if (token.empty()) return std::nullopt;
  return Credentials{{}, token, {}};
}

}  // namespace

CredentialSource NewAmazonCredentials(const CredentialContext& context) {
  return [context] { return FetchAmazon(context); };
}

CredentialSource NewHuggingFaceCredentials(const CredentialContext& context) {
  return [context] { return FetchHuggingFace(context); };
}

CredentialSource NewGoogleCredentials(const CredentialContext& context) {
  return [context] { return FetchGoogle(context); };
}

}  // namespace shardkit::remote
