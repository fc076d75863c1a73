#pragma once
// Peers in virtual time: the very core that runs on a cluster, on simulated transport, clock,
// compute and storage, in one thread. Whatever happens follows from the models; two worlds with the
// same models and peers are the same world.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/peer.hpp"
#include "simulation/event_queue.hpp"
#include "simulation/models.hpp"
#include "simulation/virtual_disk.hpp"

namespace swarmpi {

/// Hears everything that a world does.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Before the peer handles it.
  virtual void happened(double now_s, PeerId peer, const Event& event) = 0;
  /// Before it is carried out.
  virtual void asked(double now_s, PeerId peer, const Action& action) = 0;
  /// All that an event led to is carried out.
  virtual void handled(double, PeerId) {}
  virtual void died(double, PeerId) {}
  /// The peer is stopped, or a link of it is cut, or the others are told that it has died.
  virtual void falls_silent(double /*from_s*/, double /*until_s*/, PeerId) {}
};

class VirtualWorld {
 public:
  /// All of these outlive the world.
  VirtualWorld(LinkModel& links, CostModel& costs, DiskModel& disks, VirtualDisk& disk)
      : links_(links), costs_(costs), disks_(disks), disk_(disk) {}

  /// A peer that starts at `start_s`, and whose own clock is ahead by `clock_offset_s`. Messages
  /// that come before wait for it.
  void add(PeerId id, std::unique_ptr<Peer> peer, VirtualCompute& compute, double start_s,
           double clock_offset_s);
  /// The peer is gone, with its jobs, timers and unfinished writes; for each of the others the
  /// links say until when what it has sent still arrives, and when the loss is heard of. An
  /// observer may ask for it too: then the rest of what it hears of does not happen. False if the
  /// peer has finished or is dead.
  bool kill(PeerId id);
  /// For so long the peer does nothing: what comes waits for it.
  void stop(PeerId id, double lasts_s);
  /// All others are told that the peer has died; it lives, and knows nothing of it.
  void give_up_for_dead(PeerId id);
  /// A bit of the peer's state of this stage flips. False where that is not possible.
  bool flip(PeerId id, StageId stage);
  /// For so long nothing that is sent between the two arrives; infinite: never. `reachable`:
  /// somebody can kill the one for the other.
  void cut(PeerId a, PeerId b, double lasts_s, bool reachable);
  /// Something that comes from outside.
  void post(double at_s, PeerId to, Event event);
  void watch(Observer& observer) { observers_.push_back(&observer); }

  /// Lets the next thing happen. False if nothing can, or computing failed.
  bool step();

  double now_s() const { return now_s_; }
  /// What has happened so far.
  std::int64_t events() const { return events_; }
  /// Whether everybody has finished or is dead.
  bool all_done() const;
  /// Whether the peer neither has finished nor is dead.
  bool acts(PeerId id) const { return members_.at(id).acts(); }
  bool dead(PeerId id) const { return !members_.at(id).peer; }
  /// REQUIRES: not dead.
  const Peer& peer(PeerId id) const { return *members_.at(id).peer; }
  /// An error of computing or saving.
  const Status& finding() const { return finding_; }
  /// What each peer that is not done does or waits for, one line each.
  std::string waiting_for() const;

 private:
  struct Member {
    bool acts() const { return peer && !finished; }

    std::unique_ptr<Peer> peer;  // null: dead
    bool finished = false;
    Term term;  // that it leads
    VirtualCompute* compute = nullptr;
    double start_s = 0;
    double clock_offset_s = 0;
    double stopped_until_s = 0;
    bool given_up = false;  // said to be dead
    double disk_free_s = 0;
    bool disk_failed = false;
    std::int64_t timers = 0;                  // asked for so far; only the last is due
    std::map<PeerId, double> last_arrival_s;  // of messages to each peer
  };
  struct TimerEnd {
    std::int64_t number;
  };
  /// Somebody is killed by order of another peer.
  struct KillDelivery {
    PeerId by;
  };
  /// A write that ends.
  struct Written {
    Action write;
    Term term;            // that the writer led
    bool without_writer;  // it comes to that even if the writer dies meanwhile
  };
  struct Pending {
    PeerId peer;
    std::variant<Event, Written, TimerEnd, KillDelivery> what;
  };
  struct Cut {
    double until_s;
    bool reachable;
  };

  /// Whether this waits until the peer, which is stopped, goes on.
  bool rests(const Member& member, const Pending& next) const;
  /// What the peer hears of it, if anything.
  std::optional<Event> event_of(PeerId id, Member& member, Pending& next);
  void let_happen(PeerId id, Member& member, const Event& event);
  void tell_of_death(PeerId id);
  void tell_of_silence(PeerId id, double until_s);
  void land(PeerId victim, Member& member, const KillDelivery& delivery);
  void have_killed(PeerId by, PeerId victim);
  /// A write whose writer has died meanwhile.
  void written_after_death(PeerId id, Member& member, const Written& written);
  const Cut* cut_between(PeerId a, PeerId b) const;
  /// Whether it is a message that the death of its sender has swallowed.
  bool swallowed(PeerId to, const Event& event) const;
  /// What the peer hears once its disk has done this; nothing where that is a finding.
  std::optional<Event> written(PeerId id, Member& member, const Written& write);
  bool term_is_over(const Member& member, const Written& write) const;
  std::optional<Event> loaded(Member& member, const LoadStage& load);
  /// When the peer's own clock will show this.
  double time_of(double clock_s, const Member& member) const;
  void take(PeerId from, Member& member, Action& action);
  void send(PeerId from, Member& member, Send& send);
  void start(PeerId id, Member& member, const Job& job);
  void write(PeerId id, Member& member, Action& action);

  LinkModel& links_;
  CostModel& costs_;
  DiskModel& disks_;
  VirtualDisk& disk_;
  std::map<PeerId, Member> members_;
  std::map<std::pair<PeerId, PeerId>, double> last_words_s_;  // of the dead, to each other peer
  std::map<std::pair<PeerId, PeerId>, Cut> cuts_;             // lower id first
  EventQueue<Pending> heap_;
  std::vector<Observer*> observers_;
  double now_s_ = 0;
  std::int64_t events_ = 0;
  Status finding_;
};

}  // namespace swarmpi
