// What a server, a user's files or a user may say: listings, answers to ranges, errors, credentials, profiles, URLs.
//
// Input: a byte that chooses among them, then its text.

#include <algorithm>
#include <cstdint>
#include <string>

#include "remote/cache/cache_line.h"
#include "remote/credentials/credential_sources.h"
#include "remote/credentials/profile_files.h"
#include "remote/credentials/signature.h"
#include "remote/http/answers.h"
#include "remote/object_writes.h"
#include "remote/url.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit::remote;
using namespace shardkit::fuzz;

void ReadAnswer(Input& input, std::string_view text) {
  HttpResponse response;
  response.status = input.Below(2) == 0 ? 206 : static_cast<int>(input.Below(600));
  const ObjectVersion expected = {input.Below(3), input.Below(2) == 0 ? "" : "\"e\""};
  const uint64_t offset = input.Below(4), length = 1 + input.Below(4);
  response.headers = {{"etag", "\"e\""}, {"content-range", std::string(text.substr(0, 100))}};
  response.body = text;
  response.buffer_bytes = length;
  const absl::Status status = CheckRange(expected, offset, length, response);
  const ObjectVersion version = VersionOf(response);
  if (status.ok()) Require(version.size >= offset + length, "a range lies in its object");
  if (status.ok() && expected.size != 0) Require(version.size == expected.size, "the object has its size");
  (void)StatusOfAnswer(response);
}

void ReadUrl(const std::string& text) {
  (void)WithoutSecrets(text);
  const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(text);
  if (!url.ok()) return;
  const std::string shown = Describe(*url);
  if (url->scheme == Scheme::kS3 || url->scheme == Scheme::kGoogle) {
    const absl::StatusOr<ObjectUrl> again = ParseObjectUrl(shown);
    Require(again.ok() && again->bucket == url->bucket && again->key == url->key, "a URL is shown as it is");
    const Target target = S3Target({.region = "r", .path_style = true}, url->bucket, url->key);
    Require(target.path.find_first_of("?# ") == std::string::npos, "a key stays in its path");
  }
}

// The header of a line of the cache, with and without the checksum that it should have.
void ReadLine(std::string page) {
  (void)DecodeLineHeader(page);
  page.resize(kCachePageBytes);
  std::copy_n("SHKCACHE\1\0\0", 12, page.begin());
  std::fill_n(page.begin() + 48, 8, '\0');
  const uint64_t checksum = shardkit::Hash64(page);
  std::copy_n(reinterpret_cast<const char*>(&checksum), 8, page.begin() + 48);
  const absl::StatusOr<LineName> name = DecodeLineHeader(page);
  if (!name.ok()) return;
  Require(name->begin < name->size && name->bytes() <= kLineBytes && name->pieces() <= kLinePieces,
          "a line lies in its object");
  const absl::StatusOr<LineName> again = DecodeLineHeader(EncodeLineHeader(*name));
  Require(again.ok() && *again == *name, "a header is written as it is read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  switch (input.Below(6)) {
    case 0:
      if (const auto page = ParseListing(input.rest()); page.ok()) {
        for (const ListedObject& object : page->objects) Require(!object.name.empty(), "an object has a name");
      }
      (void)ParseUploads(input.rest());
      break;
    case 1: {
      Input numbers = input;
      ReadAnswer(numbers, input.rest().substr(std::min<size_t>(input.rest().size(), 6)));
      break;
    }
    case 2:
      if (const auto keys = internal::ParseCredentialsJson(input.rest()); keys.ok()) {
        Require(!keys->anonymous(), "credentials have a key");
      }
      (void)internal::ParseTime(input.rest());
      break;
    case 3:
      for (const auto& [name, profile] : ParseProfiles(input.rest()))
        Require(!profile.contains(""), "a setting has a name");
      break;
    case 4:
      ReadUrl(std::string(input.rest()));
      break;
    default: {
      const auto next = ResolveRedirect("https://host/a?b=c", std::string(input.rest()));
      if (next.ok()) Require(next->starts_with("https://"), "a redirect stays safe");
      break;
    }
  }
  ReadLine(std::string(input.rest()));
  return 0;
}
