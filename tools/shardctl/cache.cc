// shardctl cache
#include <cstdlib>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "table.h"
#include "verbs.h"

namespace shardctl {
namespace {

int List(const std::string& directory, bool json) {
  const absl::StatusOr<std::vector<shardkit::CachedObject>> objects = shardkit::ListCache(directory);
  if (!objects.ok()) return Fail(objects.status());
  Json document;
  document["objects"] = Json::array();
  uint64_t bytes = 0;
  for (const shardkit::CachedObject& object : *objects) {
    bytes += object.bytes;
    document["objects"].push_back(
        {{"url", object.url}, {"bytes", object.bytes}, {"lines", object.lines}, {"last_used", object.last_used}});
    if (!json) Stdout().Write(FormatBytes(object.bytes) + "  " + Printable(object.url) + "\n");
  }
  document["bytes"] = bytes;
  if (json) {
    PrintJson(document);
  } else {
    Stdout().Write(Counted(objects->size(), "object") + ", " + FormatBytes(bytes) + "\n");
  }
  return kExitSuccess;
}

int Verify(const std::string& directory, bool json) {
  const absl::StatusOr<shardkit::CacheCheck> check = shardkit::VerifyCache(directory);
  if (!check.ok()) return Fail(check.status());
  if (json) {
    PrintJson({{"pieces", check->pieces}, {"damaged", check->damaged}});
  } else {
    Stdout().Write(Counted(check->pieces, "piece") + ", " +
                   (check->damaged == 0 ? "none damaged" : Counted(check->damaged, "damaged one") + " forgotten") +
                   "\n");
  }
  return check->damaged == 0 ? kExitSuccess : kExitBadData;
}

int Clear(const std::string& directory, bool json) {
  if (const absl::Status status = shardkit::ClearCache(directory); !status.ok()) return Fail(status);
  return List(directory, json);
}

int Warm(const std::vector<std::string>& urls, int threads, bool json) {
  const shardkit::Cancellation* const cancellation = CancelOnSignal();
  uint64_t samples = 0;
  Progress progress("samples");
  for (const std::string& url : urls) {
    const auto dataset = OpenDataset(url);
    if (!dataset.ok()) return Fail(dataset.status());
    const auto scanner = (*dataset)->Scan({.threads = threads, .blocks_ahead = 2 * threads});
    if (!scanner.ok()) return Fail(scanner.status());
    while (true) {
      if (const absl::Status status = cancellation->Check("filling the cache"); !status.ok()) return Fail(status);
      const auto block = (*scanner)->Next();
      if (!block.ok()) return Fail(block.status());
      if (*block == nullptr) break;
      samples += (*block)->view().sample_count();
      progress.Update(samples, (*dataset)->sample_count(), 0);
    }
  }
  progress.Clear();
  if (json) {
    PrintJson({{"samples", samples}});
  } else {
    Stdout().Write(Counted(samples, "sample") + " read into the cache\n");
  }
  return kExitSuccess;
}

}  // namespace

int RunCache(int argc, char** argv) {
  CommandLine line("cache", "look into or fill the cache of remote data on local disk",
                   "[OPTION]... list|verify|clear | warm URL...");
  std::vector<std::string> words;
  bool json = false;
  uint64_t requests = 16;
  line.Arguments("list|verify|clear|warm", 1, SIZE_MAX, &words);
  line.StoreOptions(StoreUse::kRead);
  line.Count("--requests", "N", &requests, 1, 256, "warm: blocks fetched at once [16]");
  line.Flag("--json", &json, "print one JSON document");
  line.Notes(
      "list: the objects that are in the cache, at least in part. verify: compare every piece with its checksum and\n"
      "forget what is damaged; exit code 1 when there was such. clear: remove everything. warm: read the datasets, so\n"
      "that they are in the cache as far as it has room. All of them may run while others use the cache.");
  line.Example("shardctl cache warm s3://bucket/dataset --cache /nvme/cache --cache-limit 500GB",
               "fetch a dataset before training begins");
  line.Example("shardctl cache list --cache /nvme/cache", "what is there, and how large it is");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const char* const directory = std::getenv("SHARDKIT_CACHE");
  if (directory == nullptr || *directory == '\0') {
    return line.UsageError("name the cache: --cache DIR, or SHARDKIT_CACHE in the environment");
  }
  const std::string what = words[0];
  if (what == "warm") {
    if (words.size() == 1) return line.UsageError("warm needs the URL of a dataset");
    return Warm({words.begin() + 1, words.end()}, static_cast<int>(requests), json);
  }
  if (what != "list" && what != "verify" && what != "clear") {
    return line.UsageError(Quote(what) + " is not list, verify, clear or warm");
  }
  if (words.size() > 1) return line.UsageError(what + " takes no further argument");
  return what == "list" ? List(directory, json) : what == "verify" ? Verify(directory, json) : Clear(directory, json);
}

}  // namespace shardctl
