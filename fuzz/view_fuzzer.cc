// Any bytes as what a browser asks shardctl view for: a line with a path and its parameters, and behind it a value of
// the dataset that is looked at. Whatever comes, the reply is one that the page knows, and never a document of its own.

#include "tools/view/api.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shardkit/dataset_writer.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"
#include "support/require.h"
#include "tools/view/guard.h"
#include "tools/view/report_page.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

std::unique_ptr<FileSystem> MakeDataset(std::string_view value) {
  auto files = NewMemoryFileSystem();
  const auto column = [](const std::string& name, Type type) {
    return Column{.name = name, .type = type, .nullable = name != "key", .is_key = name == "key", .dtype = Type::kI16};
  };
  const Schema schema = Schema::Create({column("key", Type::kUtf8), column("v", Type::kBytes), column("i", Type::kI64),
                                        column("a", Type::kNdarray), column("m", Type::kRle)})
                            .value();
  auto writer = DatasetWriter::Create(*files, "/d", schema, {});
  RequireOk(writer.status(), "creating the dataset");
  std::string array, mask;
  RequireOk(AppendNdarray(Type::kI16, std::vector<uint64_t>{3}, "abcdef", &array), "making an array");
  RleList masks;
  masks.Append(Rle{2, 2, {1, 3}});
  RequireOk(AppendRleValue(masks, &mask), "making a mask");
  const std::string_view number = "12345678";
  using Row = std::vector<std::optional<Value>>;
  RequireOk((*writer)->Append(Row{Value("k"), Value(value), Value(number), Value(array), Value(mask)}), "appending");
  RequireOk((*writer)->Append(Row{Value("l"), std::nullopt, std::nullopt, std::nullopt, std::nullopt}), "appending");
  RequireOk((*writer)->Finish().status(), "finishing");
  return files;
}

// "PATH NAME=VALUE NAME=VALUE …", where nothing is encoded.
shardctl::Request ParseRequest(std::string_view line) {
  shardctl::Request request;
  bool first = true;
  while (true) {
    const size_t end = line.find(' ');
    const std::string word(line.substr(0, end));
    if (first) {
      request.path = word;
    } else {
      const size_t equals = word.find('=');
      request.parameters.emplace(word.substr(0, equals), equals == word.npos ? "" : word.substr(equals + 1));
    }
    first = false;
    if (end == line.npos) return request;
    line.remove_prefix(end + 1);
  }
}

void CheckReply(const shardctl::Request& request, const shardctl::Reply& reply) {
  Require(reply.status == 200 || (reply.status >= 400 && reply.status <= 503), "a status that the page knows");
  if (reply.type == "application/json") {
    const auto document = shardctl::Json::parse(reply.body, nullptr, false);
    Require(document.is_object(), "a JSON object");
    Require((reply.status == 200) != document.contains("error") || request.path.ends_with("/state") ||
                request.path.ends_with("/statistics"),
            "an error where there is one");
  } else if (reply.type.starts_with("text/") || reply.type == "image/svg+xml") {
    Require(request.path == "/" || request.path.starts_with("/page/"), "documents only of the page itself");
  }
  if (reply.stream) {
    (void)reply.stream([](std::string_view) { return absl::OkStatus(); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > (64 << 10)) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\n');
  const std::string_view line = input.substr(0, end);
  const std::string_view value = end == input.npos ? "" : input.substr(end + 1);

  const shardctl::Guard guard("127.0.0.1", 80);
  Require(!guard.KnowsToken(line), "nobody guesses the token");
  Require(!guard.KnowsCookie(line), "nobody guesses the cookie");
  if (const auto head = shardctl::ParseRequestHead(input); head.ok()) {
    Require(head->request.path.starts_with('/') || input.find('%') != input.npos, "a path");
    if (const auto part = shardctl::PartOf(head->range, size)) {
      Require(part->first < part->second && part->second <= size, "a part of it");
    }
  }
  Require(!guard.KnowsHost(line) || line.find("127.0.0.1") != line.npos || line.find("localhost") != line.npos ||
              line.find("[::1]") != line.npos,
          "only this machine");
  const std::string html = shardctl::HtmlText(line);
  Require(html.find_first_of("<>\"'") == html.npos, "no markup");

  const auto files = MakeDataset(value);
  std::vector<shardctl::Entry> entries(1);
  auto opened = shardctl::ViewedDataset::Open(*files, "/d");
  RequireOk(opened.status(), "opening");
  entries[0].dataset = *std::move(opened);
  shardctl::ViewApi api(std::move(entries));
  const shardctl::Request request = ParseRequest(line);
  CheckReply(request, api.Answer(request));
  return 0;
}
