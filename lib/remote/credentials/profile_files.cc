#include "remote/credentials/profile_files.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "remote/credentials/credential_sources.h"
#include "remote/url.h"

namespace shardkit::remote {
namespace {

constexpr uint64_t kLongestFile = uint64_t{1} << 20;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// AWS's tools take "True", too.
bool IsWord(std::string_view value, std::string_view word) {
  return absl::EqualsIgnoreCase(ToAbsl(value), ToAbsl(word));
}

}  // namespace

std::string FirstOf(const Environment& environment, std::initializer_list<const char*> names,
                    std::string_view otherwise) {
  for (const char* name : names) {
    std::string value = environment(name).value_or("");
    if (!value.empty()) return value;
  }
  return std::string(otherwise);
}

std::string ValueOf(const Profile& profile, const std::string& setting) {
  const auto found = profile.find(setting);
  return found == profile.end() ? std::string() : found->second;
}

std::map<std::string, Profile> ParseProfiles(std::string_view text) {
  constexpr std::string_view kPrefix = "profile ";
  constexpr std::string_view kServices = "services ";
  std::map<std::string, Profile> profiles;
  Profile* current = nullptr;
  std::string group;  // the setting above indented ones
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed.front() == '#' || trimmed.front() == ';') continue;
    if (trimmed.front() == '[') {
      std::string_view name = Trim(trimmed.substr(1, std::min(trimmed.find(']'), trimmed.size()) - 1));
      // "[sso-session x]" and the like are no profiles. Profiles have no space in their names.
      const bool services = name.substr(0, kServices.size()) == kServices;
      if (name.substr(0, kPrefix.size()) == kPrefix) name = Trim(name.substr(kPrefix.size()));
      current = services || name.find(' ') == name.npos ? &profiles[std::string(name)] : nullptr;
      group.clear();
      continue;
    }
    const size_t equals = trimmed.find('=');
    const std::string name(Trim(trimmed.substr(0, equals)));
    if (current == nullptr || equals == trimmed.npos || name.empty()) continue;
    // An indented line belongs to the setting above it.
    const bool indented = line.front() == ' ' || line.front() == '\t';
    if (!indented) group = name;
    (*current)[indented ? StrCat(group, ".", name) : name] = Trim(trimmed.substr(equals + 1));
  }
  return profiles;
}

std::string ProfileName(const Environment& environment) {
  return FirstOf(environment, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}, "default");
}

absl::StatusOr<Profile> LoadProfile(const Environment& environment, ReadableFileSystem& files,
                                    const std::string& name) {
  const std::string folder = environment("HOME").value_or("") + "/.aws/";
  const std::string paths[] = {environment("AWS_CONFIG_FILE").value_or(folder + "config"),
                               environment("AWS_SHARED_CREDENTIALS_FILE").value_or(folder + "credentials")};
  Profile profile;
  std::map<std::string, Profile> services;
  bool found = false;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = files.ReadFile(path, kLongestFile);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    const std::map<std::string, Profile> profiles = ParseProfiles(*text);
    for (const auto& section : profiles) {
      if (section.first.find(' ') != std::string::npos) services.insert(section);
    }
    const auto here = profiles.find(name);
    if (here == profiles.end()) continue;
    found = true;
    for (const auto& setting : here->second) profile[setting.first] = setting.second;
  }
  if (!found && name != "default") {
    return NotFound(paths[0], ": no profile \"", name, "\" there or in ", paths[1],
                    "; AWS_PROFILE or source_profile names it");
  }
  for (const auto& setting : services["services " + profile["services"]]) {
    profile["services." + setting.first] = setting.second;
  }
  return profile;
}

absl::StatusOr<std::string> EndpointOf(const Environment& environment, const Profile& profile,
                                       std::string_view service) {
  const std::string ignored = ValueOf(profile, "ignore_configured_endpoint_urls");
  if (IsWord(FirstOf(environment, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}, ignored), "true")) return std::string();
  const char* const variable = service == "s3" ? "AWS_ENDPOINT_URL_S3" : "AWS_ENDPOINT_URL_STS";
  std::string origin = FirstOf(environment, {variable, "AWS_ENDPOINT_URL"}, "");
  if (origin.empty()) origin = ValueOf(profile, StrCat("services.", service, ".endpoint_url"));
  if (origin.empty()) origin = ValueOf(profile, "endpoint_url");
  if (origin.empty()) return origin;
  return CheckOrigin(origin, "AWS_ENDPOINT_URL");
}

std::string RegionOf(const Environment& environment, const Profile& profile) {
  const std::string region = ValueOf(profile, "region");
  return FirstOf(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}, region.empty() ? "us-east-1" : region);
}

absl::Status CheckSettings(const Environment& environment, const Profile& profile) {
  // Of the settings that the documentation of the AWS CLI lists for S3, those that lead requests elsewhere. The others
  // are read, or change nothing that is read or written (docs/remote.md).
  constexpr const char* kVariables[] = {"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
                                        "AWS_SIGV4A_SIGNING_REGION_SET"};
  constexpr const char* kSettings[] = {"use_fips_endpoint", "use_dualstack_endpoint", "sigv4a_signing_region_set",
                                       "s3.use_dualstack_endpoint", "s3.use_accelerate_endpoint"};
  constexpr std::string_view kAdvice =
      ": Shardkit does not know it; leave it out, and name the address in AWS_ENDPOINT_URL";
  for (const char* name : kVariables) {
    if (internal::IsSet(environment, name)) return Unimplemented(name, kAdvice);
  }
  for (const char* name : kSettings) {
    const std::string value = ValueOf(profile, name);
    if (!value.empty() && !IsWord(value, "false")) {
      return Unimplemented("profile \"", ProfileName(environment), "\": ", name, kAdvice);
    }
  }
  return absl::OkStatus();
}

}  // namespace shardkit::remote
