// What MPI itself does when processes that MPI_Comm_spawn starts die or live: why the transport
// starts them otherwise, and what even that cannot mend. Nothing here is SwarMPI's but the build.
//
// usage: mpirun --with-ft ulfm -n 2 spawn_limits SCENARIO
//   nested LEVELS      a started process starts the next one, and so on
//   dies WHERE         a thread of rank 0 starts a process that dies, then one that lives, while
//                      another thread exchanges messages with rank 1; at last MPI_Finalize.
//                      WHERE: 0 before MPI_Init; N as it is to publish something through mpirun for
//                      the N-th time: 1 as MPI_Comm_spawn meets it, 2 to 4 as the two agree on
//                      their communicator; 9 not at all
//   finalize COUNT     MPI_Finalize with so many started processes, which all live
//   free COUNT         the same, after MPI_Comm_free of all communicators with them
// What has not ended after 4 s counts as a hang.

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "regression/harness/publications.hpp"

namespace {

constexpr double kHangS = 4;
constexpr int kNever = 9;
constexpr int kTag = 1;
constexpr int kEndTag = 2;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_s(double time_s) { std::this_thread::sleep_for(std::chrono::duration<double>(time_s)); }

void init() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

// Runs `work` in a thread of its own; prints how long it took, or that it hangs: then false.
bool timed(const char* what, const std::function<int()>& work) {
  struct State {
    std::atomic<bool> over = false;
    int code = 0;
  };
  const auto state = std::make_shared<State>();
  const double begin_s = now_s();
  std::thread([state, work] {
    state->code = work();
    state->over = true;
  }).detach();
  while (!state->over && now_s() < begin_s + kHangS) sleep_s(1e-3);
  if (!state->over) {
    std::printf("%s: no end after %.0f s\n", what, kHangS);
  } else {
    std::printf("%s: %s after %.3f s\n", what, state->code == MPI_SUCCESS ? "good" : "an error",
                now_s() - begin_s);
  }
  std::fflush(stdout);
  return state->over;
}

int spawn(const std::string& scenario, int number, MPI_Comm& comm) {
  std::array<char, PATH_MAX> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return MPI_ERR_OTHER;
  std::string what = "started", how = scenario, count = std::to_string(number);
  std::array<char*, 4> arguments{what.data(), how.data(), count.data(), nullptr};
  int error = MPI_SUCCESS;
  const int code = MPI_Comm_spawn(self.data(), arguments.data(), 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                  &comm, &error);
  if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return code;
}

// The end of a rank that may not finalize: mpirun ends all others.
[[noreturn]] void abandon() {
  raise(SIGKILL);
  std::abort();
}

// ---- nested

int nested(int levels) {
  if (levels == 0) return MPI_SUCCESS;
  MPI_Comm comm = MPI_COMM_NULL;
  const int code = spawn("nested", levels - 1, comm);
  if (code != MPI_SUCCESS) return code;
  int below = MPI_ERR_OTHER;
  MPI_Recv(&below, 1, MPI_INT, 0, kTag, comm, MPI_STATUS_IGNORE);
  return below;
}

// ---- dies

// Sends to rank 1 and back, again and again; the longest time from call to answer is measured by
// others, as MPI may hang in it.
class Exchange {
 public:
  Exchange() : thread_([this] { run(); }) { thread_.detach(); }
  double longest_s() const { return std::max(longest_s_.load(), now_s() - since_s_.load()); }
  void end() { ending_ = true; }

 private:
  void run() {
    while (!ending_) {
      since_s_ = now_s();
      int word = 1;
      int done = 0;
      std::array<MPI_Request, 2> requests{};
      MPI_Isend(&word, 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, &requests[0]);
      MPI_Irecv(&word, 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, &requests[1]);
      while (done == 0) MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE);
      longest_s_ = std::max(longest_s_.load(), now_s() - since_s_.load());
    }
  }

  std::atomic<bool> ending_ = false;
  std::atomic<double> since_s_ = now_s();
  std::atomic<double> longest_s_ = 0;
  std::thread thread_;
};

void answer() {
  while (true) {
    MPI_Status status;
    int word = 0;
    if (MPI_Recv(&word, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status) != MPI_SUCCESS ||
        status.MPI_TAG == kEndTag)
      return;
    MPI_Send(&word, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD);
  }
}

void dies(int where) {
  static MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
  auto& exchange = *new Exchange;  // its thread may hang for ever
  timed("the process that dies", [where] { return spawn("dies", where, first); });
  std::printf("longest exchange with rank 1 meanwhile: %.3f s\n", exchange.longest_s());
  timed("one that lives", [] { return spawn("dies", kNever, second); });
  exchange.end();
  sleep_s(0.5);
  int word = 0;
  const auto finish = [&word] {
    MPI_Send(&word, 1, MPI_INT, 1, kEndTag, MPI_COMM_WORLD);
    for (MPI_Comm* comm : {&first, &second}) {
      if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
    }
    return MPI_Finalize();
  };
  if (!timed("MPI_Finalize", finish)) abandon();
}

// ---- finalize, free

void finalize(int count, bool frees) {
  std::vector<MPI_Comm> comms(static_cast<std::size_t>(count), MPI_COMM_NULL);
  for (MPI_Comm& comm : comms) spawn("lives", 0, comm);
  int word = 0;
  for (const MPI_Comm comm : comms) MPI_Send(&word, 1, MPI_INT, 0, kEndTag, comm);
  MPI_Send(&word, 1, MPI_INT, 1, kEndTag, MPI_COMM_WORLD);
  for (MPI_Comm& comm : comms) {
    if (frees) MPI_Comm_free(&comm);
  }
  if (!timed("MPI_Finalize", MPI_Finalize)) abandon();
}

// ---- Processes

int run_started(const std::string& scenario, int number) {
  if (scenario == "dies") {
    if (number == 0) raise(SIGKILL);
    if (number != kNever) swarmpi::raise_at_publication(number, SIGKILL);
  }
  init();
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  if (scenario == "nested") {
    const int code = nested(number);
    MPI_Send(&code, 1, MPI_INT, 0, kTag, parent);
  } else if (scenario == "lives") {
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, 0, kEndTag, parent, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}

int run_rank(const std::string& scenario, int number) {
  init();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    answer();
    MPI_Finalize();
  } else if (scenario == "dies") {
    dies(number);
  } else if (scenario == "nested") {
    const bool ended = timed("all levels", [number] { return nested(number); });
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, 1, kEndTag, MPI_COMM_WORLD);
    if (!ended) abandon();
    MPI_Finalize();
  } else {
    finalize(number, scenario == "free");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "started")
    return run_started(arguments[1], std::stoi(arguments[2]));
  if (arguments.size() != 2) return 2;
  return run_rank(arguments[0], std::stoi(arguments[1]));
}
