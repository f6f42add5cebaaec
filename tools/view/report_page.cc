#include "view/report_page.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "shardctl/dataset_access.h"
#include "shardctl/numbers.h"
#include "shardctl/report.h"
#include "view/overview.h"
#include "view/page.h"
#include "view/rows.h"
#include "view/statistics.h"
#include "view/thumbnail.h"

namespace shardctl {
namespace {

constexpr uint32_t kThumbnailPixels = 320;

std::string Tag(const std::string& name, const std::string& attributes, const std::string& content) {
  return "<" + name + (attributes.empty() ? "" : " " + attributes) + ">" + content + "</" + name + ">\n";
}

std::string Row(const std::string& cell, const std::vector<std::string>& cells) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool heading = cell == "th" || i == 0;
    row += "<" + std::string(heading ? "th" : "td") +
           (cell == "th" ? " scope=\"col\">"
            : heading    ? " scope=\"row\">"
                         : ">") +
           cells[i] + (heading ? "</th>" : "</td>");
  }
  return "<tr>" + row + "</tr>\n";
}

// 1234567 -> 1,234,567
std::string Grouped(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string NumberText(const Json& number) {
  if (number.is_number_unsigned()) return Grouped(number.get<uint64_t>());
  if (number.is_number_integer()) return std::to_string(number.get<int64_t>());
  if (!number.is_number()) return number.is_string() ? number.get<std::string>() : "";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number.get<double>());
  return text;
}

// Bars, and the ends of the range below them.
std::string Chart(const Json& histogram, const std::string& label, const std::string& from, const std::string& to) {
  if (!histogram.is_array() || histogram.empty()) return "";
  uint64_t most = 1;
  for (const Json& bucket : histogram) most = std::max(most, bucket["count"].get<uint64_t>());
  std::string bars;
  for (size_t i = 0; i < histogram.size(); ++i) {
    const auto count = histogram[i]["count"].get<uint64_t>();
    if (count == 0) continue;
    // A single value among many is seen, too.
    const double height = std::max(1.0, 32.0 * static_cast<double>(count) / static_cast<double>(most));
    bars += "<rect x=\"" + std::to_string(i * 6) + "\" y=\"" + FormatFixed(32 - height, 1) +
            "\" width=\"5\" height=\"" + FormatFixed(height, 1) + "\"/>";
  }
  return "<figure><svg role=\"img\" aria-label=\"" + HtmlText(label) + "\" viewBox=\"0 0 " +
         std::to_string(histogram.size() * 6) + " 32\" preserveAspectRatio=\"none\">" + bars +
         "</svg><figcaption><span>" + HtmlText(from) + "</span><span>" + HtmlText(to) + "</span></figcaption></figure>";
}

std::string Figures(const Json& overview) {
  std::string figures;
  const auto add = [&](const std::string& value, const std::string& name) {
    figures += "<div><dd>" + value + "</dd><dt>" + name + "</dt></div>";
  };
  const auto count = [&](uint64_t number, const std::string& name) {
    add(Grouped(number), number == 1 ? name : name + "s");
  };
  count(overview["samples"].get<uint64_t>(), "sample");
  add(FormatBytes(overview["bytes"].get<uint64_t>()), "stored");
  count(overview["shards"].get<uint64_t>(), "shard");
  count(overview["columns"].size(), "column");
  if (overview["generation"].is_number()) add(Grouped(overview["generation"].get<uint64_t>()), "generation");
  return Tag("dl", "class=\"figures\"", figures);
}

std::string ValuesText(const Json& statistics) {
  std::string text;
  if (statistics.value("numbers", Json()).is_object()) {
    const Json& numbers = statistics["numbers"];
    text += Chart(numbers["histogram"], "histogram of the numbers", NumberText(numbers["minimum"]),
                  NumberText(numbers["maximum"]));
  }
  if (statistics.value("strings", Json()).is_array()) {
    std::string list;
    for (const Json& string : statistics["strings"]) {
      list += "<li><span>" + HtmlText(string["text"].get<std::string>()) + "</span> <small>" +
              Grouped(string["count"].get<uint64_t>()) + "</small></li>";
    }
    text += "<ul class=\"texts\">" + list + "</ul>";
  }
  return text;
}

std::string ColumnRow(const Json& column, const Json& statistics) {
  std::vector<std::string> cells = {
      HtmlText(column["name"].get<std::string>()) + (column["key"] == true ? " <small>key</small>" : ""),
      HtmlText(column["type"].get<std::string>()) + " <small>" + HtmlText(column["codec"].get<std::string>()) +
          "</small>"};
  if (!statistics.contains("present")) {
    cells.insert(cells.end(), {"", "", "", ""});
    return Row("td", cells);
  }
  const auto absent = statistics["absent"].get<uint64_t>();
  const auto bytes = statistics["value_bytes"].get<uint64_t>();
  cells.push_back(Grouped(statistics["present"].get<uint64_t>()) +
                  (absent == 0 ? "" : " <small>" + Grouped(absent) + " absent</small>"));
  std::string stored = FormatBytes(bytes);
  if (statistics["stored_bytes"].is_number() && statistics["stored_bytes"] != 0) {
    stored += " <small>" + FormatFixed(static_cast<double>(bytes) / statistics["stored_bytes"].get<double>(), 2) +
              "×</small>";
  }
  cells.push_back(stored);
  const Json& lengths = statistics["lengths"];
  cells.push_back(lengths.is_object()
                      ? Chart(lengths["histogram"], "histogram of the lengths",
                              FormatBytes(lengths["min"].get<uint64_t>()), FormatBytes(lengths["max"].get<uint64_t>()))
                      : "");
  cells.push_back(ValuesText(statistics));
  return Row("td", cells);
}

std::string Columns(const Json& overview, const Json& statistics) {
  std::string rows =
      "<thead>" + Row("th", {"Column", "Type", "Present", "Bytes", "Lengths", "Values"}) + "</thead><tbody>";
  const Json& known = statistics["columns"];
  for (size_t i = 0; i < overview["columns"].size(); ++i) {
    rows += ColumnRow(overview["columns"][i], i < known.size() ? known[i] : Json::object());
  }
  const std::string source = statistics["state"] == "failed" ? statistics["error"].get<std::string>()
                                                             : statistics["source"].get<std::string>();
  return "<h2>Columns</h2><p class=\"quiet\">" + HtmlText(source) +
         "</p><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Columns\">" +
         Tag("table", "", rows + "</tbody>") + "</div>";
}

std::string Generations(const Json& overview) {
  if (overview["generations"].size() < 2) return "";
  std::string rows = "<thead>" + Row("th", {"Generation", "Change", "Samples", "Bytes"}) + "</thead><tbody>";
  for (const Json& each : overview["generations"]) {
    rows += Row("td", {Grouped(each["generation"].get<uint64_t>()), HtmlText(each["text"].get<std::string>()),
                       Grouped(each["samples"].get<uint64_t>()), FormatBytes(each["bytes"].get<uint64_t>())});
  }
  return "<h2>Generations</h2>" + Tag("table", "", rows + "</tbody>");
}

std::string Problems(const shardkit::ValidateReport* report) {
  if (report == nullptr)
    return "<h2>Problems</h2><p class=\"quiet\">Checksums were not compared (--no-validate).</p>\n";
  if (report->ok()) {
    return "<h2>Problems</h2><p>None: each checksum of " + FormatBytes(report->bytes) +
           " is right, and each rule is kept.</p>\n";
  }
  std::string list;
  for (const shardkit::Problem& problem : report->problems)
    list +=
        "<li>" +
        HtmlText(problem.message.starts_with(problem.path) ? problem.message : problem.path + ": " + problem.message) +
        "</li>";
  return "<h2>Problems</h2><p class=\"damaged\">" + Counted(report->problem_count, "problem") + "</p>" +
         Tag("ul", "class=\"problems\"", list);
}

// The first column that `matches`.
template <typename Matches>
std::optional<size_t> FindColumn(const Json& overview, Matches matches) {
  for (size_t i = 0; i < overview["columns"].size(); ++i) {
    if (matches(overview["columns"][i])) return i;
  }
  return std::nullopt;
}

// Columns that say in a word what a sample is.
std::vector<std::string> CaptionColumns(const Json& overview) {
  std::vector<std::string> names;
  for (const Json& column : overview["columns"]) {
    const std::string kind = column["kind"];
    const bool classes = column["class_names"].is_array();
    if (column["key"] == true || names.size() == 3 || (kind != "text" && kind != "number" && !classes)) continue;
    names.push_back(column["name"]);
  }
  return names;
}

class Samples {
 public:
  Samples(const Snapshot& snapshot, const Json& overview) : snapshot_(snapshot) {
    const auto image = FindColumn(overview, [](const Json& column) { return column["kind"] == "image"; });
    images_ = ImageColumns(*snapshot.reader, image);
    masks_ = FindColumn(overview, [](const Json& column) { return column["kind"] == "masks"; });
    rows_.captions = CaptionColumns(overview);
  }

  absl::StatusOr<std::string> Draw(const ReportOptions& options, size_t used) {
    std::vector<uint64_t> ordinals = DrawSamples(snapshot_.samples, options.samples, options.seed);
    std::ranges::sort(ordinals);
    const auto rows = ReadRows(snapshot_, ordinals, rows_, pool_);
    if (!rows.ok()) return rows.status();
    std::string cards;
    size_t shown = 0;
    for (const Json& row : *rows) {
      if (absl::Status status = options.cancellation->Check("drawing samples"); !status.ok()) return status;
      const std::string card = Card(row);
      if (used + cards.size() + card.size() > options.limit) break;
      cards += card;
      ++shown;
    }
    return "<h2>Samples</h2><p class=\"quiet\">" + Grouped(shown) + " of " + Grouped(snapshot_.samples) +
           ", drawn at random (seed " + std::to_string(options.seed) + ")</p>" + Tag("ol", "class=\"samples\"", cards);
  }

 private:
  std::string Card(const Json& row) {
    std::string text = "<strong>" +
                       HtmlText(row["key"].is_string() ? row["key"].get<std::string>()
                                                       : "sample " + Grouped(row["ordinal"].get<uint64_t>())) +
                       "</strong>";
    for (const Json& caption : row["captions"]) {
      text += "<span><small>" + HtmlText(caption["column"].get<std::string>()) + "</small> " +
              HtmlText(caption["text"].get<std::string>()) + "</span>";
    }
    std::string image;
    if (!images_.empty()) {
      const auto thumbnail = MakeThumbnail(snapshot_, row["ordinal"].get<uint64_t>(),
                                           {.columns = images_, .masks = masks_, .size = kThumbnailPixels}, pool_);
      if (thumbnail.ok()) {
        image =
            "<img alt=\"\" src=\"data:" + thumbnail->type + ";base64," + absl::Base64Escape(thumbnail->bytes) + "\">";
      } else {
        const bool absent = absl::IsNotFound(thumbnail.status());
        image = "<p class=\"frame" + std::string(absent ? " quiet" : " damaged") + "\">" +
                (absent ? "no image" : HtmlText(std::string(thumbnail.status().message()))) + "</p>";
      }
    }
    if (row["error"].is_string())
      text += "<span class=\"damaged\">" + HtmlText(row["error"].get<std::string>()) + "</span>";
    return Tag("li", "", image + text);
  }

  const Snapshot& snapshot_;
  std::vector<size_t> images_;
  std::optional<size_t> masks_;
  RowOptions rows_;
  WorkspacePool pool_;
};

}  // namespace

std::string HtmlText(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const char c = text[0];
    if (c == '&') {
      html += "&amp;";
    } else if (c == '<') {
      html += "&lt;";
    } else if (c == '>') {
      html += "&gt;";
    } else if (c == '"') {
      html += "&quot;";
    } else if (c == '\'') {
      html += "&#39;";
    } else if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      html += "\xef\xbf\xbd";
    } else {
      html.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return html;
}

absl::StatusOr<std::string> MakeReport(const ViewedDataset& dataset, const Snapshot& snapshot,
                                       const ReportOptions& options) {
  const Json overview = DescribeDataset(dataset, snapshot);
  const Json statistics = ReadStatistics(dataset, snapshot, *options.cancellation, [](double) {});
  if (absl::Status status = options.cancellation->Check("reading statistics"); !status.ok()) return status;
  std::string_view style;
  for (const PageFile& file : PageFiles()) {
    if (file.name == "report.css") style = file.bytes;
  }
  const std::string name = HtmlText(overview["name"].get<std::string>());
  std::string head =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      name + " - Shardkit</title>\n<style>\n" + std::string(style) + "</style>\n</head>\n<body>\n<main>\n<header><h1>" +
      name + "</h1><p class=\"quiet path\">" + HtmlText(overview["path"].get<std::string>()) + "</p></header>\n" +
      Figures(overview) + Problems(options.validation);
  const std::string tail = Columns(overview, statistics) + Generations(overview) +
                           "<footer class=\"quiet\">Made by shardctl report " SHARDKIT_VERSION
                           ".</footer>\n</main>\n</body>\n</html>\n";
  const auto samples = Samples(snapshot, overview).Draw(options, head.size() + tail.size());
  if (!samples.ok()) return samples.status();
  return head + *samples + tail;
}

}  // namespace shardctl
