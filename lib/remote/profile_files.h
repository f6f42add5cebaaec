// The files in which AWS's tools keep settings and credentials.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "remote/credentials.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

using Profile = std::map<std::string, std::string>;  // settings by name

// The profiles of a file by their names; "[profile NAME]" and "[NAME]" are the same. Lines that are no setting are
// ignored, as AWS's tools do. Pure and thread-safe.
std::map<std::string, Profile> ParseProfiles(std::string_view text);

// "AWS_PROFILE", or "default".
std::string ProfileName(const Environment& environment);

// The profile of that name from AWS_CONFIG_FILE (~/.aws/config) and AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials),
// whose settings win. Empty when no file has it; NotFound, naming it, when AWS_PROFILE asks for it. Thread-safe.
absl::StatusOr<Profile> LoadProfile(const Environment& environment, ReadableFileSystem& files);

}  // namespace shardkit::remote
