#include "transport/mpi/spawning.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "core/archive.hpp"
#include "core/check.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kLongestTextBytes = std::size_t{1} << 24;
constexpr auto kSpawnLookEvery = std::chrono::milliseconds(2);
// What mpirun may take to launch a process on a busy host.
constexpr double kLongestLaunchS = 5;

// Published by the process that was started, once MPI runs in it.
std::string ready_name(const std::string& port) { return "swarmpi-ready-" + port; }

// Open MPI's daemon dies of a bus error, and all ranks with it, where its session folder (in
// $TMPDIR) has no room for what a new process needs: 250 kB for two ranks.
constexpr std::uintmax_t kSessionBytes = std::uintmax_t{4} << 20;

Status check_session_room() {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  if (folder == nullptr) return {};
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  if (unknown || space.available >= kSessionBytes) return {};
  return Status::failed(
      fmt::format("swarm.spawn: no process is started: mpirun's session folder {} has {:.1f} MB "
                  "free, and {:.1f} MB may be needed; free some",
                  folder, static_cast<double>(space.available) / 1e6,
                  static_cast<double>(kSessionBytes) / 1e6));
}

Status send_text(MPI_Comm comm, const std::string& text) {
  const int code =
      MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, kStartInfoTag, comm);
  return code == MPI_SUCCESS ? Status() : failed_call("MPI_Send", code);
}

Result<std::string> receive_text(MPI_Comm comm, const MPI_Status& status) {
  int size_bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &size_bytes);
  const auto size = static_cast<std::size_t>(size_bytes);
  if (size_bytes < 0 || size > kLongestTextBytes)
    return Status::failed(fmt::format(
        "swarm.spawn: start information from the other process has {} bytes, more than {}",
        size_bytes, kLongestTextBytes));
  std::string text(size, '\0');
  const int code =
      MPI_Recv(text.data(), size_bytes, MPI_CHAR, 0, kStartInfoTag, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return failed_call("MPI_Recv", code);
  return text;
}

}  // namespace

// What a thread that starts a process shares with its ProcessStarter, which may go before it.
struct ProcessStarter::Attempt {
  enum class Stage { launch, await, connect, greet, over };

  Attempt(std::vector<std::string> arguments_, std::string start_info_, StartCheck check_)
      : arguments(std::move(arguments_)),
        start_info(std::move(start_info_)),
        check(std::move(check_)) {}

  void run();
  Result<StartedProcess> start();
  Status launch() const;
  bool await() const;
  Status connect(MPI_Comm& comm);
  Result<StartedProcess> greet(MPI_Comm comm) const;

  std::vector<std::string> arguments;
  std::string start_info;
  StartCheck check;
  std::string port;
  std::mutex connecting;  // held while MPI may wait for the other process
  std::atomic<Stage> stage = Stage::launch;
  std::atomic<bool> settled = false;  // by the thread at its end, or by who gives it up before
  std::optional<Result<StartedProcess>> result;  // to be read when the stage is `over`
};

void ProcessStarter::Attempt::run() {
  result = start();
  const bool given_up = settled.exchange(true);
  if (given_up && result->ok()) {
    MPI_Comm_free(&result->value().comm);
    result = Status::failed("swarm.spawn: the start was given up");
  }
  stage = Stage::over;
}

Result<StartedProcess> ProcessStarter::Attempt::start() {
  if (Status launched = launch(); !launched.ok()) return launched;
  stage = Stage::await;
  if (!await()) return Status::failed("swarm.spawn: the start was given up");
  MPI_Comm comm = MPI_COMM_NULL;
  if (Status connected = connect(comm); !connected.ok()) {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    return connected;
  }
  stage = Stage::greet;
  Result<StartedProcess> started = greet(comm);
  if (!started.ok()) MPI_Comm_free(&comm);
  return started;
}

Status ProcessStarter::Attempt::launch() const {
  if (Status room = check_session_room(); !room.ok()) return room;
  std::error_code unknown;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  const std::string here = std::filesystem::current_path(unknown).string();
  if (unknown) {
    return Status::failed(
        "swarm.spawn: the path of the program (/proc/self/exe) or the working directory is "
        "unknown: " +
        unknown.message());
  }
  std::vector<std::string> copies = arguments;
  copies.push_back(port);
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", here.c_str());
  // With Open MPI 5.0 a rank finds the address of one process at most that mpirun has started for
  // it on another host.
  if (const char* const host = std::getenv("PMIX_HOSTNAME")) MPI_Info_set(info, "host", host);
  MPI_Info_set(info, "ompi_non_mpi", "true");  // MPI_Comm_spawn does not wait to be connected
  MPI_Comm none = MPI_COMM_NULL;
  int error = MPI_SUCCESS;
  const int code =
      MPI_Comm_spawn(program.c_str(), argv.data(), 1, info, 0, MPI_COMM_SELF, &none, &error);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS) return failed_call("MPI_Comm_spawn", code);
  return error == MPI_SUCCESS ? Status() : failed_call("MPI_Comm_spawn", error);
}

// Whether the other process is up; false: it was given up.
bool ProcessStarter::Attempt::await() const {
  char text[MPI_MAX_PORT_NAME];
  while (!settled) {
    if (MPI_Lookup_name(ready_name(port).c_str(), MPI_INFO_NULL, text) == MPI_SUCCESS) return true;
    std::this_thread::sleep_for(kSpawnLookEvery);
  }
  return false;
}

// The first message may wait as well: Open MPI asks mpirun then for the other's address.
Status ProcessStarter::Attempt::connect(MPI_Comm& comm) {
  const std::lock_guard lock(connecting);
  stage = Stage::connect;  // before the look: who gives this up looks at the stage after that
  if (settled) return Status::failed("swarm.spawn: the start was given up");
  const int code = MPI_Comm_accept(port.c_str(), MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm);
  if (code != MPI_SUCCESS) return failed_call("MPI_Comm_accept", code);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return send_text(comm, start_info);
}

Result<StartedProcess> ProcessStarter::Attempt::greet(MPI_Comm comm) const {
  int arrived = 0;
  MPI_Status status;
  while (!settled) {
    const int code = MPI_Iprobe(0, kStartInfoTag, comm, &arrived, &status);
    if (code != MPI_SUCCESS) return failed_call("MPI_Iprobe", code);
    if (arrived != 0) break;
    std::this_thread::sleep_for(kSpawnLookEvery);
  }
  if (arrived == 0) return Status::failed("swarm.spawn: the start was given up");
  const Result<std::string> text = receive_text(comm, status);
  if (!text.ok()) return text.status();
  const Result<StartAnswer> answer = from_bytes<StartAnswer>(text.value());
  if (!answer.ok()) {
    return Status::failed("swarm.spawn: invalid answer of the process: " +
                          answer.status().message());
  }
  Status taken = answer.value().why_not.empty() ? Status() : Status::failed(answer.value().why_not);
  if (taken.ok() && check) taken = check(answer.value().shows);
  if (Status sent = send_text(comm, taken.message()); !sent.ok()) return sent;
  if (!taken.ok()) return Status::failed("swarm.spawn: " + taken.message());
  return StartedProcess{comm, answer.value().process};
}

// ---- The caller's side

ProcessStarter::ProcessStarter(std::vector<std::string> arguments, double limit_s,
                               double longest_hold_s, StartCheck check)
    : arguments_(std::move(arguments)),
      limit_s_(limit_s),
      longest_hold_s_(longest_hold_s),
      check_(std::move(check)) {}

bool ProcessStarter::end() {
  if (!attempt_ || std::exchange(ended_, true)) return true;
  answered_ = true;
  attempt_->settled = true;
  // A launch takes what mpirun takes; MPI hangs where a connection does.
  Attempt::Stage stage = attempt_->stage;
  double since_s = clock_.now_s();
  while (stage != Attempt::Stage::over) {
    const double most_s = stage == Attempt::Stage::launch ? kLongestLaunchS : longest_hold_s_;
    if (clock_.now_s() >= since_s + most_s) return false;
    std::this_thread::sleep_for(kSpawnLookEvery);
    const Attempt::Stage before = std::exchange(stage, attempt_->stage.load());
    if (stage != before) since_s = clock_.now_s();
  }
  // Of a start that nobody has asked the outcome of: MPI_Finalize would wait for the other process.
  if (attempt_->result && attempt_->result->ok()) MPI_Comm_free(&attempt_->result->value().comm);
  attempt_->result.reset();
  return true;
}

// An attempt that was given up may still be in MPI: a second thread there would not be waited for.
bool ProcessStarter::ready() const {
  return answered_ && (!attempt_ || attempt_->stage == Attempt::Stage::over);
}

const std::string& ProcessStarter::port() const { return attempt_->port; }

void ProcessStarter::start(std::string start_info) {
  SWARMPI_CHECK(ready(), "one process is started at a time");
  attempt_ = std::make_shared<Attempt>(arguments_, std::move(start_info), check_);
  answered_ = false;
  begun_s_ = clock_.now_s();
  held_since_s_ = -1;
  const auto fail = [this](Status why) {
    attempt_->result = std::move(why);
    attempt_->stage = Attempt::Stage::over;
  };
  char port[MPI_MAX_PORT_NAME] = "";
  const int code = MPI_Open_port(MPI_INFO_NULL, port);
  if (code != MPI_SUCCESS) return fail(failed_call("MPI_Open_port", code));
  attempt_->port = port;
  try {
    std::thread([attempt = attempt_] { attempt->run(); }).detach();
  } catch (const std::system_error& error) {  // no more threads or processes are allowed
    fail(Status::failed(std::string("swarm.spawn: no thread: ") + error.what()));
  }
}

std::optional<Result<StartedProcess>> ProcessStarter::outcome() {
  if (answered_) return std::nullopt;
  if (attempt_->stage == Attempt::Stage::over) {
    answered_ = true;
    return std::exchange(attempt_->result, std::nullopt);
  }
  if (clock_.now_s() < begun_s_ + limit_s_) return std::nullopt;
  if (attempt_->settled.exchange(true)) return std::nullopt;  // it ends in this very moment
  answered_ = true;
  return Status::failed(fmt::format(
      "swarm.spawn: a process that was to be started has not answered for {:.0f} s", limit_s_));
}

ProcessStarter::Turn ProcessStarter::turn() {
  Turn turn;
  if (!attempt_ || attempt_->stage == Attempt::Stage::over) return turn;
  turn.owner_ = attempt_;
  turn.lock_ = std::unique_lock(attempt_->connecting, std::try_to_lock);
  if (turn.lock_) {
    held_since_s_ = -1;
    return turn;
  }
  if (held_since_s_ < 0) held_since_s_ = clock_.now_s();
  turn.granted_ = clock_.now_s() > held_since_s_ + longest_hold_s_;
  return turn;
}

// ---- In the process that was started

bool was_launched_alone() {
  const char* port = std::getenv("OMPI_PARENT_PORT");
  if (port == nullptr || *port != '\0') return false;
  unsetenv("OMPI_PARENT_PORT");
  return true;
}

Result<MPI_Comm> connect_to_starter(CallWatchdog& watchdog, const std::string& port,
                                    double limit_s) {
  const CallWatchdog::Call call(watchdog, "MPI_Comm_connect to the process that has started this",
                                limit_s);
  int code = MPI_Publish_name(ready_name(port).c_str(), MPI_INFO_NULL, port.c_str());
  if (code != MPI_SUCCESS) return failed_call("MPI_Publish_name", code);
  MPI_Comm starter = MPI_COMM_NULL;
  code = MPI_Comm_connect(port.c_str(), MPI_INFO_NULL, 0, MPI_COMM_SELF, &starter);
  if (code != MPI_SUCCESS) return failed_call("MPI_Comm_connect", code);
  MPI_Comm_set_errhandler(starter, MPI_ERRORS_RETURN);
  MPI_Unpublish_name(ready_name(port).c_str(), MPI_INFO_NULL, port.c_str());
  return starter;
}

namespace {

Result<std::string> await_text(CallWatchdog& watchdog, MPI_Comm starter) {
  const CallWatchdog::Call call(watchdog, "MPI_Recv from the process that has started this one");
  MPI_Status status;
  const int code = MPI_Probe(0, kStartInfoTag, starter, &status);
  if (code != MPI_SUCCESS) return failed_call("MPI_Probe", code);
  return receive_text(starter, status);
}

}  // namespace

Result<std::string> receive_start_info(CallWatchdog& watchdog, MPI_Comm starter,
                                       const AnswerStart& answer) {
  Result<std::string> start_info = await_text(watchdog, starter);
  if (!start_info.ok()) return start_info;
  StartAnswer mine = answer ? answer(start_info.value()) : StartAnswer();
  mine.process = this_process();
  if (Status sent = send_text(starter, to_bytes(mine)); !sent.ok()) return sent;
  const Result<std::string> refusal = await_text(watchdog, starter);
  if (!refusal.ok()) return refusal;
  if (!refusal.value().empty()) return Status::failed(refusal.value());
  return start_info;
}

}  // namespace swarmpi
