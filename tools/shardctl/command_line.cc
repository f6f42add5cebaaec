#include "command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <span>

#include "numbers.h"
#include "output.h"
#include "report.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/remote.h"

namespace shardctl {

// CLI11 only splits words and matches options. Values arrive here as plain strings, so that the accepted numbers and
// the error messages do not depend on CLI11's version.
struct CommandLine::Parser {
  CLI::App app;
  absl::Status error;  // the first value that was refused

  // `take` is called with each value and may refuse it.
  void Add(const std::string& names, bool flag, bool repeatable,
           const std::function<absl::Status(const std::string&)>& take) {
    const std::string shown = names.substr(names.find_last_of(',') + 1);
    const CLI::callback_t callback = [this, shown, repeatable, take](const CLI::results_t& results) {
      // Later versions of CLI11 add "%%" to "{}", which could mean an empty list.
      const bool braces = results.size() == 2 && results[0] == "{}" && results[1] == "%%";
      if (results.size() > 1 && !repeatable && !braces) Refuse(shown + " is given more than once");
      for (const std::string& result : std::span(results).first(braces ? 1 : results.size())) {
        const absl::Status status = take(result);
        if (!status.ok()) Refuse(shown + ": " + std::string(status.message()));
      }
      return true;
    };
    CLI::Option* option = app.add_option(names, callback);
    if (flag) option->type_size(0)->expected(0);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    option->allow_extra_args(false);
  }

  void Refuse(const std::string& message) {
    if (error.ok()) error = absl::InvalidArgumentError(message);
  }
};

std::vector<std::string> SplitAtCommas(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      if (end > begin) parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

CommandLine::CommandLine(std::string words, std::string summary, std::string usage)
    : words_(std::move(words)),
      summary_(std::move(summary)),
      usage_(std::move(usage)),
      parser_(std::make_unique<Parser>()) {
  parser_->app.set_help_flag("-h,--help");
  // Arguments are the words left over. As a positional option, CLI11 would read a path such as "[a,b]" as a list of
  // two.
  parser_->app.allow_extras();
}

CommandLine::~CommandLine() = default;

namespace {

// "-o,--output" -> "-o, --output PLACEHOLDER". Names without a short form are indented, so that the long names align.
std::string RowName(const std::string& names, const std::string& placeholder) {
  const size_t comma = names.find(',');
  std::string row = comma == std::string::npos ? "    " + names : names.substr(0, 2) + ", " + names.substr(comma + 1);
  if (!placeholder.empty()) row += " " + placeholder;
  return row;
}

// The columns of the first of the words that is a dataset on this machine.
void PrintColumns(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto manifest = shardkit::ReadManifest(*shardkit::PosixFileSystem(), word);
    if (!manifest.ok()) continue;
    for (const shardkit::Column& column : manifest->schema.columns()) Stdout().Write(column.name + "\n");
    return;
  }
}

void AppendWrapped(const std::string& text, size_t indent, size_t width, std::string* out) {
  size_t column = indent;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    if (column > indent && column + 1 + (end - begin) > width) {
      *out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      *out += ' ';
      ++column;
    }
    out->append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  *out += '\n';
}

}  // namespace

void CommandLine::Flag(const std::string& names, bool* value, const std::string& description) {
  rows_.push_back({names, "", description, {}});
  parser_->Add(names, true, false, [value](const std::string& given) -> absl::Status {
    if (given != "true") return absl::InvalidArgumentError("takes no value");
    *value = true;
    return absl::OkStatus();
  });
}

void CommandLine::Text(const std::string& names, const std::string& placeholder, std::optional<std::string>* value,
                       const std::string& description, bool may_be_empty) {
  rows_.push_back({names, placeholder, description, {}});
  parser_->Add(names, false, false, [value, may_be_empty](const std::string& given) -> absl::Status {
    if (given.empty() && !may_be_empty) return absl::InvalidArgumentError("must not be empty");
    *value = given;
    return absl::OkStatus();
  });
}

void CommandLine::Texts(const std::string& names, const std::string& placeholder, std::vector<std::string>* values,
                        const std::string& description) {
  rows_.push_back({names, placeholder, description, {}});
  parser_->Add(names, false, true, [values](const std::string& given) -> absl::Status {
    values->push_back(given);
    return absl::OkStatus();
  });
}

void CommandLine::Size(const std::string& names, uint64_t* bytes, const std::string& description) {
  rows_.push_back({names, "SIZE", description, {}});
  parser_->Add(names, false, false, [bytes](const std::string& given) {
    const absl::StatusOr<uint64_t> size = ParseSize(given);
    if (size.ok()) *bytes = *size;
    return size.status();
  });
}

void CommandLine::Count(const std::string& names, const std::string& placeholder, uint64_t* count, uint64_t minimum,
                        uint64_t maximum, const std::string& description) {
  rows_.push_back({names, placeholder, description, {}});
  parser_->Add(names, false, false, [=](const std::string& given) {
    const absl::StatusOr<uint64_t> number = ParseCount(given, minimum, maximum);
    if (number.ok()) *count = *number;
    return number.status();
  });
}

void CommandLine::Count(const std::string& names, const std::string& placeholder, std::optional<uint64_t>* count,
                        uint64_t minimum, uint64_t maximum, const std::string& description) {
  rows_.push_back({names, placeholder, description, {}});
  parser_->Add(names, false, false, [=](const std::string& given) {
    const absl::StatusOr<uint64_t> number = ParseCount(given, minimum, maximum);
    if (number.ok()) *count = *number;
    return number.status();
  });
}

void CommandLine::Number(const std::string& names, const std::string& placeholder, double* number, double minimum,
                         double maximum, const std::string& description) {
  rows_.push_back({names, placeholder, description, {}});
  parser_->Add(names, false, false, [=](const std::string& given) {
    const absl::StatusOr<double> value = ParseNumber(given, minimum, maximum);
    if (value.ok()) *number = *value;
    return value.status();
  });
}

void CommandLine::Choice(const std::string& names, const std::string& placeholder,
                         const std::vector<std::string>& words, size_t* index, const std::string& description) {
  rows_.push_back({names, placeholder, description, words});
  parser_->Add(names, false, false, [=](const std::string& given) -> absl::Status {
    std::string list;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == given) {
        *index = i;
        return absl::OkStatus();
      }
      list += (i == 0 ? "" : ", ") + words[i];
    }
    return absl::InvalidArgumentError(Quote(given) + " is not one of " + list);
  });
}

void CommandLine::StoreOptions(StoreUse use) {
  rows_.push_back(
      {"--endpoint", "URL", "where s3:// leads, as http://127.0.0.1:9000 [AWS_ENDPOINT_URL, or Amazon]", {}});
  parser_->Add("--endpoint", false, false, [](const std::string& given) -> absl::Status {
    if (!given.starts_with("http://") && !given.starts_with("https://")) {
      return absl::InvalidArgumentError(Quote(given) + " is not http://HOST[:PORT] or https://HOST[:PORT]");
    }
    setenv("AWS_ENDPOINT_URL_S3", given.c_str(), 1);
    setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false", 1);
    return absl::OkStatus();
  });
  if (use == StoreUse::kManage) return;
  rows_.push_back({"--header",
                   "TEXT",
                   "send 'NAME: VALUE' to http:// and https:// [SHARDKIT_HTTP_HEADERS, one a line]; may be repeated",
                   {}});
  parser_->Add("--header", false, true, [](const std::string& given) -> absl::Status {
    const char* const before = std::getenv("SHARDKIT_HTTP_HEADERS");
    setenv("SHARDKIT_HTTP_HEADERS", ((before == nullptr ? "" : std::string(before) + "\n") + given).c_str(), 1);
    return absl::OkStatus();
  });
  rows_.push_back(
      {"--query", "TEXT", "add this query to each http:// and https:// URL, as a signature [SHARDKIT_HTTP_QUERY]", {}});
  parser_->Add("--query", false, false, [](const std::string& given) -> absl::Status {
    setenv("SHARDKIT_HTTP_QUERY", given.c_str(), 1);
    return absl::OkStatus();
  });
  rows_.push_back({"--cache",
                   "DIR",
                   "keep what is read of URLs here, for all processes of this machine [SHARDKIT_CACHE, or none]",
                   {}});
  parser_->Add("--cache", false, false, [](const std::string& given) -> absl::Status {
    setenv("SHARDKIT_CACHE", given.c_str(), 1);
    return absl::OkStatus();
  });
  rows_.push_back({"--cache-limit",
                   "SIZE",
                   "what the cache may take on disk [SHARDKIT_CACHE_LIMIT, or 4/5 of the file system]",
                   {}});
  parser_->Add("--cache-limit", false, false, [](const std::string& given) -> absl::Status {
    const absl::StatusOr<uint64_t> bytes = ParseSize(given);
    if (!bytes.ok()) return bytes.status();
    setenv("SHARDKIT_CACHE_LIMIT", std::to_string(*bytes).c_str(), 1);
    return absl::OkStatus();
  });
  AllowBase();
  if (use == StoreUse::kRead) return;
  rows_.push_back(
      {"--no-conditional",
       "",
       "write to a store that does not honour If-None-Match; the user sees to it that nobody else writes there",
       {}});
  parser_->Add("--no-conditional", true, false, [](const std::string& given) -> absl::Status {
    if (given != "true") return absl::InvalidArgumentError("takes no value");
    setenv("SHARDKIT_NO_CONDITIONAL", "1", 1);
    return absl::OkStatus();
  });
}

void CommandLine::AllowBase() {
  rows_.push_back({"--allow-base",
                   "PREFIX",
                   "let datasets refer to shards below this path or URL, out of their own folder, bucket or host "
                   "[SHARDKIT_ALLOW_BASES, with commas]; may be repeated",
                   {}});
  parser_->Add("--allow-base", false, true, [](const std::string& given) -> absl::Status {
    if (given.empty()) return absl::InvalidArgumentError("must not be empty");
    if (given.find(',') != std::string::npos) {
      return absl::InvalidArgumentError(Quote(given) + ": a prefix cannot have a comma; give a shorter one");
    }
    const char* const before = std::getenv("SHARDKIT_ALLOW_BASES");
    setenv("SHARDKIT_ALLOW_BASES", ((before == nullptr ? "" : std::string(before) + ",") + given).c_str(), 1);
    return absl::OkStatus();
  });
}

void CommandLine::Arguments(const std::string& placeholder, size_t minimum, size_t maximum,
                            std::vector<std::string>* values) {
  argument_name_ = placeholder;
  argument_minimum_ = minimum;
  arguments_ = values;
  argument_maximum_ = maximum;
}

void CommandLine::Example(const std::string& command, const std::string& purpose) {
  examples_.emplace_back(command, purpose);
}

void CommandLine::Notes(const std::string& text) { notes_ = text; }

std::string CommandLine::Help() const {
  constexpr size_t kIndent = 30;
  constexpr size_t kWidth = 110;
  std::string text = "shardctl " + words_ + " - " + summary_ + "\n\nUsage: shardctl " + words_ + " " + usage_;
  text += "\n\nOptions:\n";
  std::vector<Row> rows = rows_;
  rows.push_back({"-h,--help", "", "show this help", {}});
  for (const Row& row : rows) {
    std::string line = "  " + RowName(row.names, row.placeholder);
    if (line.size() + 2 > kIndent) {
      line += "\n" + std::string(kIndent, ' ');
    } else {
      line.resize(kIndent, ' ');
    }
    text += line;
    AppendWrapped(row.description, kIndent, kWidth, &text);
  }
  if (!notes_.empty()) text += "\n";
  for (size_t begin = 0; begin < notes_.size();) {
    const size_t end = std::min(notes_.find('\n', begin), notes_.size());
    const std::string line = notes_.substr(begin, end - begin);
    if (line.starts_with(' ')) {
      text += line + "\n";
    } else {
      AppendWrapped(line, 0, kWidth, &text);
    }
    begin = end + 1;
  }
  if (!examples_.empty()) text += "\nExamples:\n";
  for (const auto& [command, purpose] : examples_) text += "  # " + purpose + "\n  " + command + "\n";
  return text;
}

int CommandLine::UsageError(const std::string& message) const {
  PrintError("shardctl " + words_ + ": " + message);
  PrintError("shardctl: see shardctl " + words_ + " --help");
  return kExitUsage;
}

std::optional<int> CommandLine::TakeArguments(const std::vector<std::string>& words, size_t options_end) {
  const std::vector<std::string> left_over = parser_->app.remaining();
  for (const std::string& word : left_over) {
    if (word.size() > 1 && word[0] == '-') return UsageError("unknown option " + Quote(word));
  }
  *arguments_ = left_over;
  arguments_->insert(arguments_->end(), words.begin() + static_cast<ptrdiff_t>(options_end), words.end());
  // Before any of them is shown.
  for (std::string& argument : *arguments_) argument = shardkit::KeepQuery(argument);
  if (arguments_->size() < argument_minimum_) return UsageError(argument_name_ + " is missing");
  if (arguments_->size() > argument_maximum_) {
    return UsageError("unexpected argument " + Quote((*arguments_)[argument_maximum_]));
  }
  for (const std::string& argument : *arguments_) {
    if (argument.empty()) return UsageError(argument_name_ + " must not be empty");
  }
  return std::nullopt;
}

bool CommandLine::completing_ = false;

void CommandLine::CompleteInsteadOfParsing() { completing_ = true; }

void CommandLine::Suggest(std::vector<std::string> words) { rows_.back().words = std::move(words); }

void CommandLine::PrintCandidates(const std::vector<std::string>& words) const {
  const std::string current = words.empty() ? "" : words.back();
  const std::string previous = words.size() < 2 ? "" : words[words.size() - 2];
  for (const Row& row : rows_) {
    const std::vector<std::string> names = SplitAtCommas({row.names});
    if (row.placeholder.empty() || std::ranges::find(names, previous) == names.end()) continue;
    for (const std::string& word : row.words) Stdout().Write(word + "\n");
    if (row.placeholder.starts_with("COL") || row.names == "--columns") PrintColumns(words);
    for (const char* const path : {"DIR", "FILE", "OUT", "PATH"}) {
      if (row.placeholder.starts_with(path)) Stdout().Write(":files\n");
    }
    return;
  }
  if (current.starts_with('-')) {
    for (const Row& row : rows_) {
      Stdout().Write(row.names.substr(row.names.find_last_of(',') + 1) + "\t" + row.description + "\n");
    }
    Stdout().Write("--help\tshow help\n");
    return;
  }
  const std::string arguments = argument_name_.substr(0, argument_name_.find(' '));
  if (words.size() <= 1 && arguments.find('|') != std::string::npos) {
    std::string lines = arguments + "\n";
    std::ranges::replace(lines, '|', '\n');
    Stdout().Write(lines);
    return;
  }
  Stdout().Write(":files\n");
}

std::optional<int> CommandLine::Parse(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  if (completing_) {
    PrintCandidates(words);
    return kExitSuccess;
  }
  const auto marker = std::find(words.begin(), words.end(), "--");
  const size_t options_end = static_cast<size_t>(marker - words.begin());
  if (marker != words.end()) words.erase(marker);  // all words after it are arguments
  for (size_t i = 0; i < options_end; ++i) {
    // CLI11 would use the next word as the value.
    if (words[i].starts_with("--") && words[i].ends_with('='))
      return UsageError(Quote(words[i]) + ": the value is missing");
  }
  // CLI11 wants the words in reverse order, without the program's name.
  std::vector<std::string> reversed(words.begin(), words.begin() + static_cast<ptrdiff_t>(options_end));
  std::reverse(reversed.begin(), reversed.end());
  try {
    parser_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    Stdout().Write(Help());
    return kExitSuccess;
  } catch (const CLI::ArgumentMismatch& error) {
    // A missing value is the only mismatch CLI11 can find here. Its message differs between versions.
    const std::string what = error.what();
    return UsageError(what.substr(0, what.find(':')) + ": the value is missing");
  } catch (const CLI::ParseError& error) {
    return UsageError(error.what());
  }
  if (!parser_->error.ok()) return UsageError(std::string(parser_->error.message()));
  return TakeArguments(words, options_end);
}

std::optional<std::string> CommandLine::GivenBesides(const std::vector<std::string>& names) const {
  for (const CLI::Option* const option : parser_->app.get_options()) {
    const auto has_name = [&](const std::string& name) { return option->check_name(name); };
    const std::string of_stores[] = {"--endpoint",    "--header",     "--query",         "--cache",
                                     "--cache-limit", "--allow-base", "--no-conditional"};
    if (option->count() == 0 || std::ranges::any_of(of_stores, has_name)) continue;
    if (!std::ranges::any_of(names, has_name)) return option->get_name();
  }
  return std::nullopt;
}

}  // namespace shardctl
