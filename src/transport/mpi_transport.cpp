#include "transport/mpi_transport.hpp"

#include <cstdio>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "transport/doorbell.hpp"
#include "transport/incoming.hpp"
#include "transport/mpi_handles.hpp"
#include "transport/outgoing.hpp"
#include "transport/process.hpp"
#include "transport/requests.hpp"
#include "transport/sleeper.hpp"
#include "transport/tags.hpp"
#include "transport/wire.hpp"

namespace swarmpi {
namespace {

// Completions in a row, without a look at anything else.
constexpr int kRounds = 64;
// Events taken in a row, while MPI is not looked at.
constexpr int kEventsWithoutProgress = 16;
constexpr double kGiveUpS = 0.5;

}  // namespace

struct MpiTransport::Parts {
  Parts(MpiSession& session, PayloadPool& payloads, const MpiTransportOptions& options);

  /// Says whether anything happened.
  bool progress();
  void take(const Completion& done);
  void lose(int rank, int error);
  /// The next order, or the death, of this rank.
  void watch(int rank);
  void order_to_kill(int rank);
  bool busy() const { return !outgoing.idle() || incoming.expecting(); }

  MpiSession::Handles& mpi;
  Doorbell doorbell;
  Sleeper sleeper;
  TransportCounters counters;
  Requests requests;
  Outgoing outgoing;
  Incoming incoming;
  std::vector<Process> processes;             // by rank
  std::vector<std::shared_ptr<int>> watched;  // by rank: where an order lands
  std::vector<bool> lost;                     // by rank
  std::vector<int> losses;                    // found since events were last looked at
  std::deque<Event> events;
  int events_without_progress = 0;
  bool nothing_new = false;  // MPI was looked at just now, and nothing was sent since
};

MpiTransport::Parts::Parts(MpiSession& session, PayloadPool& payloads,
                           const MpiTransportOptions& options)
    : mpi(session.handles()),
      sleeper(options.longest_sleep_s),
      requests(mpi.watchdog),
      outgoing(mpi, requests, doorbell, options.fragment_bytes, options.fragments_in_flight,
               counters),
      incoming(mpi, requests, payloads, options.fragments_in_flight, counters),
      watched(static_cast<std::size_t>(mpi.ranks)),
      lost(static_cast<std::size_t>(mpi.ranks)) {
  for (int rank = 0; rank < mpi.ranks; ++rank) {
    if (rank != mpi.rank) watch(rank);
  }
  for (const std::string& process : session.gather(this_process().packed())) {
    processes.push_back(unpack_process(process));
  }
  doorbell.know(session.gather(options.doorbell ? doorbell.name() : ""));
}

void MpiTransport::Parts::watch(int rank) {
  const auto victim = std::make_shared<int>(-1);
  watched[static_cast<std::size_t>(rank)] = victim;
  requests.receive(RequestKind::watch, mpi.swarm, rank, kWatchTag,
                   reinterpret_cast<std::byte*>(victim.get()), sizeof(int), victim);
}

void MpiTransport::Parts::order_to_kill(int victim) {
  const Process& process = processes.at(static_cast<std::size_t>(victim));
  if (kill_process(process)) return;
  bool asked = false;
  for (int rank = 0; rank < mpi.ranks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    const bool there = processes[place].host == process.host && !process.host.empty();
    if (rank == victim || rank == mpi.rank || lost[place] || !there) continue;
    const auto order = std::make_shared<int>(victim);
    requests.send(RequestKind::order, mpi.swarm, rank, kWatchTag,
                  reinterpret_cast<const std::byte*>(order.get()), sizeof(int), order);
    doorbell.ring(rank);
    asked = true;  // all of them: some may be stopped, or dying
  }
  if (!asked) events.emplace_back(KillFailed{PeerId(victim)});
}

bool MpiTransport::Parts::progress() {
  bool happened = false;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Completion>& done = requests.test();
    if (done.empty()) break;
    happened = true;
    for (const Completion& completion : done) take(completion);
  }
  // After what the lost ranks have said.
  for (const int rank : std::exchange(losses, {})) {
    outgoing.drop(rank);
    incoming.drop(rank);
    events.emplace_back(PeerLost{PeerId(rank)});
  }
  outgoing.ring();
  if (happened) sleeper.stir();
  nothing_new = !happened;
  return happened;
}

void MpiTransport::Parts::take(const Completion& done) {
  if (done.error != MPI_SUCCESS) return lose(done.rank, done.error);
  switch (done.kind) {
    case RequestKind::send:
      return outgoing.sent(done.rank);
    case RequestKind::order:
      return;
    case RequestKind::watch:
      kill_process(
          processes.at(static_cast<std::size_t>(*watched[static_cast<std::size_t>(done.rank)])));
      return watch(done.rank);
    case RequestKind::head:
    case RequestKind::body:
      if (std::optional<Message> message = incoming.received(done)) {
        events.emplace_back(MessageArrived{PeerId(done.rank), std::move(*message)});
      }
  }
}

// Any error ends the stream: a piece is missing from then on.
void MpiTransport::Parts::lose(int rank, int error) {
  if (lost[static_cast<std::size_t>(rank)]) return;
  lost[static_cast<std::size_t>(rank)] = true;
  mpi.lost_a_rank = true;
  losses.push_back(rank);
  if (tells_of_a_lost_rank(error)) return;
  std::fprintf(stderr, "swarmpi: rank %d gives up rank %d: %s\n", mpi.rank, rank,
               mpi_error_text(error).c_str());
}

MpiTransport::MpiTransport(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options)
    : parts_(std::make_unique<Parts>(session, payloads, options)) {}

MpiTransport::~MpiTransport() { parts_->requests.give_up(kGiveUpS); }

void MpiTransport::send(PeerId to, Message message) {
  if (to.value == parts_->mpi.rank) {
    parts_->events.emplace_back(MessageArrived{to, std::move(message)});
    return;
  }
  SWARMPI_CHECK(to.value >= 0 && to.value < parts_->mpi.ranks, "there is no such rank");
  parts_->outgoing.send(to.value, pack(message));
  parts_->nothing_new = false;
}

std::optional<Event> MpiTransport::receive() {
  std::deque<Event>& events = parts_->events;
  if (events.empty() || ++parts_->events_without_progress > kEventsWithoutProgress) {
    parts_->progress();
    parts_->events_without_progress = 0;
  }
  if (events.empty()) return std::nullopt;
  Event event = std::move(events.front());
  events.pop_front();
  return event;
}

void MpiTransport::wait(int wake_descriptor, double timeout_s) {
  const WallClock clock;
  while (true) {
    if (!parts_->nothing_new) parts_->progress();
    const double left_s = timeout_s - clock.now_s();
    if (!parts_->events.empty() || left_s <= 0) return;
    parts_->sleeper.set_busy(parts_->busy());
    parts_->sleeper.set_unheard(!parts_->doorbell.reaches_all());
    const bool woken =
        parts_->sleeper.sleep(wake_descriptor, parts_->doorbell.descriptor(), left_s);
    parts_->nothing_new = false;
    if (parts_->sleeper.rung()) {
      parts_->doorbell.silence();
      parts_->sleeper.stir();
    }
    if (woken) return;
  }
}

void MpiTransport::kill(PeerId peer) { parts_->order_to_kill(peer.value); }

bool MpiTransport::flush(double timeout_s) {
  const WallClock clock;
  while (true) {
    parts_->progress();
    if (parts_->outgoing.idle()) return true;
    const double left_s = timeout_s - clock.now_s();
    if (left_s <= 0) return false;
    parts_->sleeper.set_busy(true);
    parts_->sleeper.sleep(-1, -1, left_s);
  }
}

TransportCounters MpiTransport::counters() const { return parts_->counters; }

}  // namespace swarmpi
