#include "commands/isolated.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/check.hpp"

namespace swarmpi {
namespace {

struct Pipe {
  int out = -1, in = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  SWARMPI_CHECK(pipe(ends.data()) == 0, std::strerror(errno));
  return {ends[0], ends[1]};
}

[[noreturn]] void run_child(const std::function<std::string()>& work, int answer_to,
                            int errors_to) {
  dup2(errors_to, STDERR_FILENO);
  const std::string answer = work();
  std::fflush(nullptr);
  std::size_t written = 0;
  while (written < answer.size()) {
    const ssize_t count = ::write(answer_to, answer.data() + written, answer.size() - written);
    if (count <= 0) _exit(1);
    written += static_cast<std::size_t>(count);
  }
  _exit(0);
}

// Reads both pipes until they are closed, as they fill: a child that filled one that nobody reads
// would wait for ever.
void read_all(int answer_from, std::string& answer, int errors_from, std::string& errors) {
  std::array<pollfd, 2> sources{{{answer_from, POLLIN, 0}, {errors_from, POLLIN, 0}}};
  while (sources[0].fd >= 0 || sources[1].fd >= 0) {
    if (poll(sources.data(), sources.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].fd < 0 || sources[i].revents == 0) continue;
      std::array<char, 4096> piece{};
      const ssize_t count = ::read(sources[i].fd, piece.data(), piece.size());
      if (count > 0) {
        (i == 0 ? answer : errors).append(piece.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        sources[i].fd = -1;
      }
    }
  }
}

std::string describe_crash(int status, const std::string& errors) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  std::string how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                        : fmt::format("exit status {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) how = "deadline exceeded";
  return errors.empty() ? how : how + ": " + errors.substr(0, errors.find_last_not_of('\n') + 1);
}

}  // namespace

void* share_memory(std::size_t size_bytes) {
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SWARMPI_CHECK(memory != MAP_FAILED, std::strerror(errno));
  return memory;
}

void release_memory(void* memory, std::size_t size_bytes) { munmap(memory, size_bytes); }

IsolatedResult run_isolated(const std::function<std::string()>& work) {
  const Pipe answer = make_pipe();
  const Pipe errors = make_pipe();
  std::fflush(nullptr);
  const pid_t child = fork();
  SWARMPI_CHECK(child >= 0, std::strerror(errno));
  if (child == 0) run_child(work, answer.in, errors.in);
  close(answer.in);
  close(errors.in);
  IsolatedResult result;
  std::string error_text;
  read_all(answer.out, result.answer, errors.out, error_text);
  close(answer.out);
  close(errors.out);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.crash = describe_crash(status, error_text);
  return result;
}

void set_deadline(unsigned seconds) { alarm(seconds); }

}  // namespace swarmpi
