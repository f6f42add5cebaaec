// shardctl view
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "shardctl/command_line.h"
#include "shardctl/dataset_access.h"
#include "shardctl/interrupt.h"
#include "shardctl/output.h"
#include "shardctl/report.h"
#include "shardctl/verbs.h"
#include "shardkit/remote.h"
#include "view/api.h"
#include "view/server.h"

namespace shardctl {
namespace {

// Without a display there is no browser that could be opened; the URL is printed in any case.
void OpenBrowser(const std::string& url) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  const pid_t child = fork();
  if (child == 0) {
    // The grandchild belongs to nobody, so that nobody has to wait for it.
    if (fork() == 0) {
      execlp("xdg-open", "xdg-open", url.c_str(), static_cast<char*>(nullptr));
    }
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

}  // namespace

int RunView(int argc, char** argv) {
  CommandLine line("view", "look at the samples of datasets in a browser", "[OPTION]... PATH...");
  std::vector<std::string> paths;
  uint64_t port = 0;
  std::optional<std::string> host;
  bool no_open = false;
  AtOption at;
  line.Arguments("PATH", 1, 100, &paths);
  line.Count("--port", "N", &port, 0, 65535, "listen on this port [any free one]");
  line.Text("--host", "ADDRESS", &host, "listen on this address of the machine, for browsers on others [127.0.0.1]");
  line.Flag("--no-open", &no_open, "print the URL, and open no browser");
  at.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Notes(
      "Only what is on the screen is read. The URL has a token, without which the server answers nobody; with --host\n"
      "it travels over the network as it is, so prefer ssh -L. Hashes that an index lists for whole files are not\n"
      "compared: shardctl validate does that. Ctrl-C ends the server.");
  line.Example("shardctl view photos", "look at the dataset photos");
  line.Example("shardctl view train.tar s3://bucket/set --port 8000 --no-open",
               "two datasets, on a port that ssh forwards");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const shardkit::Cancellation* cancellation = CancelOnSignal();
  std::vector<Entry> entries;
  for (const std::string& path : paths) {
    auto dataset = ViewedDataset::Open(*shardkit::DefaultFileSystem(), path, at.generation());
    if (!dataset.ok() && paths.size() == 1) return Fail(dataset.status());
    if (dataset.ok()) {
      entries.push_back({path, absl::OkStatus(), *std::move(dataset)});
    } else {
      PrintError("shardctl: " + std::string(dataset.status().message()));
      entries.push_back({path, dataset.status(), nullptr});
    }
  }
  ViewApi api(std::move(entries));
  const auto server = ViewServer::Start(host.value_or("127.0.0.1"), static_cast<int>(port),
                                        [&api](const Request& request) { return api.Answer(request); });
  if (!server.ok()) return Fail(server.status());
  Stdout().Write((*server)->url() + "\n");
  Stdout().Flush();
  if (!no_open) OpenBrowser((*server)->url());
  while (!cancellation->cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // A browser keeps its connections, and a store may not answer: nothing of this is worth waiting for.
  std::_Exit(kExitSuccess);
}

}  // namespace shardctl
