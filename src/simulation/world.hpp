#pragma once
// Peers in virtual time: the core that also runs on a cluster, on simulated transport, clock,
// compute and storage, in one thread. All that happens follows from the models: two worlds with the
// same models and peers do the same.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.hpp"
#include "core/flat_map.hpp"
#include "core/virtual_time.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/observer.hpp"
#include "protocol/peer.hpp"
#include "simulation/event_queue.hpp"
#include "simulation/models.hpp"
#include "simulation/time_carried.hpp"
#include "simulation/virtual_collectives.hpp"
#include "simulation/virtual_disk.hpp"

namespace swarmpi {

class VirtualWorld {
 public:
  /// The models and the disk outlive the world.
  VirtualWorld(LinkModel& links, CostModel& costs, DiskModel& disks, VirtualDisk& disk)
      : links_(links), costs_(costs), disks_(disks), disk_(disk) {}

  /// Adds a peer that starts at `start_s`, and whose own clock is ahead by `clock_offset_s`.
  /// Earlier messages to it are delivered when it starts.
  void add(PeerId id, std::unique_ptr<Peer> peer, VirtualCompute& compute, double start_s,
           double clock_offset_s);
  /// Kills the peer: its jobs, timers and unfinished writes are lost. For each other peer
  /// LinkModel::death_propagation() says until when its messages still arrive, and when the loss is
  /// known. An observer may call this: then what it was told of, and the rest of the peer's
  /// actions, do not happen. False if the peer has finished or is dead.
  bool kill(PeerId id);
  /// The peer does nothing for this time: its events wait.
  /// `with_its_host`: until it goes on, nobody can kill it.
  void stop(PeerId id, double duration_s, bool with_its_host = false);
  /// Likewise; what it has sent before goes on arriving piece by piece, so that others hear of it.
  void hang_loop(PeerId id, double duration_s);
  /// The peer's jobs do not end for this time, though it handles events.
  void hang_jobs(PeerId id, double duration_s);
  /// Its calls of the file system do not return for this time.
  void hang_disk(PeerId id, double duration_s);
  /// All other peers are told that this one has died, though it lives.
  void declare_dead(PeerId id);
  /// Flips a bit of the peer's state of this stage. False if it has none, or has finished.
  bool flip(PeerId id, StageId stage);
  /// Messages from one to the other that leave in this time arrive after it; if it is infinite,
  /// never. `reachable`: it can still have the other killed.
  void cut(PeerId from, PeerId to, double duration_s, bool reachable);
  /// Another run begins in the same journal; see VirtualDisk::outbid().
  bool outbid() { return disk_.outbid(); }
  /// Adds an event from outside, like a request to stop.
  void post(double at_s, PeerId to, Event event);
  void watch(Observer& observer) { observers_.add(observer); }
  /// Peers may make collectives. The model outlives the world. `microbatches`: of a step.
  void have_collectives(CollectiveModel& model, std::int64_t microbatches) {
    collectives_.emplace(model, microbatches);
  }

  /// Delivers the next event. False if there is none, or a compute has found a violation.
  bool step();

  double now_s() const { return to_s(now_); }
  /// When the next event is due, at the earliest; infinite if there is none.
  double next_s() const { return queue_.empty() ? to_s(kNever) : to_s(queue_.next_time()); }
  /// Lets time pass up to then. REQUIRES: it is not after next_s().
  void advance(double at_s) { now_ = std::max(now_, to_ns(at_s)); }
  /// Number of events that were delivered.
  std::int64_t events() const { return events_; }
  /// Whether each peer has finished or is dead.
  bool all_done() const { return active_ == 0; }
  /// Those who live and have not finished, by id.
  std::vector<PeerId> active_peers() const;
  /// Whether the peer lives and has not finished.
  bool is_active(PeerId id) const { return member(id).is_active(); }
  bool dead(PeerId id) const { return !member(id).peer; }
  /// Whether such a peer was ever added.
  bool has(PeerId id) const { return find(id) != nullptr; }
  /// REQUIRES: not dead.
  const Peer& peer(PeerId id) const { return *member(id).peer; }
  /// The first error of a compute: a rule that the protocol broke, or state that is lost.
  const Status& violation() const { return violation_; }
  /// What each active peer does or waits for, one line each.
  std::string waiting_for() const;

 private:
  struct Member {
    bool is_active() const { return peer && !finished; }

    PeerId id;
    std::unique_ptr<Peer> peer;  // null: dead
    bool finished = false;
    Term term;  // that it leads
    VirtualCompute* compute = nullptr;
    Nanoseconds start = 0;
    double clock_offset_s = 0;
    Nanoseconds stopped_until = 0;
    Nanoseconds host_stopped_until = 0;
    Nanoseconds trickles_until = 0;              // what it has sent
    std::map<PeerId, Nanoseconds> next_arrival;  // of what trickles, to each peer
    bool declared_dead = false;                  // the others were told that it died
    /// One lane of its storage.
    struct DiskLane {
      Nanoseconds free = 0;
      std::int64_t asked = 0;  // writes, since it was last abandoned
      std::int64_t ended = 0;  // of these
      std::int64_t calls = 0;  // that have ended
      /// Of each time that it was abandoned: the write that was under way. Those behind it were
      /// never begun.
      std::vector<std::int64_t> under_way;

      std::int64_t pending() const { return asked - ended; }
      std::int64_t abandoned() const { return static_cast<std::int64_t>(under_way.size()); }
    };
    std::map<Lane, DiskLane> disk;
    bool disk_failed = false;
    std::int64_t loads_for = 0;  // the newest incarnation that it has asked a stage for
    Nanoseconds disk_hangs_until = 0;
    Nanoseconds jobs_hang_since = 0, jobs_hang_until = 0;
    /// When the last message to a peer leaves that had to wait, and when the last one arrives.
    struct LastMessage {
      Nanoseconds leaves = -1;
      Nanoseconds arrives = 0;
    };
    std::int64_t timers = 0;  // set so far; only the last one comes due
    FlatMap<PeerId, LastMessage> last_message, last_overtaking;  // to each; these overtake those
    TimeCarried carried;                                         // to it and from it

    LastMessage& last(PeerId to, const Message& message) {
      return (overtakes(message) ? last_overtaking : last_message)[to];
    }
    /// The peer is dead: nothing is sent to it any more.
    void forget(PeerId other) {
      last_message.erase(other);
      last_overtaking.erase(other);
    }
  };
  /// A message that has waited at its sender leaves it.
  struct Leaving {
    Send send;
    Delivery delivery;
  };
  struct TimerEnd {
    std::int64_t number = 0;
  };
  /// A kill by order of another peer.
  struct KillDelivery {
    PeerId by;
  };
  /// A write that ends.
  struct Written {
    Action write;
    Term term;             // that the writer led
    bool outlives_writer;  // it is completed even if the writer dies, or waits for it no more
    Lane lane = Lane::run;
    std::int64_t abandoned = 0;  // how often its lane had been, when it was asked for
    std::int64_t number = 0;     // since then
  };
  using Pending =
      std::variant<TimerEnd, Event, Written, KillDelivery, VirtualCollectives::Tick, Leaving>;
  struct Cut {
    Nanoseconds until;
    bool reachable;
  };

  const Member* find(PeerId id) const {
    const auto index = static_cast<std::size_t>(id.value);
    return index < members_.size() ? members_[index].get() : nullptr;
  }
  Member* find(PeerId id) { return const_cast<Member*>(std::as_const(*this).find(id)); }
  const Member& member(PeerId id) const {
    const Member* const found = find(id);
    SWARMPI_CHECK(found != nullptr, "a peer is added before anything happens to it");
    return *found;
  }
  Member& member(PeerId id) { return const_cast<Member&>(std::as_const(*this).member(id)); }
  /// So many seconds from now, rounded once.
  Nanoseconds after(double seconds) const {
    const Nanoseconds duration = to_ns(seconds);
    return duration == kNever ? kNever : now_ + duration;
  }
  /// An event is made in its place in the queue.
  template <class Kind>
  void push(Nanoseconds at, PeerId to, Kind what) {
    queue_.push(at, to).template emplace<Event>(std::move(what));
  }
  void push(Nanoseconds at, PeerId to, Event event) {
    queue_.push(at, to).emplace<Event>(std::move(event));
  }
  void push(Nanoseconds at, PeerId to, Written what) {
    queue_.push(at, to).emplace<Written>(std::move(what));
  }
  void push(Nanoseconds at, PeerId to, TimerEnd what) {
    queue_.push(at, to).emplace<TimerEnd>(what);
  }
  void push(Nanoseconds at, PeerId to, KillDelivery what) {
    queue_.push(at, to).emplace<KillDelivery>(what);
  }
  void push(Nanoseconds at, PeerId from, Leaving what) {
    queue_.push(at, from).emplace<Leaving>(std::move(what));
  }
  void push(Nanoseconds at, PeerId to, VirtualCollectives::Tick what) {
    queue_.push(at, to).emplace<VirtualCollectives::Tick>(std::move(what));
  }
  void prefetch_next();
  /// What was taken from the queue happens. Whether an event was delivered.
  bool happen(Member& member, Pending& next);

  /// Until when this must wait, because the peer is stopped, or its jobs or disk hang; its own time
  /// where it need not.
  Nanoseconds held_until(const Member& member, const Pending& next);
  bool held_by_stop(const Member& member, const Pending& next) const;
  /// Until when a message waits because its sender hangs and another piece has just arrived.
  Nanoseconds held_by_trickle(PeerId to, const Pending& next);
  /// The event that a write which ends is for the peer, if any.
  std::optional<Event> event_of(Member& member, const Written& write);
  void dispatch(PeerId id, Member& member, const Event& event);
  void tell_of_death(PeerId id);
  void deliver_kill(PeerId victim, Member& member, const KillDelivery& delivery);
  void order_kill(PeerId by, PeerId victim);
  /// Completes, or drops, a write whose writer has died.
  void written_after_death(PeerId id, Member& member, const Written& written);
  /// Completes, or drops, a write that nobody waits for any more.
  void written_late(PeerId id, Member& member, const Written& written);
  const Cut* cut_of(PeerId from, PeerId to) const;
  /// Whether the event is a message that is lost because its sender died.
  bool lost_with_sender(PeerId to, const Event& event) const;
  /// Carries out a write that is not refused, and returns the event for its writer; none after a
  /// violation.
  std::optional<Event> written(PeerId id, Member& member, const Written& write);
  std::optional<Event> carried_out(PeerId id, Member& member, const Written& write);
  bool term_is_over(const Member& member, const Written& write) const;
  Event loaded(PeerId id, const LoadManifest& load);
  std::optional<Event> loaded(Member& member, const LoadStage& load);
  /// When the peer's own clock will show `clock_s`.
  Nanoseconds world_time(double clock_s, const Member& member) const;
  void carry_out(PeerId from, Member& member, Action& action);
  void send(PeerId from, Member& member, Send& send);
  /// The message leaves the sender's line now.
  void leave(PeerId from, Member& member, Send& send, const Delivery& delivery);
  void start(PeerId id, Member& member, const Job& job);
  void write(PeerId id, Member& member, Action& action);
  void push(VirtualCollectives::All all);
  VirtualCollectives::Computes living_computes() const;
  WorkProbed progress_of(const Member& member) const;

  LinkModel& links_;
  CostModel& costs_;
  DiskModel& disks_;
  VirtualDisk& disk_;
  std::vector<std::unique_ptr<Member>> members_;  // by id; null where there is no such peer
  std::vector<const Peer*> peers_;                // of them, to be prefetched
  std::vector<bool> died_;                        // by id: small, for it is asked at each message
  std::map<std::pair<PeerId, PeerId>, Nanoseconds>
      last_arrival_from_dead_;                     // by dead peer and receiver
  std::map<std::pair<PeerId, PeerId>, Cut> cuts_;  // by sender and receiver
  EventQueue<Pending> queue_;
  std::optional<VirtualCollectives> collectives_;
  Observers observers_;
  Nanoseconds now_ = 0;
  Nanoseconds all_go_on_ = 0;  // no peer is stopped, nor anything of one hangs, from then on
  std::int64_t events_ = 0;
  std::int64_t active_ = 0;  // members
  Status violation_;
};

}  // namespace swarmpi
