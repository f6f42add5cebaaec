#include "remote/profile_files.h"

#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::remote {
namespace {

constexpr uint64_t kLongestFile = uint64_t{1} << 20;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

std::map<std::string, Profile> ParseProfiles(std::string_view text) {
  constexpr std::string_view kPrefix = "profile ";
  std::map<std::string, Profile> profiles;
  Profile* current = nullptr;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed.front() == '#' || trimmed.front() == ';') continue;
    if (trimmed.front() == '[') {
      std::string_view name = Trim(trimmed.substr(1, std::min(trimmed.find(']'), trimmed.size()) - 1));
      // "[sso-session x]" and the like are no profiles. Profiles have no space in their names.
      if (name.substr(0, kPrefix.size()) == kPrefix) name = Trim(name.substr(kPrefix.size()));
      current = name.find(' ') == name.npos ? &profiles[std::string(name)] : nullptr;
      continue;
    }
    const size_t equals = trimmed.find('=');
    // An indented line belongs to the setting above it.
    if (current == nullptr || equals == trimmed.npos || line.front() == ' ' || line.front() == '\t') continue;
    (*current)[std::string(Trim(trimmed.substr(0, equals)))] = Trim(trimmed.substr(equals + 1));
  }
  return profiles;
}

std::string ProfileName(const Environment& environment) { return environment("AWS_PROFILE").value_or("default"); }

absl::StatusOr<Profile> LoadProfile(const Environment& environment, ReadableFileSystem& files) {
  const std::string name = ProfileName(environment);
  const std::string folder = environment("HOME").value_or("") + "/.aws/";
  const std::string paths[] = {environment("AWS_CONFIG_FILE").value_or(folder + "config"),
                               environment("AWS_SHARED_CREDENTIALS_FILE").value_or(folder + "credentials")};
  Profile profile;
  bool found = false;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = files.ReadFile(path, kLongestFile);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    const std::map<std::string, Profile> profiles = ParseProfiles(*text);
    const auto here = profiles.find(name);
    if (here == profiles.end()) continue;
    found = true;
    for (const auto& setting : here->second) profile[setting.first] = setting.second;
  }
  if (!found && environment("AWS_PROFILE")) {
    return NotFound(paths[0], ": no profile \"", name, "\" there or in ", paths[1], "; AWS_PROFILE names it");
  }
  return profile;
}

}  // namespace shardkit::remote
