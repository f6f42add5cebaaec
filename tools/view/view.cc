// shardctl view
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
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

// A page that leads to the URL, for this user alone: the command line of a browser is there for every user to see.
class RedirectPage {
 public:
  explicit RedirectPage(const std::string& url) {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    folder_ = std::string(runtime == nullptr || *runtime == '\0' ? "/tmp" : runtime) + "/shardkit-view-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) return;  // with mode 0700
    path_ = folder_ + "/open.html";
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const std::string text = "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=" + url + "\">\n";
    if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) Remove();
    if (file >= 0) close(file);
  }

  // Empty when there is none.
  const std::string& path() const { return path_; }

  void Remove() {
    if (path_.empty()) return;
    unlink(path_.c_str());
    rmdir(folder_.c_str());
    path_.clear();
  }

 private:
  std::string folder_, path_;
};

bool HasDisplay() { return std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr; }

void OpenBrowser(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    // The grandchild belongs to nobody, so that nobody has to wait for it.
    if (fork() == 0) {
      execlp("xdg-open", "xdg-open", path.c_str(), static_cast<char*>(nullptr));
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
  // Without a display there is no browser that could be opened.
  std::optional<RedirectPage> page;
  if (!no_open && HasDisplay()) page.emplace((*server)->url());
  if (page && !page->path().empty()) OpenBrowser(page->path());
  while (!cancellation->cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (page) page->Remove();
  // A browser keeps its connections, and a store may not answer: nothing of this is worth waiting for.
  std::_Exit(kExitSuccess);
}

}  // namespace shardctl
