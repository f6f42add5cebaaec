// The options of one command. Parsing, errors and --help use the same declaration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace shardctl {

// The parts of all texts between commas; empty ones are left out.
std::vector<std::string> SplitAtCommas(const std::vector<std::string>& texts);

// What a command does with object stores decides which of their options it has.
enum class StoreUse {
  kManage,  // --endpoint
  kRead,    // also --header, --query, --cache, --cache-limit and --allow-base
  kWrite,   // also --no-conditional
};

// Names are written as "-o,--output". Pointers given to the declaring functions must stay valid until Parse returns.
// Parse does not change the value of an option that was not given. Only an option declared with Texts may be repeated.
class CommandLine {
 public:
  // `words` is the name of the command ("pack", "synth sa1b"), `usage` the text after it in the usage line.
  CommandLine(std::string words, std::string summary, std::string usage);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void Flag(const std::string& names, bool* value, const std::string& description);
  void Text(const std::string& names, const std::string& placeholder, std::optional<std::string>* value,
            const std::string& description, bool may_be_empty = false);
  void Texts(const std::string& names, const std::string& placeholder, std::vector<std::string>* values,
             const std::string& description);
  void Size(const std::string& names, uint64_t* bytes, const std::string& description);
  void Count(const std::string& names, const std::string& placeholder, uint64_t* count, uint64_t minimum,
             uint64_t maximum, const std::string& description);
  void Count(const std::string& names, const std::string& placeholder, std::optional<uint64_t>* count, uint64_t minimum,
             uint64_t maximum, const std::string& description);
  void Number(const std::string& names, const std::string& placeholder, double* number, double minimum, double maximum,
              const std::string& description);
  // The value is one of `words`; *index is its position there.
  void Choice(const std::string& names, const std::string& placeholder, const std::vector<std::string>& words,
              size_t* index, const std::string& description);

  // Values of the option declared last, for completion; others are taken, too.
  void Suggest(std::vector<std::string> words);

  // The options of commands that take URLs. Parse puts them into the environment, where the library looks for them.
  void StoreOptions(StoreUse use);

  // --allow-base, for commands without StoreOptions that open datasets.
  void AllowBase();

  // The arguments that are not options, at least `minimum` and at most `maximum` of them.
  void Arguments(const std::string& placeholder, size_t minimum, size_t maximum, std::vector<std::string>* values);

  void Example(const std::string& command, const std::string& purpose);

  // Text between the options and the examples of --help. Lines are wrapped, unless they are indented.
  void Notes(const std::string& text);

  // Parses the words after the command's name. Empty when the command should run. Otherwise prints help or an error
  // and returns the exit code.
  std::optional<int> Parse(int argc, char** argv);

  // The first option of the command line that is none of `names` ("--json") and none of StoreOptions, for commands that
  // take few of their options where some are given.
  std::optional<std::string> GivenBesides(const std::vector<std::string>& names) const;

  // Prints a usage error that only the command itself can detect. Returns its exit code.
  int UsageError(const std::string& message) const;

  std::string Help() const;

  // Parse then prints what may stand in place of the last of its words: a candidate on each line, perhaps with a tab
  // and what it means, or ":files".
  static void CompleteInsteadOfParsing();

 private:
  struct Row {
    std::string names;
    std::string placeholder;
    std::string description;
    std::vector<std::string> words;  // some of the values
  };
  struct Parser;

  void PrintCandidates(const std::vector<std::string>& words) const;

  // The words from position `options_end` came after "--".
  std::optional<int> TakeArguments(const std::vector<std::string>& words, size_t options_end);

  std::string words_;
  std::string summary_;
  std::string usage_;
  std::string notes_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> examples_;
  std::string argument_name_;
  size_t argument_minimum_ = 0;
  size_t argument_maximum_ = 0;
  std::vector<std::string> no_arguments_;
  std::vector<std::string>* arguments_ = &no_arguments_;
  std::unique_ptr<Parser> parser_;
  static bool completing_;
};

}  // namespace shardctl
