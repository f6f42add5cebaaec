#include "remote/credential_sources.h"

#include "absl/time/time.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "remote/profile_files.h"
#include "remote/run_command.h"

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
  if (source == "Ec2InstanceMetadata") return internal::FetchInstance(context);
  if (source == "EcsContainer") return internal::FetchContainer(context);
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
    Found role = internal::AssumeRole(context, profile, base);
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
  for (const auto fetch :
       {&internal::FetchWebIdentity, &FetchPresentProfile, &internal::FetchContainer, &internal::FetchInstance}) {
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
  return [context] { return internal::FetchGoogle(context); };
}

}  // namespace shardkit::remote
