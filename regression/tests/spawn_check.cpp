// Checks of processes that are started while a run goes on, made by the ranks of an mpirun;
// spawn_test.py runs them.
// usage: mpirun ... spawn_check FOLDER LIMIT_S PLAN
// For each letter of the plan rank 0 has a process started, which is given up after LIMIT_S:
//   l  it lives              k  it dies before it starts MPI     h  it hangs before it starts MPI
//   r  it dies within 150 ms, whenever that is       d  it dies once it has joined
//   1 to 9  it dies as it is to publish something through mpirun for the N-th time; 1 is that it is
//           ready, then come the steps of MPI_Comm_connect
//   A to I  likewise, but it is stopped and hangs there
//   n  it cannot publish that it is ready            f  nor the first step of MPI_Comm_connect
//   a  like l, but by order of the last process that lives, not of rank 0
// Meanwhile rank 0 exchanges messages with all others. It writes to FOLDER/report what became of
// each process and how long the longest exchange took; at last how long the end took, unless MPI
// hangs in it.

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"
#include "regression/harness/publications.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {
namespace {

constexpr double kPauseS = 2e-3;

void send(MpiTransport& transport, PeerId to, const std::string& text) {
  transport.send(to, {Incarnation(0), ViewNumber{}, EndMessage{ExitStatus::good, text}});
}

std::string text_of(const MessageArrived& arrived) {
  const auto* end = get_if<EndMessage>(&arrived.message.body);
  SWARMPI_CHECK(end != nullptr, "a kind of message that was not sent");
  return end->why;
}

MpiTransportOptions options_of(const std::string& folder, double limit_s) {
  MpiTransportOptions options;
  options.spawned_arguments = {"spawned", folder};
  options.start_info = [](PeerId peer) { return std::to_string(peer.value); };
  options.start_limit_s = limit_s;
  options.longest_hold_s = 0.25;
  return options;
}

// Answers every message until it is told to end; has a process started where it is asked to.
void serve(MpiTransport& transport) {
  while (!transport.ended()) {
    transport.wait(-1, 0.05);
    while (const auto event = transport.receive()) {
      if (const auto* spawned = get_if<PeerSpawned>(&*event)) {
        send(transport, PeerId(0), "spawned " + std::to_string(spawned->peer.value));
      } else if (const auto* failed = get_if<SpawnFailed>(&*event)) {
        send(transport, PeerId(0), "failed " + failed->why);
      } else if (const auto* arrived = get_if<MessageArrived>(&*event)) {
        const std::string text = text_of(*arrived);
        if (text == "end") return;
        if (text == "die") raise(SIGKILL);
        text == "spawn" ? transport.spawn() : send(transport, arrived->from, text);
      }
    }
  }
}

// ---- A process that was started

// The letter of the plan for this process: as many have been here before.
char draw_letter(const std::string& folder) {
  std::string plan;
  std::getline(std::ifstream(folder + "/plan"), plan);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::string mark = folder + "/start-" + std::to_string(i);
    if (open(mark.c_str(), O_CREAT | O_EXCL, 0600) >= 0) return plan[i];
  }
  return 'l';
}

int run_started(const std::string& folder, const std::string& port) {
  const char letter = draw_letter(folder);
  if (letter == 'k') raise(SIGKILL);
  if (letter == 'h') raise(SIGSTOP);
  if (letter >= '1' && letter <= '9') raise_at_publication(letter - '0', SIGKILL);
  if (letter >= 'A' && letter <= 'I') raise_at_publication(letter - 'A' + 1, SIGSTOP);
  if (letter == 'n') fail_at_publication(1);
  if (letter == 'f') fail_at_publication(2);
  if (letter == 'r') {
    const auto delay = std::chrono::microseconds(getpid() * 7919 % 150000);
    std::thread([delay] {
      std::this_thread::sleep_for(delay);
      kill(getpid(), SIGKILL);
    }).detach();
  }
  auto session = MpiSession::join(port);
  SWARMPI_CHECK(session.ok(), session.status().message());
  const Result<std::string> info = session.value()->receive_start_info();
  SWARMPI_CHECK(info.ok(), info.status().message());
  {
    PayloadPool payloads;
    MpiTransport transport(*session.value(), payloads);
    transport.admit(PeerId(std::stoi(info.value())));
    serve(transport);
    if (transport.ended()) MpiSession::leave();
  }
  const Status finished = session.value()->finish();
  return finished.ok() ? 0 : 1;
}

// ---- Rank 0

class Director {
 public:
  Director(MpiTransport& transport, int ranks) : transport_(transport), ranks_(ranks) {}

  /// Has a process started and says what became of it; "" where it is not known after `limit_s`.
  std::string start(char letter, double limit_s);
  void end();

  std::string report;

 private:
  void exchange();  // one round with all ranks
  void take(const Event& event);

  MpiTransport& transport_;
  int ranks_;
  WallClock clock_;
  std::set<PeerId> lost_;
  std::vector<PeerId> started_;
  std::set<int> answered_;
  double longest_s_ = 0;
  std::string outcome_;
};

void Director::take(const Event& event) {
  if (const auto* lost = get_if<PeerLost>(&event)) lost_.insert(lost->peer);
  if (const auto* failed = get_if<SpawnFailed>(&event)) outcome_ = "failed " + failed->why;
  if (const auto* spawned = get_if<PeerSpawned>(&event))
    outcome_ = "spawned " + std::to_string(spawned->peer.value);
  const auto* arrived = get_if<MessageArrived>(&event);
  if (arrived == nullptr) return;
  const std::string text = text_of(*arrived);
  if (text == "hello") answered_.insert(arrived->from.value);
  if (text != "hello") outcome_ = text;
}

void Director::exchange() {
  const double begin_s = clock_.now_s();
  answered_.clear();
  for (int rank = 1; rank < ranks_; ++rank) send(transport_, PeerId(rank), "hello");
  const auto missing = [this] {
    for (int rank = 1; rank < ranks_; ++rank) {
      if (!answered_.contains(rank) && !lost_.contains(PeerId(rank))) return true;
    }
    return false;
  };
  while (missing() && clock_.now_s() < begin_s + 10) {
    while (const auto event = transport_.receive()) take(*event);
    transport_.wait(-1, kPauseS);
  }
  while (const auto event = transport_.receive()) take(*event);
  longest_s_ = std::max(longest_s_, clock_.now_s() - begin_s);
}

std::string Director::start(char letter, double limit_s) {
  const double begin_s = clock_.now_s();
  longest_s_ = 0;
  outcome_ = "";
  const auto lives = [this](PeerId peer) { return !lost_.contains(peer); };
  const auto last = std::find_if(started_.rbegin(), started_.rend(), lives);
  if (letter == 'a' && last != started_.rend()) {
    send(transport_, *last, "spawn");
  } else {
    transport_.spawn();
  }
  while (outcome_.empty() && clock_.now_s() < begin_s + limit_s) {
    exchange();
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
  }
  const double took_s = clock_.now_s() - begin_s;
  if (outcome_.starts_with("spawned ")) {
    started_.emplace_back(std::stoi(outcome_.substr(8)));
    if (letter == 'd') send(transport_, started_.back(), "die");
    if (letter == 'a') send(transport_, started_.back(), "hello");  // it is in reach
  }
  for (int i = 0; i < 20; ++i) exchange();
  report += fmt::format("{}: after {:.3f} s, longest round {:.3f} s: {}\n", letter, took_s,
                        longest_s_, outcome_);
  return outcome_;
}

void Director::end() {
  for (int rank = 1; rank < ranks_; ++rank) send(transport_, PeerId(rank), "end");
  for (const PeerId peer : started_) send(transport_, peer, "end");
  transport_.flush(2);
}

int run_rank(const std::string& folder, double limit_s, const std::string& plan) {
  auto started = MpiSession::start(true);
  SWARMPI_CHECK(started.ok(), started.status().message());
  MpiSession& session = *started.value();
  PayloadPool payloads;
  const bool directs = session.rank() == 0;
  if (directs) std::ofstream(folder + "/plan") << plan << "\n";
  WallClock clock;
  std::string report;
  double begin_s = 0;
  {
    MpiTransport transport(session, payloads, options_of(folder, limit_s));
    if (directs) {
      Director director(transport, session.ranks());
      for (const char letter : plan) director.start(letter, limit_s + 5);
      director.end();
      report = director.report;
    } else {
      serve(transport);
    }
    begin_s = clock.now_s();
  }
  std::ofstream file;
  if (directs) file.open(folder + "/report");
  if (directs) file << report << std::flush;
  const Status finished = session.finish();
  if (directs && finished.ok()) file << fmt::format("end: {:.3f} s\n", clock.now_s() - begin_s);
  return 0;
}

}  // namespace
}  // namespace swarmpi

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments[0] == "spawned") return swarmpi::run_started(arguments[1], arguments[2]);
  return swarmpi::run_rank(arguments[0], std::stod(arguments[1]), arguments[2]);
}
