#pragma once
// One peer of the swarm: a state machine without I/O. Events in, actions out; the same code runs on
// a cluster and under a simulated clock, network and disk. A peer holds a replica host, which works
// on microbatches, and, while it leads, a leader. What is here itself: who is heard, who leads, and
// who has died.

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

// A newcomer asks to join so often, and gives up after this time.
inline constexpr double kAskAgainS = 0.5;
inline constexpr double kPatienceToJoinS = 30;

/// How a peer ends that the others have taken for dead.
inline Status fenced() {
  return Status::stopped("this peer was fenced: the other peers have continued without it");
}

class Peer {
 public:
  Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What to do about `event`, which happened at `now_s`.
  Actions handle(const Event& event, double now_s);

  PeerId self() const { return self_; }
  bool done() const { return finished_.has_value(); }
  /// How it ended. REQUIRES: done().
  const Status& status() const { return *finished_; }
  /// Whether this peer tells a person how the run ended: the leader does, and, without recovery,
  /// all that have lost the leader, because none of them knows who else is left. A peer that left
  /// while others continue does not.
  bool reports_outcome() const;
  /// Whether this peer left while others continue.
  bool left() const { return left_.contains(self_); }
  /// Whether the whole run has ended, as far as it knows.
  bool saw_the_end() const { return end_ || ended_for_all_ || (leader_ && leader_->over()); }
  /// "peer 3, step 41" for messages: its id and the step after the last commit that it knows of.
  std::string position() const;
  /// One line for messages about stalls: what this peer does or waits for.
  std::string waiting_for() const;
  /// What it holds though nothing needs it any more; "" if nothing. For tests.
  std::string left_over() const { return replica_host_.left_over(); }

 private:
  // ---- Events

  /// Notes what happened: hands the event to the part of this peer that it is for.
  void dispatch(const Event& event);
  /// Decides whether a message is heard now, refused, dropped, or waits for a newer view.
  void hear(const MessageArrived& arrived);
  /// The sender is known to be dead: if it asks something, it is fenced.
  void refuse(const MessageArrived& arrived);
  /// Notes that a peer departed in good order, if that is what the event says.
  void note_departure(const Event& event);

  // Messages that neither the leader in this peer nor its replica host receives.
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

  // ---- Start, views, deaths

  /// First event: the peer with the lowest id asks for the first term, a newcomer asks to join.
  void start();
  /// Sends JoinMessage to all that this peer knows; again after kAskAgainS, until a view comes.
  void ask_to_join();
  /// Whether this peer waits for somebody to let it in, and does not lead.
  bool asks_to_join() const;
  /// The last view, or, before any, the one that the run is to begin with.
  const ViewRef& newest_view() const;
  const View& members() const { return *newest_view(); }
  /// The live members but for this peer, and those asked in an inquiry.
  std::vector<PeerId> others() const;
  /// Who leads, as far as this peer knows: the live peer with the lowest id.
  PeerId leader_id() const;
  /// A peer has died, as was heard: notes it, and leads, tells who leads, or gives up waiting for
  /// it.
  void lost(PeerId peer, const std::string& how);
  /// Whether all are dead that this peer takes for earlier in line, and another peer, that may have
  /// a view, is left to inquire of.
  bool is_taken_for_leader() const;
  /// Without recovery a death ends the run: the leader ends it for all; a peer that has lost the
  /// leader ends itself.
  void end_without_recovery(PeerId peer, const std::string& how);

  // ---- Election

  /// After a death: asks for a term if this peer is to lead, else tells the one that is of the
  /// death.
  void succeed(PeerId dead);
  /// Has storage create the file of this term, unless it leads, asks already, or knows of the end.
  void ask_for_term(Term term);
  /// Storage has answered: begins to lead under the term, tries the next, or ends the run.
  void take_the_lead(const TermCreated& term);
  /// Asks all live peers that it knows for their newest view: some may have adopted a newer one.
  void inquire(Term term);
  void inquire_of(PeerId peer);
  /// On the timer: asks again those that have not answered. A peer that has promised a later term
  /// to another does not answer, until that one has died.
  void repeat_inquiry();
  /// With all answers here: leads from the newest view, or asks to join if it is not in it.
  void lead_when_all_have_answered();
  /// Makes the leader, without the dead, and has it publish its first view.
  void lead(Term term, ViewRef view, std::shared_ptr<const RestartPoint> restart);
  /// The peer that was promised to lead has died: views of earlier terms count again.
  void break_promise_to(PeerId peer);
  /// A later term than this leader's exists: leads no more, and asks for a still later one.
  void receive(const TermOver& over);

  // ---- Failure detector

  /// Exchanges heartbeats with the others if this peer leads, else with the leader.
  void watch_others();
  /// How long a peer may be silent before this one acts.
  double patience_s() const;
  /// The live members that would lead one after the other, up to the first that is not silent: up
  /// to this peer at most.
  std::vector<PeerId> line_of_succession() const;
  /// Those that are pinged when they are silent: they owe something, or are next to lead.
  std::set<PeerId> awaited() const;
  /// On the timer: has silent peers killed if that is this peer's part, or reports them to the
  /// leader.
  void suspect_the_silent();
  /// Has a peer killed, once. `over_a_link`: because a link to it is cut, though it is heard here.
  void kill(PeerId peer, bool over_a_link = false);
  /// Those that still live too long after the order: drops the order if they were heard since, else
  /// they cannot be killed.
  void follow_kill_orders();
  /// A suspect may live and continue the run: ends the run, with status 3.
  void cannot_kill(PeerId peer);

  // Suspension of a peer that was stopped itself.

  /// Before each event: suspends this peer if its timer comes so late that the others may have
  /// continued without it.
  void suspend_if_stale();
  void ask_the_others();
  /// Whether the event waits until somebody has answered.
  bool held_while_suspended(const Event& event) const;
  void ask_again_while_suspended();
  /// Ends this peer if nobody has answered for long, or nobody is left.
  void give_up_suspended();

  // ---- Leaving, failure, and the end of the run

  /// A signal or a notice: tells the leader, and each that leads after it.
  void ask_to_stop(const std::string& why);
  /// This peer cannot continue: tells the leader, or ends the run if nobody leads.
  void report_failure(const Status& status);
  /// Tells all others that this peer departs (in good order if `status` is ok), and finishes.
  void announce_departure(const Status& status);
  /// Finishes with the end that was heard; without one, because no run has let this peer join.
  void finish_as_heard();
  /// Sends all others the end and ExitMessage, without waiting for anybody, and finishes.
  void end_for_all(const Status& status);
  void finish(Status status);

  /// Asks for the earliest time at which this peer, or its leader, wants to do something.
  void set_timer();

  PeerId self_;
  RunPlan plan_;
  InitialMembership membership_;
  Outbox outbox_;
  Incarnation incarnation_;
  double now_s_ = 0;
  ReplicaHost replica_host_;
  std::optional<Leader> leader_;
  std::optional<Status> finished_;

  // Views and deaths.
  mutable ViewRef initial_view_;                 // made if it is asked for before any view
  ViewRef view_;                                 // the last one; null before the first
  std::shared_ptr<const RestartPoint> restart_;  // what all have gone back to, if they have
  std::vector<MessageArrived> awaiting_view_;    // of a view that is not here yet
  std::set<PeerId> dead_;                        // as was heard, or as the view says
  std::set<PeerId> lost_;                        // of these: as was heard
  std::set<PeerId> left_;                        // that have announced their departure
  // Not in the view here, but perhaps in a newer one: they have asked to join, or have told this
  // peer of a death, as one tells the next leader.
  std::set<PeerId> contacts_;
  bool lost_leader_ = false;                 // and there is no recovery
  std::optional<double> asks_to_join_at_s_;  // again
  std::optional<double> finishes_at_s_;      // if no view has come until then

  // Election.
  std::optional<Term> term_asked_;  // of storage
  std::size_t outbid_ = 0;          // how often a later term than this leader's was created
  std::optional<double> leaderless_since_s_;  // it was heard that the leader has died
  bool leader_was_silent_ = false;            // a leader was to be killed on this peer's order
  struct Inquiry {
    Term term;
    ViewRef newest;
    std::shared_ptr<const RestartPoint> restart;
    std::set<PeerId> asked, awaited;
  };
  std::optional<Inquiry> inquiry_;
  Term promised_;  // views of earlier terms are not adopted any more
  std::optional<PeerId> promised_to_;
  std::optional<ViewMessage> below_promise_;  // the last view that was not adopted because of that

  // Failure detector.
  Heartbeats heartbeats_;
  SilentLinks silent_links_;  // as the others report them to the leader
  struct KillOrder {
    double at_s = 0;
    bool over_a_link = false;  // it is heard here, but not by a peer that awaits something from it
  };
  std::map<PeerId, KillOrder> kill_orders_;
  std::optional<double> suspended_since_s_;
  std::vector<Event> held_;        // while suspended
  std::optional<double> timer_s_;  // the last one set

  // Leaving, failure, and the end of the run.
  std::optional<std::string> stop_;  // was asked for here
  std::optional<Status> failure_;    // of this peer
  std::optional<EndMessage> end_;    // was heard
  bool ended_for_all_ = false;       // by this peer
};

}  // namespace swarmpi
