#include "remote/credentials/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/errors.h"

extern char** environ;

namespace shardkit::remote {
namespace {

constexpr size_t kMostOutput = size_t{64} << 10;

constexpr size_t kKeptComplaint = 4096;
constexpr size_t kShownComplaint = 300;

// What a command writes and how it ends.
struct Command {
  pid_t process = 0;
  int output_end = -1, complaint_end = -1;  // of pipes
  std::string output;
  std::string complaint;  // the end of what it writes to its standard error
  std::optional<int> status;

  // False at the end of that stream.
  static bool Read(int end, std::string* text) {
    char bytes[4096];
    const ssize_t count = read(end, bytes, sizeof(bytes));
    if (count > 0) text->append(bytes, static_cast<size_t>(count));
    return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
  }

  // OK when the command has ended, and all who had its standard output.
  absl::Status WaitUntil(std::chrono::steady_clock::time_point until) {
    for (bool writes = true, complains = true; writes || !status;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return absl::DeadlineExceededError("it takes too long");
      // The end of a process wakes nobody up who polls.
      pollfd ends[] = {{writes ? output_end : -1, POLLIN, 0}, {complains ? complaint_end : -1, POLLIN, 0}};
      (void)poll(ends, 2, static_cast<int>(writes ? left : std::min<int64_t>(left, 10)));
      if (ends[0].revents != 0) writes = Read(output_end, &output);
      if (output.size() > kMostOutput) return ResourceExhausted("it writes more than ", kMostOutput, " bytes");
      if (ends[1].revents != 0) complains = Read(complaint_end, &complaint);
      if (complaint.size() > kKeptComplaint) complaint.erase(0, complaint.size() - kKeptComplaint);
      int ended = 0;
      if (!writes && !status && waitpid(process, &ended, WNOHANG) == process) status = ended;
    }
    return absl::OkStatus();
  }

  // Its last line, for a message.
  std::string LastComplaint() const {
    const size_t end = complaint.find_last_not_of(" \r\n");
    if (end == complaint.npos) return {};
    const size_t begin = complaint.find_last_of("\r\n", end) + 1;
    return StrCat(": \"", complaint.substr(begin, std::min<size_t>(end + 1 - begin, kShownComplaint)), "\"");
  }
};

}  // namespace

absl::StatusOr<std::string> RunCommand(const std::string& command, std::chrono::milliseconds deadline) {
  int output[2], complaint[2];
  if (pipe2(output, O_CLOEXEC) != 0) return ResourceExhausted("no pipe for a command");
  if (pipe2(complaint, O_CLOEXEC) != 0) {
    close(output[0]);
    close(output[1]);
    return ResourceExhausted("no pipe for a command");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, complaint[1], STDERR_FILENO);
  // A group of its own, so that the deadline ends what the command has started, too.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  Command running{.output_end = output[0], .complaint_end = complaint[0]};
  const int failed =
      posix_spawn(&running.process, "/bin/sh", &actions, &attributes, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(output[1]);
  close(complaint[1]);
  absl::Status ended = Internal("it cannot be started");
  if (failed == 0) {
    ended = running.WaitUntil(std::chrono::steady_clock::now() + deadline);
    if (!ended.ok()) kill(-running.process, SIGKILL);
    int status = 0;
    while (!running.status && waitpid(running.process, &status, 0) < 0 && errno == EINTR) {
    }
  }
  // What it wrote last may still be in the pipe, which another process may hold open.
  pollfd rest{complaint[0], POLLIN, 0};
  while (ended.ok() && running.complaint.size() < kMostOutput && poll(&rest, 1, 0) > 0 &&
         Command::Read(complaint[0], &running.complaint)) {
  }
  close(output[0]);
  close(complaint[0]);
  if (!ended.ok()) return ended;
  if (WIFSIGNALED(*running.status)) return Unavailable("signal ", WTERMSIG(*running.status), " ended it");
  if (WEXITSTATUS(*running.status) != 0) {
    return Unavailable("it failed with status ", WEXITSTATUS(*running.status), running.LastComplaint());
  }
  return running.output;
}

}  // namespace shardkit::remote
