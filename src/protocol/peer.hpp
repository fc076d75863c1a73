#pragma once
// One peer of the swarm: a state machine without I/O. Events in, actions out; the same code runs on
// a cluster and under a simulated clock, network and disk. A peer holds a replica host, which works
// on microbatches, and, while it leads, a leader. What is here itself: who is heard, and what the
// parts of membership/ decide about who leads, who has died, and how all ends.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/records.hpp"
#include "core/status.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/membership/join_request.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class AwakeClock;
class CallWatch;
class Election;
class FailureDetector;
class Leader;
class Membership;
class ReplicaHost;
class Suspension;
enum class Task : std::uint8_t;
struct Mandate;
struct RestartPoint;
struct Survivor;

/// How a peer ends that the others have taken for dead.
inline Status fenced() {
  return Status::stopped("this peer was fenced: the other peers have continued without it");
}

class Peer {
 public:
  Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume);
  /// The same, with a plan that several peers of this process share.
  Peer(PeerId self, std::shared_ptr<const RunPlan> plan, InitialMembership membership,
       ResumeState resume);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What to do about `event`, which happened at `now_s`.
  Actions handle(const Event& event, double now_s);

  /// Total time so far during which a transfer to or from this peer was in progress.
  void set_carried(double total_s);
  /// When the process of this peer started, on its clock; without it the peer's life begins with
  /// the first event.
  void set_born(double at_s) { born_s_ = at_s; }
  /// How long the oldest event has waited that the threads of this peer have left for it.
  void set_oldest_waits(double age_s) { oldest_waits_s_ = age_s; }

  PeerId self() const { return self_; }
  bool done() const { return finished_.has_value(); }
  /// How it ended. REQUIRES: done().
  const Status& status() const { return *finished_; }
  /// Whether this peer tells a person how the run ended: the leader does; who ends it for all
  /// where nobody leads; who hears nobody; and, without recovery, all that have lost the leader,
  /// because none of them knows who else is left. A peer that left while others continue does not.
  bool reports_outcome() const;
  /// Whether this peer left while others continue.
  bool left() const;
  /// Whether another peer has died, or has left, as far as this one knows.
  bool lost_somebody() const;
  /// Whether the whole run has ended, as far as it knows.
  bool saw_the_end() const;
  /// What its next pass will read, as far as one can tell: it may be brought to a device
  /// beforehand.
  PayloadRef read_next() const;
  /// "peer 3, step 41" for messages: its id and the step after the last commit that it knows of.
  std::string position() const;
  /// One line for messages about stalls: what this peer does or waits for.
  std::string waiting_for() const;
  /// What it holds though nothing needs it any more; "" if nothing. For tests.
  std::string left_over() const;

 private:
  // ---- Events

  /// Notes what happened: hands the event to the part of this peer that it is for.
  void dispatch(const Event& event);
  /// What is to be done at a time: heartbeats, suspicions, questions to be asked again.
  void timer_due();
  /// Decides whether a message is heard now, refused, dropped, or waits for a newer view.
  void hear(const MessageArrived& arrived);
  /// The sender is known to be dead: if it asks something, it is fenced.
  void refuse(const MessageArrived& arrived);
  /// Notes that a peer departed in good order, or gave itself up, if that is what the event says.
  void note_departure(const Event& event);

  // Messages that neither the leader in this peer nor its replica host receives.
  void receive(const ViewMessage& message, PeerId from);
  /// The view that the message comes to; null if it is a delta of one that is not here, or that may
  /// not be adopted.
  ViewRef whole_of(const ViewMessage& message) const;
  /// REQUIRES: the view of the message is whole, and newer than the last.
  void adopt(const ViewMessage& message);
  /// Begins another history, if all have gone back to this point and this peer has not.
  void go_back_to(const std::shared_ptr<const RestartPoint>& restart);
  void receive(const InquiryMessage& message, PeerId from);
  void receive(const InquiryAnswer& message, PeerId from);
  void receive(const ForwardDone& message, PeerId from);
  void receive(const JoinMessage& message, PeerId from);
  void receive(const LostMessage& message, PeerId from);
  void receive(const HeartbeatMessage&, PeerId) {}
  void receive(const PingMessage& message, PeerId from);
  void receive(const PongMessage& message, PeerId from);
  void receive(const SuspectMessage& message, PeerId from);
  void receive(const TryMessage& message, PeerId from);
  void receive(const ResignMessage& message, PeerId from);
  void tell_order();
  void receive(const AbstainMessage& message, PeerId from);
  void receive(const AbleMessage& message, PeerId from);
  void receive(const ReleaseMessage& message, PeerId from);
  void receive(const FencedMessage& message, PeerId from);
  void receive(const EndMessage& message, PeerId from);
  void receive(const ExitMessage& message, PeerId from);
  template <class Body>
  void receive(const Body& body, PeerId from);

  // ---- Start, views, deaths

  /// First event: the peer with the lowest id asks for the first term, a newcomer asks to join.
  void start();
  /// Asks to be let in, at `next_s` first, until a view comes, or ends this peer after
  /// `patience_s`.
  void ask_to_join(double next_s, double patience_s = kPatienceToJoinS);
  /// Whether this peer waits for somebody to let it in, and does not lead.
  bool asks_to_join() const;
  /// The live members but for this peer, and those asked in an inquiry.
  std::vector<PeerId> others() const;
  /// The transport tells all of a death, a message those whom it was sent to.
  enum class HeardBy : std::uint8_t { all, some };
  /// A peer has died, as was heard: notes it, and leads, tells who leads, or gives up waiting for
  /// it.
  void lost(PeerId peer, const std::string& how, HeardBy heard_by);
  /// Without recovery a death ends the run: the leader ends it for all; a peer that has lost the
  /// leader ends itself.
  void end_without_recovery(PeerId peer, const std::string& how);

  // ---- Election

  /// After a death: asks for a term if this peer is to lead, else tells the one that is of the
  /// death, if it is to be told.
  void succeed(PeerId dead, bool tell);
  /// Has storage create the file of this term, unless it leads, asks already, or knows of the end.
  void ask_for_term(Term term);
  /// Storage has answered: begins to lead under the term, tries the next, or ends the run.
  void take_the_lead(const TermCreated& term);
  /// With all answers here: leads from the newest view, or asks to join if it is not in it.
  void lead_when_all_have_answered();
  /// Whether there may have been a leader before: this peer knows of a view, or of somebody who may
  /// have led.
  bool takes_over() const;
  /// Makes the leader, without the dead, and has it publish its first view. `takes_over`: it
  /// adopts what the tables of all say was committed.
  void lead(Mandate mandate, bool takes_over);
  /// A later term exists than the one that this peer leads, or is about to lead.
  void receive(const TermOver& over);
  /// Leads no more, and asks for a still later term; without recovery ends the run.
  void outbid();

  // ---- Failure detector and suspension

  /// Exchanges heartbeats with the others if this peer leads, else with the leader.
  void watch_others();
  /// On the timer: suspects them, unless others may have finished; without recovery they are lost.
  void suspect_the_silent();
  /// A suspect lives on, for nobody can kill it now: it is waited for.
  void cannot_kill(PeerId peer);
  /// How long it was waited for; in a stop, since that was asked for.
  double waited_s(const Survivor& survivor) const;
  /// It has been waited for long enough: ends the run, with status 3.
  void give_up(PeerId peer);
  /// Whether it hears none of several others, so that it has nobody killed.
  bool is_cut_off() const;
  /// Ends this peer alone, for this reason: it does not hear the others, or they do not hear it.
  void leave_it_to_the_others(std::string_view reason);
  /// Before each event: suspends this peer if its timer comes so late that the others may have
  /// continued without it.
  void suspend_if_stale();
  void ask_the_others();
  /// Ends this peer if nobody has answered for long, or nobody is left.
  void give_up_suspended();

  // ---- Work that hangs

  /// Asks how far jobs and storage have come, where that is of interest.
  void probe_work();
  void receive(const WorkProbed& probe);
  /// Tells the leader what hangs here, or goes on, once each.
  void tell_what_hangs();
  template <class Describe>
  void tell(Task task, std::optional<double> since_s, Describe describe);
  /// How long this peer's stages cannot be loaded, if that is too long.
  std::optional<double> load_hangs_s() const;
  /// What was asked of a lane that hangs for too long is given up.
  void give_up_lanes();
  /// This peer leads no more, and will not: the next in line does. Where there is none, the run
  /// ends.
  void abstain(const std::string& why, std::optional<PeerId> to);
  /// Once nothing hangs any more at a peer that abstains: has it shown, once in each view, and to
  /// each that is to lead.
  void prove_storage();
  void probe_stored();

  // ---- Leaving, failure, and the end of the run

  /// A signal or a notice: tells the leader, and each that leads after it.
  void ask_to_stop(const std::string& why);
  /// Whether no new work begins, as far as this peer knows, because a stop was asked for.
  bool stops() const;
  /// Of something that hangs: as long as usual, but in a stop no longer than that may wait.
  double waits_at_most_s(double usual_s) const;
  /// This peer cannot continue: tells the leader, or ends the run if nobody leads.
  void report_failure(const Status& status);
  /// Tells all others that this peer departs (in good order if `status` is ok), and finishes.
  void announce_departure(const Status& status, const std::string& why = "");
  /// Sends all others the end and ExitMessage, without waiting for anybody, and finishes.
  void end_for_all(const Status& status);
  /// Finishes with the end that was heard; without one, because no run has let this peer join.
  void finish_as_heard();
  void finish(Status status);

  /// Asks for the earliest time at which this peer, or its leader, wants to do something.
  void set_timer();

  PeerId self_;
  std::shared_ptr<const RunPlan> shared_plan_;
  const RunPlan& plan_;
  Outbox outbox_;
  double now_s_ = 0;
  /// Defined in the source, so that sources which hold a peer need not compile them.
  struct Parts;
  std::unique_ptr<Parts> parts_;
  AwakeClock& awake_;
  std::optional<double> timer_s_;  // the last one set
  std::int64_t handled_ = 0;       // events, but for the timer
  double oldest_waits_s_ = 0;
  std::optional<double> born_s_;
  Incarnation incarnation_;
  std::shared_ptr<const RestartPoint> restart_;  // what all have gone back to, if they have
  std::vector<MessageArrived> awaiting_view_;    // of a view that is not here yet

  ReplicaHost& replica_host_;
  Membership& membership_;
  Election& election_;
  FailureDetector& failure_detector_;
  Suspension& suspension_;
  std::unique_ptr<Leader> leader_;
  std::optional<JoinRequest> join_request_;

  // Work that hangs.
  CallWatch& run_lane_;
  CallWatch& stages_lane_;
  std::map<Task, std::string> told_late_;  // what the leader was told
  bool gave_up_stages_ = false;            // and the lane has not come on since
  std::optional<std::pair<PeerId, TryMessage>>& storage_trial_;  // is being answered
  std::optional<PeerId> proof_for_;  // whom this peer shows in this view that it may lead again
  bool proof_given_ = false;         // and has shown it
  std::optional<std::pair<PeerId, double>> gave_itself_up_;  // the last that did, and when

  // Leaving, failure, and the end of the run.
  std::optional<std::string> stop_;      // was asked for here
  std::optional<double> stops_since_s_;  // as far as was noted on the timer
  std::optional<Status> failure_;        // of this peer
  std::optional<EndMessage>& end_;       // was heard
  std::optional<double> finishes_at_s_;  // if nobody leads until then: the others may have finished
  bool lost_leader_ = false;             // and there is no recovery
  bool ended_for_all_ = false;           // by this peer
  bool left_to_others_ = false;          // it has ended alone
  std::optional<Status> finished_;
};

}  // namespace swarmpi
