#include "transport/mpi/session.hpp"

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/check.hpp"
#include "core/machine.hpp"
#include "transport/mpi/handles.hpp"
#include "transport/mpi/settings.hpp"
#include "transport/mpi/spawning.hpp"

namespace swarmpi {
namespace {

constexpr double kFinishLimitS = 30;
constexpr double kFinishAfterALossLimitS = 5;
// Ranks may load much before, and one of each host reads all data: a terabyte from a slow disk.
constexpr double kGatherLimitS = 4 * 3600;
// The process that has started this one may die meanwhile.
constexpr double kJoinLimitS = 20;

// Threads that MPI makes while this lives never take the signals that our own threads wait for.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t ours;
    sigemptyset(&ours);
    for (const int signal : {SIGINT, SIGUSR1, SIGUSR2, SIGXCPU}) sigaddset(&ours, signal);
    pthread_sigmask(SIG_BLOCK, &ours, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

MpiSession::MpiSession(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}

MpiSession::~MpiSession() {
  if (handles_ && !handles_->finished) (void)finish();
}

std::unique_ptr<MpiSession> MpiSession::of_one() {
  return std::unique_ptr<MpiSession>(new MpiSession(nullptr));
}

Result<std::unique_ptr<MpiSession>> MpiSession::start(bool starts_processes, double start_limit_s) {
  int started = 0;
  MPI_Initialized(&started);
  SWARMPI_CHECK(started == 0, "MPI is started once in a process");
  std::signal(SIGPIPE, SIG_IGN);  // a write to a rank that died is an error, not the end
  apply_mpi_settings();

  auto handles = std::make_unique<Handles>();
  {
    const WithoutSignals scope;
    const CallWatchdog::Call call(handles->watchdog, "MPI_Init_thread", start_limit_s);
    int provided = 0;
    const int wanted = starts_processes ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    const int code = MPI_Init_thread(nullptr, nullptr, wanted, &provided);
    if (code != MPI_SUCCESS) return failed_call("MPI_Init_thread", code);
    handles->threads = provided >= MPI_THREAD_MULTIPLE;
    if (provided < MPI_THREAD_FUNNELED) {
      return Status::failed(
          "this MPI library does not allow threads beside the one that calls it "
          "(MPI_THREAD_FUNNELED); link swarmpi with one that does");
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &handles->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &handles->ranks);
  handles->watchdog.set_rank(handles->rank);
  std::unique_ptr<MpiSession> session(new MpiSession(std::move(handles)));

  Handles& shared = session->handles();
  const CallWatchdog::Call call(shared.watchdog, "MPI_Comm_dup or MPI_Comm_split_type",
                                start_limit_s);
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &shared.swarm);
  if (code != MPI_SUCCESS)
    end_by_signal("a rank was lost while MPI starts: " + mpi_error_text(code));
  MPI_Comm_set_errhandler(shared.swarm, MPI_ERRORS_RETURN);

  MPI_Comm host = MPI_COMM_NULL;
  code = MPI_Comm_split_type(shared.swarm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  if (code != MPI_SUCCESS)
    end_by_signal("a rank was lost while MPI starts: " + mpi_error_text(code));
  MPI_Comm_size(host, &shared.ranks_on_host);
  MPI_Comm_rank(host, &shared.rank_on_host);
  MPI_Comm_free(&host);
  return session;
}

Result<std::unique_ptr<MpiSession>> MpiSession::join(const std::string& port) {
  if (!was_launched_alone()) {
    return Status::bad_input(
        "only a running swarm may start `swarmpi spawned` (swarm.spawn = true); start runs with "
        "`swarmpi train`");
  }
  Result<std::unique_ptr<MpiSession>> session = start(false, kJoinLimitS);
  if (!session.ok()) return session;
  Handles& handles = session.value()->handles();
  const Result<MPI_Comm> starter = connect_to_starter(handles.watchdog, port, kJoinLimitS);
  if (!starter.ok()) {
    std::fprintf(stderr,
                 "swarmpi: spawned process on %s: no connection with the rank that has "
                 "started it: %s\n",
                 host_name().c_str(), starter.status().message().c_str());
    leave();
  }
  handles.parent = starter.value();
  return session;
}

bool MpiSession::spawned() const { return handles_ && handles_->parent != MPI_COMM_NULL; }

Result<std::string> MpiSession::receive_start_info(const AnswerStart& answer) {
  SWARMPI_CHECK(spawned(), "only a process that another has started receives start-up data");
  return swarmpi::receive_start_info(handles_->watchdog, handles_->parent, answer);
}

int MpiSession::rank() const { return handles_ ? handles_->rank : 0; }
int MpiSession::ranks() const { return handles_ ? handles_->ranks : 1; }
int MpiSession::ranks_on_host() const { return handles_ ? handles_->ranks_on_host : 1; }
int MpiSession::rank_on_host() const { return handles_ ? handles_->rank_on_host : 0; }
bool MpiSession::lost_a_rank() const { return handles_ && handles_->lost_a_rank; }
bool MpiSession::reports_lost_ranks() const { return handles_ && launched_fault_tolerant(); }

std::vector<std::string> MpiSession::gather(const std::string& mine) {
  if (!handles_) return {mine};
  const auto count = static_cast<std::size_t>(handles_->ranks);
  const int size = static_cast<int>(mine.size());
  std::vector<int> sizes(count);
  std::vector<int> offsets(count);
  const CallWatchdog::Call call(handles_->watchdog, "MPI_Allgather at the start", kGatherLimitS);
  int code = MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, handles_->swarm);
  if (code != MPI_SUCCESS)
    end_by_signal("a rank was lost while MPI starts: " + mpi_error_text(code));

  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < count; ++rank) {
    offsets[rank] = static_cast<int>(total);
    total += sizes[rank];
  }
  if (total > std::numeric_limits<int>::max())
    end_by_signal("the decks of all ranks together have more than 2 GiB: make the deck shorter");
  std::string all(static_cast<std::size_t>(total), '\0');
  code = MPI_Allgatherv(mine.data(), size, MPI_CHAR, all.data(), sizes.data(), offsets.data(),
                        MPI_CHAR, handles_->swarm);
  if (code != MPI_SUCCESS)
    end_by_signal("a rank was lost while MPI starts: " + mpi_error_text(code));
  std::vector<std::string> said(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    said[rank] =
        all.substr(static_cast<std::size_t>(offsets[rank]), static_cast<std::size_t>(sizes[rank]));
  }
  return said;
}

Status MpiSession::finish() {
  if (!handles_) return {};
  SWARMPI_CHECK(!handles_->finished, "MPI is ended once");
  handles_->finished = true;
  if (handles_->hangs) leave();
  const double limit_s = handles_->lost_a_rank ? kFinishAfterALossLimitS : kFinishLimitS;
  const CallWatchdog::Call call(handles_->watchdog, "MPI_Finalize", limit_s);
  const int code = MPI_Finalize();
  return code == MPI_SUCCESS ? Status() : failed_call("MPI_Finalize", code);
}

void MpiSession::leave() {
  std::signal(SIGTERM, SIG_DFL);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  std::raise(SIGTERM);
  std::abort();
}

}  // namespace swarmpi
