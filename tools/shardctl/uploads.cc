// shardctl uploads
#include <string>
#include <vector>

#include "command_line.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {

int RunUploads(int argc, char** argv) {
  CommandLine line("uploads", "list or abort what killed writers left in an object store",
                   "[OPTION]... list|abort URL...");
  std::vector<std::string> words;
  bool json = false;
  line.Arguments("list|abort URL", 2, SIZE_MAX, &words);
  line.StoreOptions(StoreUse::kManage);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes(
      "Finds, below each URL, the uploads that were neither completed nor aborted, whose parts the store keeps and\n"
      "charges for, and the locks of datasets. Writers that are at work have both: abort only when none is.");
  line.Example("shardctl uploads list s3://bucket/dataset", "what a writer that was killed has left");
  line.Example("shardctl uploads abort s3://bucket/dataset", "remove it; then pack --resume goes on");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const bool abort = words[0] == "abort";
  if (!abort && words[0] != "list") return line.UsageError(Quote(words[0]) + " is not list or abort");

  Json document;
  document["leftovers"] = Json::array();
  for (size_t i = 1; i < words.size(); ++i) {
    const absl::StatusOr<std::vector<shardkit::Leftover>> leftovers = shardkit::ListLeftovers(words[i]);
    if (!leftovers.ok()) return Fail(leftovers.status());
    for (const shardkit::Leftover& leftover : *leftovers) {
      if (abort) {
        const absl::Status removed = shardkit::RemoveLeftover(leftover);
        if (!removed.ok()) return Fail(removed);
      }
      const bool lock = leftover.upload_id.empty();
      document["leftovers"].push_back({{"url", leftover.url},
                                       {"kind", lock ? "lock" : "upload"},
                                       {"upload_id", lock ? Json(nullptr) : Json(leftover.upload_id)},
                                       {"started", lock ? Json(nullptr) : Json(leftover.started)}});
      if (json) continue;
      Stdout().Write(Printable(leftover.url) + (lock ? "  lock" : "  upload begun " + Printable(leftover.started)) +
                     (abort ? ", removed\n" : "\n"));
    }
  }
  if (json) PrintJson(document);
  return kExitSuccess;
}

}  // namespace shardctl
