// shardctl: the command line of Shardkit.
#include <array>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "command_line.h"
#include "output.h"
#include "report.h"
#include "verbs.h"

namespace shardctl {
namespace {

struct Verb {
  std::string_view name;
  std::string_view summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array<Verb, 27> kVerbs = {{
    {"pack", "pack files into a dataset of shards", RunPack},
    {"plan-pack", "divide packing into tasks, for any number of machines", RunPlanPack},
    {"index", "make the indexes of datasets and tars", RunIndex},
    {"diff", "say in which samples, columns and values two datasets differ", RunDiff},
    {"history", "list the generations of a dataset, and what each did", RunHistory},
    {"ls", "list the samples or shards of a dataset", RunLs},
    {"inspect", "describe a dataset, shard, block or sample", RunInspect},
    {"view", "look at the samples of datasets in a browser", RunView},
    {"report", "write what a dataset is like into one HTML file", RunReport},
    {"cat", "write one value to standard output or a file", RunCat},
    {"validate", "check every checksum and every rule", RunValidate},
    {"repair", "recover what is whole of a damaged shard or dataset", RunRepair},
    {"unpack", "turn a dataset back into the files it was packed from", RunUnpack},
    {"columns", "list the columns of a dataset; add, drop, rename and describe them", RunColumns},
    {"convert", "turn a dataset into one of another container", RunConvert},
    {"filter", "make a dataset of some samples, or count them", RunFilter},
    {"split", "divide a dataset at random, by key, into parts such as train and val", RunSplit},
    {"merge", "make one dataset of several", RunMerge},
    {"rm", "remove samples from a dataset, at once and without rewriting it", RunRm},
    {"compact", "rewrite what a dataset has lost, join its segments, purge what was removed", RunCompact},
    {"reshard", "put the samples of a dataset into other shards, or into random order", RunReshard},
    {"plan", "show which samples the steps of an epoch have, and how well they are mixed", RunPlan},
    {"simulate", "predict how many nodes would read a dataset, and what bounds them", RunSimulate},
    {"bench", "read a dataset as a trainer would, and say what bounds it", RunBench},
    {"cache", "look into or fill the cache of remote data on local disk", RunCache},
    {"uploads", "list or abort what killed writers left in an object store", RunUploads},
    {"synth", "make synthetic input, to try things and to measure", RunSynth},
}};

std::string Help() {
  std::string text =
      "shardctl - pack, inspect, check and unpack shards of training data\n\n"
      "Usage: shardctl COMMAND [OPTION]... [ARGUMENT]...\n\nCommands:\n";
  for (const Verb& verb : kVerbs) {
    text += "  " + std::string(verb.name) + std::string(12 - verb.name.size(), ' ') + std::string(verb.summary) + "\n";
  }
  text +=
      "\nOptions:\n  -h, --help     show this help; shardctl COMMAND --help shows that of a command\n"
      "      --version  show the versions of shardctl and of the libraries it was built with\n\n"
      "Exit codes:\n  0 success   1 the data is bad, or lacks what was asked for   2 usage\n"
      "  3 the environment failed (I/O, permission, space, interruption)   4 finished, but samples were "
      "skipped or lost\n";
  return text;
}

// For tools/completions. The words after the program's name, the last of which is incomplete.
int Complete(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[0] : "";
  if (word == "synth" && argc == 2) {
    Stdout().Write("sa1b\nfiles\n--help\n");
  } else if (word == "columns" && argc == 2) {
    Stdout().Write("add\ndrop\nrename\nset\n");
  }
  CommandLine::CompleteInsteadOfParsing();
  for (const Verb& verb : kVerbs) {
    if (argc < 2) Stdout().Write(std::string(verb.name) + "\t" + std::string(verb.summary) + "\n");
    if (verb.name == word && !(word == "synth" && argc == 2)) return verb.run(argc - 1, argv + 1);
  }
  if (argc < 2) Stdout().Write("--help\n--version\n");
  return kExitSuccess;
}

int Run(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--help" || word == "-h") {
    Stdout().Write(Help());
    return kExitSuccess;
  }
  if (word == "--version") {
    Stdout().Write("shardctl " SHARDKIT_VERSION "\nbuilt with " SHARDKIT_LIBRARIES "\n");
    return kExitSuccess;
  }
  if (word == "complete") return Complete(argc - 2, argv + 2);
  for (const Verb& verb : kVerbs) {
    if (verb.name == word) return verb.run(argc - 2, argv + 2);
  }
  if (argc < 2) {
    PrintError("shardctl: a command is missing; shardctl --help lists the commands");
  } else if (word.starts_with('-')) {
    PrintError("shardctl: unknown option " + Quote(word) + " before the command; see shardctl --help");
  } else {
    PrintError("shardctl: unknown command " + Quote(word) + "; shardctl --help lists the commands");
  }
  return kExitUsage;
}

}  // namespace
}  // namespace shardctl

int main(int argc, char** argv) {
  using namespace shardctl;  // NOLINT: the program's own names
  // When the reader exits (| head), write then returns an error instead of ending the process.
  std::signal(SIGPIPE, SIG_IGN);
  // At the limit on the length of files (ulimit -f), write then returns an error. The error names the file, and
  // unfinished output is removed.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = kExitEnvironment;
  try {
    code = Run(argc, argv);
  } catch (const std::bad_alloc&) {
    PrintError("shardctl: out of memory");
  } catch (const std::exception& error) {
    PrintError("shardctl: internal error: " + std::string(error.what()));
  }
  Stdout().Flush();
  if (Stdout().ok() || Stdout().reader_left()) return code;
  const int output_code = Fail(Stdout().status());
  return code == kExitSuccess ? output_code : code;
}
