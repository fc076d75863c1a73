#pragma once
// One peer of the swarm: a state machine without I/O. Events in, actions out; the same code runs on
// a cluster and under a simulated clock, network and disk.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/leader.hpp"
#include "protocol/membership/heartbeats.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/membership/silent_links.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/ports.hpp"
#include "protocol/replica_host.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

// A newcomer asks so often, and gives up so late.
inline constexpr double kAskAgainS = 0.5;
inline constexpr double kPatienceToJoinS = 30;

inline Status gone_on_without_this_peer() {
  return Status::stopped("the others have gone on without this peer");
}

class Peer {
 public:
  Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What to do about `event`, which happened at `now_s`.
  Actions handle(const Event& event, double now_s);

  bool done() const { return finished_.has_value(); }
  /// How it ended. REQUIRES: done().
  const Status& status() const { return *finished_; }
  /// Whether it is this peer's to tell a person how the run ended: the leader's, or that of all
  /// who lost it: none of them knows who else is left. Never of one that left while others go on.
  bool reports_outcome() const;
  /// Whether it went while others go on.
  bool left() const { return left_.contains(self_); }
  /// Whether the whole run has ended, as far as it knows.
  bool saw_the_end() const { return end_ || ended_for_all_ || (leader_ && leader_->over()); }
  /// One line for messages about stalls: what this peer does or waits for.
  std::string waiting_for() const;
  /// What it holds though it is of no use any more; "" if nothing.
  std::string left_over() const { return replica_host_.left_over(); }

 private:
  void learn(const Event& event);
  void learn(const MessageArrived& arrived);
  void note_departure(const Event& event);
  /// What neither the leader in this peer nor its servant hears.
  void receive(const ViewMessage& message, PeerId from);
  void receive(const InquiryMessage& message, PeerId from);
  void receive(const InquiryAnswer& message, PeerId from);
  void receive(const ForwardDone& message, PeerId from);
  void receive(const JoinMessage& message, PeerId from);
  void receive(const LostMessage& message, PeerId from);
  void receive(const HeartbeatMessage&, PeerId) {}
  void receive(const PingMessage& message, PeerId from);
  void receive(const PongMessage& message, PeerId from);
  void receive(const SuspectMessage& message, PeerId from);
  void receive(const ReleaseMessage& message, PeerId from);
  void receive(const FencedMessage& message, PeerId from);
  void receive(const EndMessage& message, PeerId from);
  void receive(const ExitMessage& message, PeerId from);
  template <class Body>
  void receive(const Body& body, PeerId from);
  void start();
  /// One who was not there at the start says so, until somebody answers.
  void ask_to_join();
  /// Leads, if all who would go before it are dead; else sees to it that the one who leads knows of
  /// the death.
  void succeed(PeerId dead);
  void ask_for_term(Term term);
  void take_the_lead(const TermCreated& term);
  /// Some may live in a newer view than this peer: it goes on from the newest.
  void inquire(Term term);
  /// Those who had promised to follow another did not answer.
  void repeat_inquiry();
  void receive(const TermOver& over);
  void lead_when_all_have_answered();
  void lead(Term term, View view, std::shared_ptr<const RestartPoint> restart);
  void ask_to_stop(const std::string& why);
  void report_failure(const Status& status);
  void end_for_all(const Status& status);
  void announce_departure(const Status& status);
  /// Whoever was to lead is gone: the views of others count again.
  void break_promise_to(PeerId peer);
  /// REQUIRES: the end was heard.
  void leave();
  void lost(PeerId peer, const std::string& how);
  /// The run cannot go on without `peer`.
  void give_up(PeerId peer, const std::string& how);
  double patience_s() const;
  std::vector<PeerId> line_of_succession() const;
  /// Those from whom something must come, and who are asked whether they live.
  std::set<PeerId> awaited() const;
  void watch_others();
  void suspect_the_silent();
  void kill(PeerId peer, bool over_a_link = false);
  /// Those who were to be killed, and live: one that speaks again may.
  void follow_kill_orders();
  void cannot_kill(PeerId peer);
  void suspend_if_stale();
  void ask_the_others();
  bool held_while_suspended(const Event& event) const;
  void ask_again_while_suspended();
  /// If nobody has answered for long, or is left.
  void give_up_suspended();
  /// Is not known to those whom it could ask for anything else.
  bool asks_to_join() const;
  /// The sender is said to be dead.
  void refuse(const MessageArrived& arrived);
  void set_timer();
  /// Those who were there when the view was made, or at the start.
  View members() const;
  /// Those who live, but for this peer.
  std::vector<PeerId> others() const;
  /// Who leads, as far as this peer knows: the live peer with the lowest id.
  PeerId leader_id() const;
  void finish(Status status);

  PeerId self_;
  RunPlan plan_;
  InitialMembership membership_;
  Outbox outbox_;
  Incarnation incarnation_;
  double now_s_ = 0;
  std::optional<View> view_;
  std::vector<MessageArrived> early_;  // of a view that is not here yet
  std::optional<std::string> stop_;    // was asked for here
  std::optional<Status> failure_;      // of this peer
  std::optional<EndMessage> end_;      // was heard
  bool ended_for_all_ = false;
  std::optional<double> leaves_at_s_;  // if nobody leads until then
  std::optional<double> asks_at_s_;    // to join, again
  std::set<PeerId> dead_;              // as was heard, or as the view says
  std::set<PeerId> lost_;              // of these: as was heard
  std::set<PeerId> left_;              // that have said goodbye
  bool lost_leader_ = false;
  std::optional<double> leaderless_since_s_;  // it was heard that who led has died
  Heartbeats heartbeats_;
  SilentLinks silent_links_;  // as the others report them to the leader
  struct KillOrder {
    double at_s = 0;
    bool over_a_link = false;  // it speaks, but not to somebody who needs it
  };
  std::map<PeerId, KillOrder> kill_orders_;
  bool leader_was_silent_ = false;  // one was to be killed, on this peer's order
  // Was stopped for so long that the others may have gone on without it; none has answered since.
  std::optional<double> suspended_since_s_;
  std::vector<Event> held_;        // until then
  std::optional<double> timer_s_;  // the last one set
  ReplicaHost replica_host_;
  std::shared_ptr<const RestartPoint> restart_;  // what all have gone back to, if they have
  std::optional<Term> term_asked_;
  std::size_t outbid_ = 0;  // how often its term was over
  Term promised_;           // views of earlier terms are not adopted any more
  std::optional<PeerId> promised_to_;
  std::optional<ViewMessage> below_promise_;  // the last that was not adopted
  struct Inquiry {
    Term term;
    View newest;
    std::shared_ptr<const RestartPoint> restart;
    std::set<PeerId> awaited;
  };
  std::optional<Inquiry> inquiry_;
  std::optional<Leader> leader_;
  std::optional<Status> finished_;
};

}  // namespace swarmpi
