#include "remote/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/errors.h"

extern char** environ;

namespace shardkit::remote {
namespace {

constexpr size_t kMostOutput = size_t{64} << 10;

// OK at the end of the output.
absl::Status ReadOutput(int descriptor, std::chrono::steady_clock::time_point until, std::string* output) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready == 0) return absl::DeadlineExceededError("it takes too long");
    char bytes[4096];
    const ssize_t count = ready < 0 ? -1 : read(descriptor, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Internal("its output cannot be read");
    if (count == 0) return absl::OkStatus();
    if (output->size() + static_cast<size_t>(count) > kMostOutput)
      return ResourceExhausted("it writes more than ", kMostOutput, " bytes");
    output->append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace

absl::StatusOr<std::string> RunCommand(const std::string& command, std::chrono::milliseconds deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("no pipe for a command");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // A group of its own, so that the deadline ends what the command has started, too.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, "/bin/sh", &actions, &attributes, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  std::string output;
  const absl::Status read = failed != 0 ? Internal("it cannot be started")
                                        : ReadOutput(ends[0], std::chrono::steady_clock::now() + deadline, &output);
  close(ends[0]);
  if (failed != 0) return read;
  if (!read.ok()) kill(-process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!read.ok()) return read;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return Unavailable("it failed with status ", status);
  return output;
}

}  // namespace shardkit::remote
