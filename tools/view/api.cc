#include "view/api.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardctl/numbers.h"
#include "view/overview.h"
#include "view/page.h"
#include "view/rows.h"
#include "view/sample.h"
#include "view/thumbnail.h"

namespace shardctl {
namespace {

constexpr uint64_t kMostRows = 500;
constexpr uint64_t kMostOrdinals = 10000;

Reply NotThere() { return ErrorReply(absl::NotFoundError("there is no such page")); }

std::string_view TypeOfPage(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

Reply GivePage(std::string_view name) {
  for (const PageFile& file : PageFiles()) {
    if (file.name != name) continue;
    Reply reply;
    reply.type = TypeOfPage(name);
    reply.body = file.bytes;
    return reply;
  }
  return NotThere();
}

// The part before the next '/', which is taken from `rest` with it.
std::string_view TakePart(std::string_view* rest) {
  const size_t slash = rest->find('/');
  const std::string_view part = rest->substr(0, slash);
  rest->remove_prefix(slash == rest->npos ? rest->size() : slash + 1);
  return part;
}

absl::StatusOr<Json> GiveRows(const Snapshot& snapshot, const Request& request, WorkspacePool& pool) {
  const auto first = request.Count("first", 0, 0, UINT64_MAX);
  if (!first.ok()) return first.status();
  const auto count = request.Count("count", 100, 0, kMostRows);
  if (!count.ok()) return count.status();
  const uint64_t begin = std::min(*first, snapshot.samples);
  std::vector<uint64_t> ordinals(std::min(*count, snapshot.samples - begin));
  std::iota(ordinals.begin(), ordinals.end(), begin);
  auto rows = ReadRows(snapshot, ordinals, RowOptionsOf(request), pool);
  if (!rows.ok()) return rows.status();
  return Json{
      {"samples", snapshot.samples}, {"complete", snapshot.complete}, {"first", begin}, {"rows", *std::move(rows)}};
}

absl::StatusOr<Json> GiveDrawn(const Snapshot& snapshot, const Request& request) {
  const auto seed = request.Count("seed", 0, 0, UINT64_MAX);
  if (!seed.ok()) return seed.status();
  const auto count = request.Count("count", 1, 1, kMostOrdinals);
  if (!count.ok()) return count.status();
  return Json{{"ordinals", DrawSamples(snapshot.samples, *count, *seed)}};
}

absl::StatusOr<Reply> AsReply(absl::StatusOr<Json> document) {
  if (!document.ok()) return document.status();
  return JsonReply(*document);
}

// Where the message of a predicate's error points to, counted from 0.
Json PositionIn(std::string_view message) {
  constexpr std::string_view kBefore = "character ";
  const size_t found = message.find(kBefore);
  if (!message.starts_with("predicate") || found == message.npos) return nullptr;
  uint64_t character = 0;
  for (size_t i = found + kBefore.size();
       i < message.size() && message[i] >= '0' && message[i] <= '9' && character < 1000000; ++i) {
    character = 10 * character + static_cast<uint64_t>(message[i] - '0');
  }
  return character == 0 ? Json() : Json(character - 1);
}

}  // namespace

ViewApi::ViewApi(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (size_t i = 0; i < entries_.size(); ++i) work_.push_back(std::make_unique<Work>());
}

Reply ViewApi::Answer(const Request& request) {
  std::string_view rest = request.path;
  if (rest == "/") return GivePage("index.html");
  if (rest.starts_with("/page/")) return GivePage(rest.substr(6));
  if (!rest.starts_with("/api/")) return NotThere();
  rest.remove_prefix(5);
  if (rest == "datasets") return ListDatasets();
  const std::string_view number = TakePart(&rest);
  const auto dataset = ParseCount(number, 0, entries_.empty() ? 0 : entries_.size() - 1);
  if (!dataset.ok() || entries_.empty()) return NotThere();
  auto reply = AnswerOf(*dataset, rest, request);
  return reply.ok() ? *std::move(reply) : ErrorReply(reply.status());
}

Reply ViewApi::ListDatasets() const {
  Json datasets = Json::array();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    Json document{{"id", i},
                  {"name", ViewedDataset::NameOf(entry.path)},
                  {"path", entry.path},
                  {"container", nullptr},
                  {"error", nullptr}};
    if (entry.dataset != nullptr) {
      const auto snapshot = entry.dataset->current();
      if (snapshot->reader != nullptr) document["container"] = snapshot->reader->container();
    } else {
      document["error"] = std::string(entry.status.message());
    }
    datasets.push_back(std::move(document));
  }
  return JsonReply(Json{{"datasets", std::move(datasets)}, {"version", SHARDKIT_VERSION}});
}

absl::StatusOr<Reply> ViewApi::AnswerOf(size_t number, std::string_view what, const Request& request) {
  if (entries_[number].dataset == nullptr) return entries_[number].status;
  const ViewedDataset& dataset = *entries_[number].dataset;
  Work& work = *work_[number];
  const auto snapshot = dataset.current();
  if (what == "state") {
    return JsonReply(Json{{"samples", snapshot->samples},
                          {"complete", snapshot->complete},
                          {"error", snapshot->problem.ok() ? Json() : Json(std::string(snapshot->problem.message()))}});
  }
  if (snapshot->reader == nullptr) {
    return snapshot->complete ? snapshot->problem
                              : absl::UnavailableError("the first samples are still being looked for");
  }
  if (what == "overview") return JsonReply(DescribeDataset(dataset, *snapshot));
  if (what == "statistics") return JsonReply(work.statistics.Get(dataset));
  if (what == "samples") return AsReply(GiveRows(*snapshot, request, pool_));
  if (what == "random") return AsReply(GiveDrawn(*snapshot, request));
  if (what == "find") {
    if (request.Has("key")) return AsReply(Finder::FindKey(*snapshot, request.Text("key"), pool_));
    const auto from = request.Count("from", 0, 0, UINT64_MAX);
    if (!from.ok()) return from.status();
    auto found = work.finder.Find(dataset, std::string(request.Text("where")), *from, RowOptionsOf(request), pool_);
    if (found.ok()) return JsonReply(*found);
    const std::string message(found.status().message());
    Reply reply = ErrorReply(found.status());
    reply.body = FormatJson(Json{{"error", message}, {"position", PositionIn(message)}});
    return reply;
  }
  if (what == "order" || what == "shuffle") {
    if (!snapshot->complete)
      return absl::UnavailableError("an order needs all samples, and they are still being counted");
    return AsReply(what == "order" ? work.order.Step(dataset, *snapshot, request, pool_)
                                   : work.order.Shuffle(dataset, request));
  }
  const std::string_view kind = TakePart(&what);
  const auto ordinal = ParseCount(what, 0, UINT64_MAX);
  if (!ordinal.ok()) return NotThere();
  return AnswerSample(dataset, kind, *ordinal, request);
}

absl::StatusOr<Reply> ViewApi::AnswerSample(const ViewedDataset& dataset, std::string_view what, uint64_t ordinal,
                                            const Request& request) {
  const auto snapshot = dataset.current();
  if (what == "sample") return AsReply(DescribeSample(*snapshot, ordinal, pool_));
  if (what != "thumbnail" && what != "value" && what != "array" && what != "masks") return NotThere();
  const auto column = snapshot->reader->FindColumn(request.Text("column"));
  if (!column.ok()) return column.status();
  if (ordinal >= snapshot->samples) return absl::OutOfRangeError("there is no sample " + std::to_string(ordinal));
  if (what == "value") return GiveValue(snapshot, ordinal, *column, request.Has("download"), pool_);
  if (what == "array") return AsReply(GiveArray(*snapshot, ordinal, *column, pool_));
  Reply reply;
  if (what == "masks") {
    auto words = GiveMasks(*snapshot, ordinal, *column, pool_);
    if (!words.ok()) return words.status();
    reply.type = "application/octet-stream";
    reply.body = *std::move(words);
    return reply;
  }
  const auto size = request.Count("size", 256, 16, 1024);
  if (!size.ok()) return size.status();
  ThumbnailOptions options{.columns = ImageColumns(*snapshot->reader, *column), .size = static_cast<uint32_t>(*size)};
  if (request.Has("masks")) {
    const auto masks = snapshot->reader->FindColumn(request.Text("masks"));
    if (!masks.ok()) return masks.status();
    options.masks = *masks;
  }
  auto thumbnail = MakeThumbnail(*snapshot, ordinal, options, pool_);
  if (!thumbnail.ok()) return thumbnail.status();
  reply.type = thumbnail->type;
  reply.body = std::move(thumbnail->bytes);
  return reply;
}

}  // namespace shardctl
