// The files in which AWS's tools keep settings and credentials.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "remote/credentials/credentials.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

using Profile = std::map<std::string, std::string>;  // settings by name

// Empty when the profile does not have it.
std::string ValueOf(const Profile& profile, const std::string& setting);

// The first of the variables that is set and not empty, or the other text.
std::string FirstOf(const Environment& environment, std::initializer_list<const char*> names,
                    std::string_view otherwise);

// The sections of a file by their names; "[profile NAME]" and "[NAME]" are the same, "[services NAME]" keeps its word.
// An indented setting below "s3 =" has the name "s3.SETTING". Lines that are no setting are ignored, as AWS's tools do.
// Pure and thread-safe.
std::map<std::string, Profile> ParseProfiles(std::string_view text);

// AWS_PROFILE or AWS_DEFAULT_PROFILE, or "default".
std::string ProfileName(const Environment& environment);

// The profile of that name from AWS_CONFIG_FILE (~/.aws/config) and AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials),
// whose settings win. Settings of its section of services stand in it as "services.s3.endpoint_url". Empty when no file
// has it; NotFound, naming it, when it is not "default". Thread-safe.
absl::StatusOr<Profile> LoadProfile(const Environment& environment, ReadableFileSystem& files, const std::string& name);

// Where the requests for "s3" or "sts" go, as AWS's tools find it: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the section
// of services, endpoint_url of the profile; none of these with AWS_IGNORE_CONFIGURED_ENDPOINT_URLS. Empty: Amazon's
// own. InvalidArgument when it is no address.
absl::StatusOr<std::string> EndpointOf(const Environment& environment, const Profile& profile,
                                       std::string_view service);

// AWS_REGION, AWS_DEFAULT_REGION, the profile's, or "us-east-1".
std::string RegionOf(const Environment& environment, const Profile& profile);

// Unimplemented, naming it, when a setting is on that changes where requests go, and that Shardkit does not know.
absl::Status CheckSettings(const Environment& environment, const Profile& profile);

}  // namespace shardkit::remote
