#include "transport/mpi/mpi_transport.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/archive.hpp"
#include "core/check.hpp"
#include "core/clock.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"
#include "transport/mpi/backoff.hpp"
#include "transport/mpi/doorbell.hpp"
#include "transport/mpi/endpoints.hpp"
#include "transport/mpi/handles.hpp"
#include "transport/mpi/incoming.hpp"
#include "transport/mpi/kill_orders.hpp"
#include "transport/mpi/outgoing.hpp"
#include "transport/mpi/process.hpp"
#include "transport/mpi/requests.hpp"
#include "transport/mpi/spawning.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

// Completions in a row, without a look at anything else.
constexpr int kRounds = 64;
constexpr double kRanksOfACore = 4;  // that look at MPI as often as one
// Events taken in a row, while MPI is not looked at.
constexpr int kEventsWithoutProgress = 16;
// For receives that are cancelled when the transport ends.
constexpr double kCancelLimitS = 0.5;
// For processes that were started from here to end.
constexpr double kSpawnedEndLimitS = 0.5;
// Between two looks at those that were killed.
constexpr double kLookAtKilledS = 0.25;
constexpr std::size_t kLongestControlText = 300;
constexpr std::size_t kLongestControlBytes = 512;
// As the endpoint of who asks for a process: the peer that lives here.
constexpr int kHere = -1;

// What processes tell each other about processes and peers, beside the messages of the protocol.
struct ControlMessage {
  enum class Kind {
    ready_to_kill,         // the rank `subject`, which is on the receiver's host? Answered by
    is_ready_to_kill,      // the rank `subject`; and that by
    kill_process,          // of the rank `subject`
    kill_peer,             // `subject`, which lives at the receiver or at a process it has started
    died,                  // `subject`: a peer of the sender, or of a process it has started
    parted,                // no peer lives at the sender any more, nor will
    parted_after_the_end,  // the same, and its last one has seen the run's end
    start_process,         // of a new peer, for the sender; answered by one of the next three
    process_started,       // with the peer `subject`
    start_failed,          // `text` says why
    cannot_start,          // now; another rank may be able to
    kill_started,          // the process whose last argument is `text`
    taken                  // `subject` more bytes of the receiver's messages
  };
  Kind kind = Kind::ready_to_kill;
  std::int32_t subject = 0;  // a rank, a peer, or bytes
  std::string text = {};     // kLongestControlText at most
};
constexpr ControlMessage::Kind last_of(ControlMessage::Kind) { return ControlMessage::Kind::taken; }

double longest_sleep_s(const MpiTransportOptions& options, int ranks_on_host) {
  const double cores = static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return options.longest_sleep_s * std::max(1.0, ranks_on_host / (kRanksOfACore * cores));
}

}  // namespace

SWARMPI_FIELDS(ControlMessage, kind, subject, text);

// Streams of messages between this process and each endpoint, control messages beside them, and
// which peer lives where.
struct MpiTransport::Parts {
  Parts(MpiSession& session, PayloadPool& payloads, MpiTransportOptions asked);

  /// Looks at MPI; says whether anything was complete.
  bool progress();
  /// Counts the time since the last look at MPI if something was on its way then; notes whether
  /// this process was stopped since.
  void book_time();
  void send(PeerId to, Message message);
  void handle(const Completion& done);
  void handle(const ControlMessage& control, int from);
  /// A request to or from this endpoint has failed.
  void record_loss(int endpoint, int error);
  /// The process there is dead.
  void lose(int endpoint);
  bool is_losing(int endpoint) const;
  /// All peers that lived at this endpoint are dead.
  void report_peers_lost(int endpoint);
  /// A message has come from this endpoint, if it is whole.
  void take(std::optional<Incoming::InboundMessage> inbound, int from);
  /// Tells the endpoint how much of what it has sent is here, if that is much.
  void acknowledge(int endpoint);
  void relay(const Incoming::InboundMessage& inbound, int from);
  int endpoint_of(PeerId peer) const;
  /// From now on messages go to this endpoint and come from it.
  void open(int endpoint);
  /// Posts the receive of its next control message, which also fails when its process dies.
  void receive_control(int endpoint);
  void send_control(int endpoint, const ControlMessage& control);
  /// To all endpoints that are not lost, but for `except`.
  void broadcast_control(const ControlMessage& control, int except = -1);

  /// Has a process started, here or at another rank; answer_start() follows. `asker`: the endpoint
  /// of who wants it, or kHere.
  void start_anew(int asker);
  /// The same for one that another rank could not start.
  void start_process(int asker);
  bool may_start_here() const { return starter && starter->ready(); }
  /// A rank that this one may ask in its place; -1: there is none.
  int find_deputy() const;
  /// What became of the process that is being started here.
  void look_at_start();
  void kill_started();
  void adopt(PeerId peer, const StartedProcess& process);
  /// What became of the process that another rank was asked for.
  void pass_on_answer(int rank, const Result<PeerId>& peer);
  void ask_another(int unable);
  void answer_start(int asker, const Result<PeerId>& peer);
  void end_spawned();
  void free_spawned();

  void order_to_kill(PeerId peer);
  void order_to_kill_process(int rank);
  /// Kills this process, and sees to it that its death becomes known. False where it cannot.
  bool kill_here(PeerId peer, const Process& process);
  /// Tells all of those that were killed here and are dead but for calls of the kernel that hang:
  /// MPI does not.
  void look_at_killed();
  void report_death(PeerId peer);
  bool was_spawned() const { return mpi.parent != MPI_COMM_NULL; }
  /// Whether a peer's death is that of its rank.
  bool peer_is_process() const { return !was_spawned() && !options.rank_of; }
  bool ended() const;
  bool busy() const { return !outgoing.idle() || incoming.expecting(); }

  struct Child {
    int endpoint = -1;
    Process process;
  };
  struct Killed {
    Process process;
    double look_s = 0;
  };
  // A process that is being started here.
  struct Start {
    PeerId peer;
    int asker = kHere;
  };

  MpiSession::Handles& mpi;
  MpiTransportOptions options;
  Endpoints endpoints;
  Doorbell doorbell;
  Backoff backoff;
  TransportCounters counters;
  Requests requests;
  Outgoing outgoing;
  Incoming incoming;
  PeerDirectory directory;
  std::vector<Process> processes;                             // by rank
  std::map<PeerId, Child> children;                           // that were started from here
  std::vector<std::shared_ptr<std::string>> control_buffers;  // by endpoint
  std::vector<int> lost_endpoints;  // found lost since their peers were last reported
  std::deque<Event> events;
  std::optional<ProcessStarter> starter;  // where this rank is to start processes
  std::optional<Start> start;
  std::map<int, int> asked_ranks;  // for a process, and for whom
  std::set<int> unable_ranks;      // that cannot start the one that is wanted now
  WallClock asked_clock;           // since the peer here has asked for one
  int started = 0;
  int events_without_progress = 0;
  KillOrders kill_orders;                // of ranks
  std::map<PeerId, Killed> killed_here;  // by this process, and not known to be dead
  bool killed = false;                   // the peer that lives here, by order of another
  bool nothing_new = false;              // MPI was looked at just now, and nothing was sent since
  WallClock looks;                       // the time of looks at MPI
  double looked_at_s = 0;                // last
  bool carries = false;                  // something was on its way then
  double carried_s = 0;
};

MpiTransport::Parts::Parts(MpiSession& session, PayloadPool& payloads, MpiTransportOptions asked)
    : mpi(session.handles()),
      options(std::move(asked)),
      endpoints(session.spawned() ? Endpoints(mpi.parent, 1, -1)
                                  : Endpoints(mpi.swarm, mpi.ranks, mpi.rank)),
      backoff(longest_sleep_s(options, mpi.ranks_on_host)),
      requests(mpi.watchdog, endpoints),
      outgoing(requests, doorbell, options.fragment_bytes, options.fragments_in_flight, counters),
      incoming(requests, payloads, options.fragments_in_flight, counters),
      directory(endpoints.self(), endpoints.size(),
                [this](PeerId peer) { return endpoint_of(peer); }),
      kill_orders(options.suspect_after_s) {
  for (int endpoint = 0; endpoint < endpoints.size(); ++endpoint) {
    if (endpoint != endpoints.self()) open(endpoint);
  }
  if (session.spawned()) {
    doorbell.know({""});
    return;
  }
  for (const std::string& process : session.gather(to_bytes(this_process()))) {
    processes.push_back(unpack_process(process));
  }
  doorbell.know(session.gather(options.doorbell ? doorbell.name() : ""));
  if (!options.spawned_arguments.empty() && mpi.threads)
    starter.emplace(options.spawned_arguments, options.start_limit_s, options.longest_hold_s,
                    options.start_check);
}

void MpiTransport::Parts::open(int endpoint) {
  outgoing.open(endpoint);
  incoming.open(endpoint);
  receive_control(endpoint);
}

int MpiTransport::Parts::endpoint_of(PeerId peer) const {
  if (was_spawned()) return 0;
  if (options.rank_of) return options.rank_of(peer);
  if (peer.value < mpi.ranks) return peer.value;
  if (const auto child = children.find(peer); child != children.end())
    return child->second.endpoint;
  const int rank = peer.value % mpi.ranks;
  return rank == mpi.rank ? -1 : rank;
}

void MpiTransport::Parts::send(PeerId to, Message message) {
  nothing_new = false;
  const PeerId self = directory.self();
  if (to == self) {
    events.emplace_back(MessageArrived{to, std::move(message)});
  } else if (const int rank = directory.find(to); rank >= 0) {
    outgoing.send(rank, {self, to}, pack(message), overtakes(message));
  } else {
    report_death(to);
  }
}

// ---- Receiving

bool MpiTransport::Parts::progress() {
  book_time();
  ProcessStarter::Turn turn = starter ? starter->turn() : ProcessStarter::Turn();
  if (!turn) return false;
  bool happened = false;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Completion>& done = requests.test();
    if (done.empty()) break;
    happened = true;
    for (const Completion& completion : done) handle(completion);
  }
  // Only now: messages of a lost rank that have arrived come before its PeerLost.
  for (const int endpoint : std::exchange(lost_endpoints, {})) {
    outgoing.drop(endpoint);
    incoming.drop(endpoint);
    report_peers_lost(endpoint);
  }
  outgoing.post_late();
  outgoing.ring();
  if (start) look_at_start();
  if (!killed_here.empty()) look_at_killed();
  if (happened) backoff.reset();
  nothing_new = !happened;
  carries = busy();
  return happened;
}

void MpiTransport::Parts::book_time() {
  const double now_s = looks.now_s();
  const double since_s = now_s - looked_at_s;
  if (carries) carried_s += since_s;
  kill_orders.looked(now_s);
  looked_at_s = now_s;
}

void MpiTransport::Parts::handle(const Completion& done) {
  if (done.error != MPI_SUCCESS) return record_loss(done.endpoint, done.error);
  switch (done.kind) {
    case RequestKind::send:
      return outgoing.sent(done.endpoint);
    case RequestKind::beat_send:
      return outgoing.overtaken(done.endpoint);
    case RequestKind::control_send:
      return;
    case RequestKind::control_receive:
      handle(from_bytes<ControlMessage>(
                 std::string_view(*control_buffers[static_cast<std::size_t>(done.endpoint)])
                     .substr(0, done.size_bytes))
                 .value(),
             done.endpoint);
      return receive_control(done.endpoint);
    case RequestKind::head:
    case RequestKind::body:
      take(incoming.received(done), done.endpoint);
      return acknowledge(done.endpoint);
    case RequestKind::beat:
      return take(incoming.overtaken(done), done.endpoint);
  }
}

void MpiTransport::Parts::take(std::optional<Incoming::InboundMessage> inbound, int from) {
  if (!inbound) return;
  if (inbound->address.to != directory.self()) return relay(*inbound, from);
  directory.mark_known(inbound->address.from);
  events.emplace_back(MessageArrived{inbound->address.from, std::move(inbound->message)});
}

void MpiTransport::Parts::acknowledge(int endpoint) {
  const std::size_t bytes = incoming.to_acknowledge(endpoint);
  if (bytes == 0) return;
  send_control(endpoint, {ControlMessage::Kind::taken, static_cast<std::int32_t>(bytes)});
}

// Messages to and from processes that were started here pass through this one. Any other message
// that is not for the peer here was sent to one that has died.
void MpiTransport::Parts::relay(const Incoming::InboundMessage& inbound, int from) {
  if (children.empty()) return;
  const int endpoint = directory.find(inbound.address.to);
  if (endpoint >= 0 && endpoint != from)
    return outgoing.send(endpoint, inbound.address, pack(inbound.message),
                         overtakes(inbound.message));
  if (from >= mpi.ranks) send_control(from, {ControlMessage::Kind::died, inbound.address.to.value});
}

void MpiTransport::Parts::handle(const ControlMessage& control, int from) {
  switch (control.kind) {
    case ControlMessage::Kind::ready_to_kill:
      return send_control(from, {ControlMessage::Kind::is_ready_to_kill, control.subject});
    case ControlMessage::Kind::is_ready_to_kill:
      if (kill_orders.stands(control.subject, looks.now_s()))
        send_control(from, {ControlMessage::Kind::kill_process, control.subject});
      return;
    case ControlMessage::Kind::kill_process:
      if (!kill_orders.are_void())
        kill_here(PeerId(control.subject), processes.at(static_cast<std::size_t>(control.subject)));
      return;
    case ControlMessage::Kind::kill_peer:
      if (kill_orders.are_void()) return;
      if (PeerId(control.subject) != directory.self())
        return order_to_kill(PeerId(control.subject));
      killed = !peer_is_process();
      return;
    case ControlMessage::Kind::died:
      if (peer_is_process() && control.subject < mpi.ranks) return lose(control.subject);
      if (!directory.mark_dead(PeerId(control.subject))) return;
      if (!children.empty()) broadcast_control({ControlMessage::Kind::died, control.subject}, from);
      return report_death(PeerId(control.subject));
    case ControlMessage::Kind::parted:
    case ControlMessage::Kind::parted_after_the_end:
      directory.mark_parted(from, control.kind == ControlMessage::Kind::parted_after_the_end);
      return;
    case ControlMessage::Kind::start_process:
      return start_anew(from);
    case ControlMessage::Kind::process_started:
      return pass_on_answer(from, PeerId(control.subject));
    case ControlMessage::Kind::start_failed:
      return pass_on_answer(from, Status::failed(control.text));
    case ControlMessage::Kind::cannot_start:
      return ask_another(from);
    case ControlMessage::Kind::taken:
      return outgoing.taken(from, static_cast<std::size_t>(control.subject));
    case ControlMessage::Kind::kill_started:
      return kill_processes_with(control.text);
  }
}

// Any error ends the stream with this endpoint, for a piece of it is missing from then on.
void MpiTransport::Parts::record_loss(int endpoint, int error) {
  const bool known = is_losing(endpoint);
  lose(endpoint);
  if (known || reports_lost_rank(error)) return;
  std::fprintf(stderr, "swarmpi: warning: rank %d treats rank %d as lost after an MPI error: %s\n",
               mpi.rank, endpoint, mpi_error_text(error).c_str());
}

void MpiTransport::Parts::lose(int endpoint) {
  if (is_losing(endpoint)) return;
  mpi.lost_a_rank = true;
  lost_endpoints.push_back(endpoint);
}

bool MpiTransport::Parts::is_losing(int endpoint) const {
  return directory.is_lost(endpoint) ||
         std::find(lost_endpoints.begin(), lost_endpoints.end(), endpoint) != lost_endpoints.end();
}

void MpiTransport::Parts::report_peers_lost(int endpoint) {
  for (const PeerId peer : directory.mark_lost(endpoint)) {
    report_death(peer);
    // Only this process hears of the death of one it has started, and those it has started hear of
    // other deaths only from it.
    const bool concerns_all = children.erase(peer) > 0;
    if (concerns_all || !children.empty())
      broadcast_control({ControlMessage::Kind::died, peer.value});
  }
  pass_on_answer(endpoint, Status::failed(fmt::format(
                               "swarm.spawn: rank {} is lost, which was asked for it", endpoint)));
}

void MpiTransport::Parts::report_death(PeerId peer) {
  if (directory.first_report(peer)) events.emplace_back(PeerLost{peer});
}

bool MpiTransport::Parts::ended() const {
  if (killed) return true;
  // A process that another has started can reach no peer without that one.
  if (was_spawned() && directory.is_lost(0)) return true;
  // The run is over: a newcomer that still lives here came too late.
  return directory.anybody_saw_the_end() && directory.all_others_parted();
}

MpiTransport::MpiTransport(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options)
    : parts_(std::make_unique<Parts>(session, payloads, std::move(options))) {}

MpiTransport::~MpiTransport() {
  parts_->end_spawned();
  parts_->requests.give_up(kCancelLimitS);
  parts_->free_spawned();
}

void MpiTransport::send(PeerId to, Message message) {
  const bool is_rank = to.value >= 0 && to.value < parts_->mpi.ranks;
  const bool others_come = !parts_->peer_is_process() || !parts_->options.spawned_arguments.empty();
  SWARMPI_CHECK(is_rank || others_come,
                "a message to peer " + std::to_string(to.value) + ", which is no rank of this run");
  parts_->send(to, std::move(message));
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
    // A payload that comes after this wakes by the descriptor.
    parts_->outgoing.post_late();
    parts_->outgoing.ring();
    const double left_s = timeout_s - clock.now_s();
    if (!parts_->events.empty() || parts_->ended() || left_s <= 0) return;
    parts_->backoff.set_busy(parts_->busy());
    parts_->backoff.set_unannounced(!parts_->doorbell.reaches_all());
    const bool woken =
        parts_->backoff.sleep(wake_descriptor, parts_->doorbell.descriptor(), left_s);
    parts_->nothing_new = false;
    if (parts_->backoff.rung()) {
      parts_->doorbell.silence();
      parts_->backoff.reset();
    }
    if (woken) return;
  }
}

void MpiTransport::kill(PeerId peer) { parts_->order_to_kill(peer); }

void MpiTransport::spawn() {
  parts_->asked_clock = WallClock();
  parts_->start_anew(kHere);
}

bool MpiTransport::flush(double timeout_s) {
  const WallClock clock;
  while (true) {
    parts_->progress();
    if (parts_->outgoing.idle()) return true;
    const double left_s = timeout_s - clock.now_s();
    if (left_s <= 0) return false;
    parts_->backoff.set_busy(true);
    parts_->backoff.sleep(-1, -1, left_s);
  }
}

bool MpiTransport::ended() const { return parts_->ended(); }

double MpiTransport::carried_s() const { return parts_->carried_s; }

void MpiTransport::drop_kill_order() { parts_->killed = false; }

TransportCounters MpiTransport::counters() const { return parts_->counters; }

// ---- Peers that live here one after another

void MpiTransport::fall_silent() {
  parts_->outgoing.recall();
  parts_->killed = false;
  parts_->directory.mark_dead(parts_->directory.self());
  parts_->directory.clear();
}

void MpiTransport::announce_death(PeerId peer) {
  parts_->broadcast_control({ControlMessage::Kind::died, peer.value});
}

void MpiTransport::admit(PeerId self) {
  parts_->directory.admit(self);
  parts_->events.clear();
}

void MpiTransport::part(bool after_the_end) {
  const ControlMessage::Kind kind =
      after_the_end ? ControlMessage::Kind::parted_after_the_end : ControlMessage::Kind::parted;
  parts_->broadcast_control({kind});
  parts_->directory.mark_parted(parts_->mpi.rank, after_the_end);
}

bool MpiTransport::all_others_parted() const { return parts_->directory.all_others_parted(); }
bool MpiTransport::is_first() const {
  for (int rank = 0; rank < parts_->mpi.rank; ++rank) {
    if (!parts_->directory.is_lost(rank)) return false;
  }
  return true;
}
bool MpiTransport::anybody_saw_the_end() const { return parts_->directory.anybody_saw_the_end(); }

// ---- Control messages

void MpiTransport::Parts::receive_control(int endpoint) {
  const auto index = static_cast<std::size_t>(endpoint);
  const auto bytes = std::make_shared<std::string>(kLongestControlBytes, '\0');
  if (control_buffers.size() <= index) control_buffers.resize(index + 1);
  control_buffers[index] = bytes;
  requests.receive(RequestKind::control_receive, endpoint, kControlTag,
                   reinterpret_cast<std::byte*>(bytes->data()), bytes->size(), bytes);
}

void MpiTransport::Parts::send_control(int endpoint, const ControlMessage& control) {
  const auto bytes = std::make_shared<std::string>(to_bytes(control));
  SWARMPI_CHECK(bytes->size() <= kLongestControlBytes, "control messages are small");
  requests.send(RequestKind::control_send, endpoint, kControlTag,
                reinterpret_cast<const std::byte*>(bytes->data()), bytes->size(), bytes);
  doorbell.ring(endpoint);
}

void MpiTransport::Parts::broadcast_control(const ControlMessage& control, int except) {
  for (int endpoint = 0; endpoint < endpoints.size(); ++endpoint) {
    if (endpoint != endpoints.self() && endpoint != except && !directory.is_lost(endpoint))
      send_control(endpoint, control);
  }
}

void MpiTransport::Parts::order_to_kill(PeerId peer) {
  if (peer_is_process() && peer.value < mpi.ranks) return order_to_kill_process(peer.value);
  const int endpoint = directory.find(peer);
  const auto child = children.find(peer);
  if (endpoint < 0) {
    report_death(peer);
  } else if (child == children.end() || !kill_here(peer, child->second.process)) {
    send_control(endpoint, {ControlMessage::Kind::kill_peer, peer.value});
  }
}

void MpiTransport::Parts::order_to_kill_process(int victim) {
  const Process& process = processes.at(static_cast<std::size_t>(victim));
  if (kill_here(PeerId(victim), process)) return;
  bool asked = false;
  for (int rank = 0; rank < mpi.ranks; ++rank) {
    const Process& other = processes[static_cast<std::size_t>(rank)];
    const bool there = other.host == process.host && !process.host.empty();
    if (rank == victim || rank == mpi.rank || directory.is_lost(rank) || !there) continue;
    kill_orders.asked(victim, looks.now_s());
    send_control(rank, {ControlMessage::Kind::ready_to_kill, victim});
    asked = true;  // all ranks of that host are asked, for some may be stopped or dying
  }
  if (!asked) events.emplace_back(KillFailed{PeerId(victim)});
}

bool MpiTransport::Parts::kill_here(PeerId peer, const Process& process) {
  if (!kill_process(process)) return false;
  killed_here.try_emplace(peer, Killed{process, looks.now_s() + kLookAtKilledS});
  return true;
}

void MpiTransport::Parts::look_at_killed() {
  for (auto it = killed_here.begin(); it != killed_here.end();) {
    auto& [peer, killed_process] = *it;
    const int endpoint = directory.find(peer);
    const bool looks_now = looked_at_s >= killed_process.look_s;
    if (endpoint >= 0 && !(looks_now && runs_no_more(killed_process.process))) {
      if (looks_now) killed_process.look_s = looked_at_s + kLookAtKilledS;
      ++it;
      continue;
    }
    if (endpoint >= 0) {
      broadcast_control({ControlMessage::Kind::died, peer.value}, endpoint);
      lose(endpoint);
    }
    it = killed_here.erase(it);
  }
}

// ---- Processes that are started
//
// All are started by ranks of the run's start. A peer in a process that was started itself asks the
// rank that has done so: whoever it has asked for outlives it. A rank that cannot start any asks
// another rank.

// A rank that could not start one may be able to by now: it was starting another.
void MpiTransport::Parts::start_anew(int asker) {
  unable_ranks.clear();
  start_process(asker);
}

void MpiTransport::Parts::start_process(int asker) {
  if (may_start_here()) {
    ++started;
    start = Start{PeerId(mpi.rank + mpi.ranks * started), asker};
    starter->start(options.start_info(start->peer));
    return;
  }
  const bool for_rank = asker != kHere && asker < mpi.ranks && !was_spawned();
  if (for_rank) return send_control(asker, {ControlMessage::Kind::cannot_start});
  const int deputy = find_deputy();
  if (deputy >= 0) {
    asked_ranks[deputy] = asker;
    return send_control(deputy, {ControlMessage::Kind::start_process});
  }
  answer_start(
      asker, Status::failed("swarm.spawn: no rank can start a process now: it is starting one, or "
                            "MPI hangs in it since one has died as it was connected"));
}

int MpiTransport::Parts::find_deputy() const {
  const int candidates = was_spawned() ? 1 : mpi.ranks;
  for (int i = 1; i <= candidates; ++i) {
    const int rank = (mpi.rank + i) % candidates;
    if (rank != endpoints.self() && !directory.is_lost(rank) && !asked_ranks.contains(rank) &&
        !unable_ranks.contains(rank))
      return rank;
  }
  return -1;
}

void MpiTransport::Parts::look_at_start() {
  std::optional<Result<StartedProcess>> outcome = starter->outcome();
  if (!outcome) return;
  const Start ended = *std::exchange(start, std::nullopt);
  if (!outcome->ok()) {
    kill_started();
    return answer_start(ended.asker, outcome->status());
  }
  adopt(ended.peer, outcome->value());
  answer_start(ended.asker, ended.peer);
}

// The process that was started last, on whichever host it is.
void MpiTransport::Parts::kill_started() {
  if (starter->port().empty()) return;
  kill_processes_with(starter->port());
  broadcast_control({ControlMessage::Kind::kill_started, 0, starter->port()});
}

void MpiTransport::Parts::adopt(PeerId peer, const StartedProcess& process) {
  const int endpoint = endpoints.add({process.comm, 0});
  directory.add_endpoint();
  doorbell.add("");
  children[peer] = {endpoint, process.process};
  directory.mark_known(peer);
  open(endpoint);
  for (const PeerId dead : directory.dead())
    send_control(endpoint, {ControlMessage::Kind::died, dead.value});
}

void MpiTransport::Parts::ask_another(int unable) {
  const auto found = asked_ranks.find(unable);
  if (found == asked_ranks.end()) return;
  const int asker = found->second;
  asked_ranks.erase(found);
  unable_ranks.insert(unable);
  start_process(asker);
}

void MpiTransport::Parts::pass_on_answer(int rank, const Result<PeerId>& peer) {
  const auto found = asked_ranks.find(rank);
  if (found == asked_ranks.end()) return;
  const int asker = found->second;
  asked_ranks.erase(found);
  answer_start(asker, peer);
}

void MpiTransport::Parts::answer_start(int asker, const Result<PeerId>& peer) {
  if (peer.ok()) directory.mark_known(peer.value());
  if (asker == kHere && peer.ok()) {
    events.emplace_back(PeerSpawned{peer.value(), asked_clock.now_s()});
  } else if (asker == kHere) {
    events.emplace_back(SpawnFailed{peer.status().message()});
  } else if (directory.is_lost(asker)) {
    return;
  } else if (peer.ok()) {
    send_control(asker, {ControlMessage::Kind::process_started, peer.value().value});
  } else {
    send_control(asker, {ControlMessage::Kind::start_failed, 0,
                         peer.status().message().substr(0, kLongestControlText)});
  }
}

void MpiTransport::Parts::end_spawned() {
  for (const auto& [peer, child] : children)
    send_control(child.endpoint, {ControlMessage::Kind::kill_peer, peer.value});
  mpi.hangs = starter && !starter->end();
  if (start) kill_started();  // not sooner: it might have been in the midst of the connection
  starter.reset();
  start.reset();
  const WallClock clock;
  while (!children.empty() && clock.now_s() < kSpawnedEndLimitS) {
    if (!progress()) backoff.sleep(-1, -1, kSpawnedEndLimitS);
  }
}

// MPI_Finalize hangs where several communicators with started processes are left: it waits for a
// farewell of each, which those with one such communicator do not send.
void MpiTransport::Parts::free_spawned() {
  if (was_spawned() || mpi.hangs) return;
  for (int endpoint = mpi.ranks; endpoint < endpoints.size(); ++endpoint) {
    MPI_Comm comm = endpoints.at(endpoint).comm;
    const CallWatchdog::Call call(mpi.watchdog, "MPI_Comm_free");
    MPI_Comm_free(&comm);
  }
}

}  // namespace swarmpi
