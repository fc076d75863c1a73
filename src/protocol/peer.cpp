#include "protocol/peer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/overloaded.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/leader.hpp"
#include "protocol/membership/awake_clock.hpp"
#include "protocol/membership/call_watch.hpp"
#include "protocol/membership/election.hpp"
#include "protocol/membership/failure_detector.hpp"
#include "protocol/membership/membership.hpp"
#include "protocol/membership/suspension.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message_table.hpp"
#include "protocol/replica_host.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

namespace {

// Between two events of a peer that is awake and watches something pass so many heartbeats at most.
constexpr double kLongestGapBeats = 2;

}  // namespace

Peer::Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume)
    : Peer(self, std::make_shared<const RunPlan>(std::move(plan)), std::move(membership),
           std::move(resume)) {}

struct Peer::Parts {
  Parts(PeerId self, const RunPlan& plan, InitialMembership initial, const ResumeState& resume,
        Outbox& outbox, const double& now_s)
      : awake(kLongestGapBeats * plan.swarm.heartbeat_s),
        replica_host(self, plan, resume, outbox, now_s, awake.awake_s()),
        membership(self, std::move(initial), plan),
        election(membership, outbox),
        failure_detector(membership, plan, outbox),
        suspension(plan.swarm.suspect_after_s, plan.swarm.give_up_after_s) {}

  AwakeClock awake;
  ReplicaHost replica_host;
  Membership membership;
  Election election;
  FailureDetector failure_detector;
  Suspension suspension;
  CallWatch run_lane, stages_lane;
  std::optional<std::pair<PeerId, TryMessage>> storage_trial;
  std::optional<EndMessage> end;
  std::optional<TermOver> over;  // of the newest term of which it was heard
};

Peer::Peer(PeerId self, std::shared_ptr<const RunPlan> plan, InitialMembership membership,
           ResumeState resume)
    : self_(self),
      shared_plan_(std::move(plan)),
      plan_(*shared_plan_),
      parts_(std::make_unique<Parts>(self_, plan_, std::move(membership), resume, outbox_, now_s_)),
      awake_(parts_->awake),
      incarnation_(resume.incarnation),
      replica_host_(parts_->replica_host),
      membership_(parts_->membership),
      election_(parts_->election),
      failure_detector_(parts_->failure_detector),
      suspension_(parts_->suspension),
      run_lane_(parts_->run_lane),
      stages_lane_(parts_->stages_lane),
      storage_trial_(parts_->storage_trial),
      end_(parts_->end) {
  outbox_.set_incarnation(incarnation_);
}

Peer::~Peer() = default;

void Peer::set_carried(double total_s) { replica_host_.set_carried(total_s); }
bool Peer::left() const { return membership_.has_left(self_); }
bool Peer::lost_somebody() const { return !membership_.dead().empty(); }
bool Peer::saw_the_end() const { return end_ || ended_for_all_ || (leader_ && leader_->over()); }
PayloadRef Peer::read_next() const { return replica_host_.read_next(); }
std::string Peer::left_over() const { return replica_host_.left_over(); }
bool Peer::stops() const { return stop_ || (leader_ && leader_->stopping()); }
double Peer::waits_at_most_s(double usual_s) const {
  return stops() ? std::min(usual_s, plan_.stop_patience_s()) : usual_s;
}

Actions Peer::handle(const Event& event, double now_s) {
  if (done()) return {};
  now_s_ = now_s;
  awake_.passed(now_s);
  if (!holds_alternative<TimerDue>(event)) ++handled_;
  failure_detector_.set_progress(handled_, oldest_waits_s_);
  suspend_if_stale();
  // Half of all events in a large swarm. What follows from their time the timer does, which a peer
  // that watches others has set, and one that runs a job.
  const auto* arrived = get_if<MessageArrived>(&event);
  if (arrived != nullptr && is_sign_of_life(arrived->message) && !suspension_.active()) {
    dispatch(event);
    return outbox_.take();
  }
  replica_host_.book_time();
  note_departure(event);
  if (suspension_.holds(event)) {
    suspension_.hold(event);
  } else {
    dispatch(event);  // 1. note what happened in the table, the ledger, the view
  }
  if (!done() && !suspension_.active()) {
    replica_host_.start_job();     // 2. completed steps first, then backward, then forward
    replica_host_.flush_report();  // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write rows, end
    if (leader_ && leader_->over()) {
      leader_->send_exit();
      finish(leader_->ending());
    } else if (leader_ && leader_->has_left()) {
      announce_departure(Status());
    } else if (leader_ && leader_->hands_over()) {
      abstain(leader_->hands_over()->why, leader_->hands_over()->to);
    }
    const bool looks = !arrived || !told_late_.empty();  // what has become late the timer shows
    if (!done() && looks) tell_what_hangs();
    if (!done()) prove_storage();
  }
  Actions actions = outbox_.take();
  for (const Action& action : actions) {
    if (const auto lane = lane_of(action)) {
      (*lane == Lane::run ? run_lane_ : stages_lane_).asked(awake_.awake_s());
    }
  }
  if (!done()) set_timer();
  for (Action& action : outbox_.take()) actions.push_back(std::move(action));
  return actions;
}

// ---- Events

void Peer::dispatch(const Event& event) {
  visit(Overloaded{
            [&](const Started&) { start(); },
            [&](const MessageArrived& arrived) { hear(arrived); },
            [&](const PeerLost& p) {
              lost(p.peer, fmt::format("peer {} was lost", p.peer.value), HeardBy::all);
            },
            [&](const KillFailed& failed) { cannot_kill(failed.peer); },
            [&](const TermCreated& term) { take_the_lead(term); },
            [&](const TermOver& over) { receive(over); },
            [&](const StopRequested& stop) { ask_to_stop(stop.why); },
            [&](const StorageFailed& failure) { report_failure(failure.status); },
            [&](const TimerDue&) { timer_due(); },
            [&](const JobFinished& job) { replica_host_.finished(job); },
            [&](const WorkProbed& probe) { receive(probe); },
            [&](const ProbeStored&) { probe_stored(); },
            [&](const StageStored& part) { replica_host_.stored(part); },
            [&](const StageLoaded& stage) { replica_host_.loaded(stage); },
            [&](const CollectiveIdMade& made) { replica_host_.receive(made); },
            [&](const CollectiveReady& ready) { replica_host_.receive(ready); },
            [&](const CollectiveDone& done) { replica_host_.receive(done); },
            [&](const CollectiveFailed& failed) { replica_host_.receive(failed); },
            [&](const auto& answer) {
              if (leader_) leader_->receive(answer);  // else it does not lead any more
            },
        },
        event);
}

void Peer::timer_due() {
  timer_s_.reset();
  probe_work();
  const bool beats = failure_detector_.is_due(now_s_);
  if (beats) {
    const FlatSet<PeerId> who_owe = replica_host_.awaited();
    failure_detector_.beat(now_s_, who_owe, election_.awaited());
  }
  // On a slow line answers would pile up if it asked more often.
  if (beats || membership_.is_outsider()) election_.repeat_inquiry();
  if (suspension_.active()) {
    ask_the_others();
    give_up_suspended();
  } else {
    suspect_the_silent();
  }
  if (join_request_) join_request_->send(membership_, now_s_, outbox_);
  const bool no_run_to_join = join_request_ && join_request_->gives_up(now_s_);
  const bool waited_long = finishes_at_s_ && now_s_ >= *finishes_at_s_;
  if (no_run_to_join || waited_long) finish_as_heard();
}

// Noted before any rule about views and the dead: the loss of the process may be heard first.
void Peer::note_departure(const Event& event) {
  const auto* arrived = get_if<MessageArrived>(&event);
  const auto* lost = arrived == nullptr ? nullptr : get_if<LostMessage>(&arrived->message.body);
  if (lost == nullptr) return;
  if (lost->left) membership_.left(lost->peer);
  if (lost->why.empty()) return;
  membership_.obituary(lost->peer, lost->why);
  const bool is_news = !gave_itself_up_ || gave_itself_up_->first != lost->peer;
  if (is_news) gave_itself_up_ = {lost->peer, now_s_};
  if (leader_) leader_->gave_itself_up(lost->peer);
}

// What a dead peer has sent may still arrive. It is refused, so that a table that is taken after
// the death holds all that can ever come of it; but for the order in which others are to lead,
// which those have who heard it in time.
void Peer::hear(const MessageArrived& arrived) {
  const Message& message = arrived.message;
  const PeerId from = arrived.from;
  if (membership_.is_dead(from)) return refuse(arrived);
  const auto* beat = get_if<HeartbeatMessage>(&message.body);
  if (beat != nullptr) failure_detector_.heard(from, *beat, now_s_);
  failure_detector_.heard(from, now_s_);
  if (beat != nullptr) return;
  const Hearing hearing = traits_of(message.body).hearing;
  // A leader that has handed over lives: what it ordered is in no table that is taken since.
  const bool of_old_term = message.view.term < membership_.view_number().term;
  if (hearing == Hearing::of_its_term && of_old_term) return;
  if (hearing <= Hearing::in_its_view) {
    if (message.incarnation < incarnation_) return;
    if (message.view > membership_.view_number() || message.incarnation > incarnation_) {
      awaiting_view_.push_back(arrived);
      return;
    }
    const ViewRef& view = membership_.view();
    if (view && !view->contains(from)) return;
  }
  visit([&](const auto& body) { receive(body, from); }, message.body);
}

// A peer that is wrongly taken for dead sends one of these sooner or later, and learns of it.
void Peer::refuse(const MessageArrived& arrived) {
  const MessageBody& body = arrived.message.body;
  if (const auto* abstain = get_if<AbstainMessage>(&body)) {
    const LeadingOrder before = membership_.order();
    receive(*abstain, arrived.from);
    if (membership_.order() != before) tell_order();
  }
  const bool asks =
      holds_alternative<HeartbeatMessage>(body) || holds_alternative<PingMessage>(body) ||
      holds_alternative<InquiryMessage>(body) || holds_alternative<WholeViewRequest>(body);
  if (asks && plan_.recovers) outbox_.send(arrived.from, FencedMessage{});
}

template <class Body>
void Peer::receive(const Body& body, PeerId from) {
  constexpr Audience kAudience = kMessageTable.of<Body>().audience;
  static_assert(kAudience != Audience::peer, "Peer::receive() has an overload for it");
  if constexpr (kAudience == Audience::leader) {
    if (leader_) leader_->receive(body, from);  // else it does not lead any more
  } else {
    replica_host_.has_work_come();
    replica_host_.receive(body, from);
  }
}

void Peer::receive(const ForwardDone& message, PeerId from) {
  if (message.stage != StageId(0)) return replica_host_.receive(message, from);
  if (leader_) leader_->receive(message, from);
}

void Peer::receive(const PingMessage& message, PeerId from) {
  outbox_.send(from, failure_detector_.answer_to(from, now_s_, message.sent_s));
  if (message.wants_pong) outbox_.send(from, PongMessage{message.sent_s});
}

// ---- Start, and joining a run that goes on

// The first live peer in the order of leading leads, but only under a term of its own.
void Peer::start() {
  const Term run = membership_.initial().first_term;
  replica_host_.take_part(run, membership_.is_newcomer(), born_s_);
  if (membership_.is_newcomer()) return ask_to_join(now_s_);
  watch_others();
  if (membership_.leads()) ask_for_term(membership_.initial().first_term);
}

void Peer::ask_to_join(double next_s, double patience_s) {
  join_request_.emplace(now_s_, next_s, patience_s).send(membership_, now_s_, outbox_);
}

bool Peer::asks_to_join() const {
  return join_request_ && (!membership_.view() || !membership_.leads());
}

void Peer::receive(const JoinMessage& message, PeerId from) {
  if (membership_.is_dead(message.peer)) return;
  if (leader_) return leader_->receive(message, from);
  membership_.heard_of(message.peer);
  const bool first_hand = from == message.peer;
  if (first_hand && membership_.view()) outbox_.send(membership_.leader(), message);
}

// ---- Views

void Peer::receive(const ViewMessage& message, PeerId from) {
  if (membership_.view() && message.number() <= membership_.view_number()) return;  // sent twice
  const ViewRef view = whole_of(message);
  if (!view) return outbox_.send(from, WholeViewRequest{});
  const ViewMessage whole{view, message.restart};
  if (election_.admits(whole)) adopt(whole);
}

// Of views that are not adopted now one is held back, and of it nothing may be made: perhaps it is
// never adopted, or one is that was published instead.
ViewRef Peer::whole_of(const ViewMessage& message) const {
  if (!message.delta) return message.view;
  const ViewDelta& delta = *message.delta;
  const ViewRef& base = membership_.view();
  if (!base || election_.is_barred(delta.number.term)) return nullptr;
  // Peers of one process share what the leader has made; torture makes it all the same.
  const bool is_here = base->number == delta.base && message.view->number == delta.number;
  return is_here && !plan_.torture_only.checks_counts ? message.view : apply(delta, *base);
}

void Peer::adopt(const ViewMessage& message) {
  const ViewRef& view = message.view;
  if (!view->contains(self_)) return finish(fenced());
  membership_.adopt(view);
  election_.settled();
  finishes_at_s_.reset();
  join_request_.reset();
  go_back_to(message.restart);
  if (leader_ && leader_->view().number < view->number) leader_.reset();
  outbox_.set_view(view->number);
  watch_others();
  replica_host_.adopt(view);
  if (plan_.recovers) {
    TableMessage table = replica_host_.table();
    if (end_) table.end = std::make_shared<const EndMessage>(*end_);
    outbox_.send(view->leader(), std::move(table));
  }
  told_late_.clear();
  proof_for_.reset();
  if (stop_) outbox_.send(view->leader(), NoticeMessage{*stop_});
  if (failure_) outbox_.send(view->leader(), FailureMessage{failure_->code(), failure_->message()});
  // A leader has let this peer in again, whose id is lower: all take this one for the leader now.
  if (plan_.recovers && !leader_ && membership_.leads()) ask_for_term(view->number.term.next());
  for (const MessageArrived& arrived : std::exchange(awaiting_view_, {})) hear(arrived);
}

void Peer::go_back_to(const std::shared_ptr<const RestartPoint>& restart) {
  if (!restart || restart->state.incarnation <= incarnation_.value) return;
  restart_ = restart;
  incarnation_ = Incarnation(restart_->state.incarnation);
  outbox_.set_incarnation(incarnation_);
  replica_host_.restart(*restart_);
}

std::vector<PeerId> Peer::others() const {
  std::set<PeerId> others = election_.asked();
  std::erase_if(others, [this](PeerId peer) { return membership_.is_dead(peer); });
  for (const PeerId peer : membership_.others()) others.insert(peer);
  return {others.begin(), others.end()};
}

// ---- Death of a peer

void Peer::receive(const LostMessage& message, PeerId from) {
  // Of another's death one tells the peer that leads next, as far as one knows.
  if (from != message.peer) membership_.heard_of(from);
  const std::string how =
      message.why.empty()
          ? fmt::format("peer {} was lost, as peer {} reports", message.peer.value, from.value)
          : fmt::format("peer {} gave itself up: {}", message.peer.value, message.why);
  lost(message.peer, how, HeardBy::some);
  const bool may_lead = plan_.recovers && membership_.is_outsider();
  if (may_lead && membership_.is_taken_for_leader()) ask_for_term(membership_.initial().first_term);
}

void Peer::lost(PeerId peer, const std::string& how, HeardBy heard_by) {
  const bool led = peer == membership_.leader();
  if (peer == self_ || !membership_.lost(peer)) return;
  replica_host_.lost(peer);
  if (led) election_.vacant_since(now_s_);
  failure_detector_.forget(peer);
  if (const auto view = election_.lost(peer)) receive(*view, self_);
  if (led || membership_.abstains(peer)) tell_order();
  watch_others();
  if (!plan_.recovers) {
    lost_leader_ = lost_leader_ || led;
    return end_without_recovery(peer, how);
  }
  if (suspension_.active() && others().empty()) return give_up_suspended();
  if (leader_) return leader_->lost(peer, how, failure_detector_.suspicion(peer));
  // Of a peer that has joined perhaps only the dead leader knew.
  if (led && membership_.is_newcomer()) {
    constexpr double kForEver = std::numeric_limits<double>::infinity();
    ask_to_join(now_s_ + kAskAgainS, membership_.view() ? kForEver : kPatienceToJoinS);
  }
  if (election_.inquires()) return lead_when_all_have_answered();
  if (membership_.is_outsider() && !membership_.is_taken_for_leader()) return;
  // After the end the next in line may have finished already.
  if (end_ && led) finishes_at_s_ = now_s_ + kPatienceAtTheEndS;
  // Whoever is to lead may not have heard: of a death that a message told of, or of its leader's.
  const bool tell = heard_by == HeardBy::some || led || !membership_.view();
  succeed(peer, tell);
}

void Peer::end_without_recovery(PeerId peer, const std::string& how) {
  const std::string why = how +
                          ": the run cannot continue without it, because swarm.recovery is off or "
                          "this MPI does not report lost ranks";
  if (leader_) return leader_->lost(peer, why);
  if (lost_leader_) return end_ ? finish_as_heard() : finish(Status::stopped(why));
  // It is about to lead, but has no term yet: nobody else would end the run.
  if (membership_.leads()) report_failure(Status::stopped(why));
}

// ---- Election

void Peer::succeed(PeerId dead, bool tell) {
  if (membership_.leads()) {
    const ViewRef& view = membership_.view();
    return ask_for_term(view ? view->number.term.next() : membership_.initial().first_term);
  }
  if (!tell) return;
  outbox_.send(membership_.leader(),
               LostMessage{dead, membership_.has_left(dead), membership_.obituary(dead)});
}

void Peer::ask_for_term(Term term) {
  if (leader_ || election_.under_way()) return;
  if (end_) return end_for_all(status_of(*end_));
  if (failure_) return end_for_all(*failure_);
  election_.ask_for(term);
}

void Peer::take_the_lead(const TermCreated& term) {
  election_.storage_answered();
  if (!membership_.leads()) return;  // another peer leads meanwhile
  if (term.ended) end_ = *term.ended;
  // Some may have heard of that end: the run must not come to another.
  if (end_) return end_for_all(status_of(*end_));
  if (!term.created) {
    // A peer that led meanwhile, and has died, has created it.
    if (plan_.recovers && takes_over()) return ask_for_term(term.term.next());
    return report_failure(
        Status::failed(fmt::format("another run writes to the same journal, where term-{} exists "
                                   "already: start only one run for each output file",
                                   term.term.value)));
  }
  if (parts_->over && parts_->over->term == term.term) return outbid();
  // Another has led since, and is gone: it has the others' promise, which none of them breaks for
  // an earlier term.
  const Term newest = membership_.view_number().term;
  if (takes_over() && term.term <= newest) return ask_for_term(newest.next());
  if (!takes_over()) return lead({term.term, membership_.newest_view(), restart_}, false);
  election_.inquire(term.term, restart_);
  watch_others();
  lead_when_all_have_answered();
}

void Peer::receive(const InquiryMessage& message, PeerId from) {
  election_.receive(message, from, restart_);
  watch_others();
}

void Peer::receive(const InquiryAnswer& message, PeerId from) {
  election_.receive(message, from);
  lead_when_all_have_answered();
}

void Peer::lead_when_all_have_answered() {
  std::optional<Mandate> mandate = election_.mandate();
  if (!mandate) return;
  watch_others();
  if (!mandate->view->contains(self_)) return ask_to_join(now_s_);
  lead(std::move(*mandate), true);
}

bool Peer::takes_over() const {
  return !membership_.dead().empty() || membership_.somebody_has_abstained() ||
         membership_.view() != nullptr;
}

void Peer::lead(Mandate mandate, bool takes_over) {
  go_back_to(mandate.restart);  // the last view may have come to others only
  const InitialMembership& initial = membership_.initial();
  Succession succession;
  succession.term = mandate.term;
  succession.run = initial.first_term;
  succession.view = *mandate.view;
  succession.takes_over = takes_over;
  succession.at_start = {static_cast<std::int64_t>(initial.workers.size()),
                         static_cast<std::int64_t>(initial.all().size()), initial.all().back()};
  succession.restart = std::move(mandate.restart);
  succession.leaderless_since_s = election_.filled(now_s_);
  succession.run_time_ahead_s = replica_host_.run_time_ahead_s();
  succession.nothing_was_lost = membership_.has_left(mandate.view->leader());
  std::map<PeerId, Leader::Gone> gone;
  for (const PeerId peer : membership_.dead()) {
    const auto member = mandate.view->members().find(peer);
    if (member != mandate.view->members().end()) {
      gone[peer] = {membership_.has_left(peer) ? DepartureKind::left : DepartureKind::lost,
                    failure_detector_.suspicion(peer), membership_.obituary(peer)};
      if (!member->second.empty()) succession.nothing_was_lost = false;
    }
    succession.view.remove(peer);
  }
  succession.view.merge(membership_.order());
  // Nobody else was left, and it has just created a term.
  if (membership_.abstains(self_)) succession.view.come_back(self_, 0);
  succession.gave_itself_up = gave_itself_up_;
  leader_ = std::make_unique<Leader>(self_, plan_, replica_host_.commit_log(),
                                     std::move(succession), outbox_, failure_detector_, now_s_);
  leader_->begin(gone);
}

// A term may be over before this peer leads under it: while storage creates it, or while the others
// are asked. A leader that did not know would store rows that storage drops.
void Peer::receive(const TermOver& over) {
  std::optional<TermOver>& known = parts_->over;
  if (!known || known->term <= over.term) known = over;
  const bool leads = leader_ && leader_->view().number.term == over.term;
  if (leads || election_.inquires_under(over.term)) outbid();
}

// The peer that created the later term had not heard of this leader, and may have died since: an
// inquiry under a still later term shows who leads. Two peers that take each other for dead must
// not outbid each other for ever: a peer that is outbid more often than there are peers ends
// itself. Without recovery no other peer of this run creates a term.
void Peer::outbid() {
  const TermOver over = *parts_->over;
  leader_.reset();
  election_.withdraw();
  if (!plan_.recovers) {
    return end_for_all(Status::stopped(
        fmt::format("another run has begun in the same journal (term {} is over, term {} exists): "
                    "this one stores nothing more",
                    over.term.value, over.newest.value)));
  }
  const std::size_t peers = membership_.initial().all().size() + membership_.dead().size() +
                            membership_.newest_view()->members().size();
  if (election_.outbid() > peers) return announce_departure(fenced());
  ask_for_term(over.newest.next());
}

// ---- Failure detector

void Peer::watch_others() {
  if (!membership_.contains(self_)) return;  // only joining
  failure_detector_.set_period();
  awake_.set_most(kLongestGapBeats * failure_detector_.period_s());
  std::vector<PeerId> watched{membership_.leader()};
  // Whoever is about to lead may know of deaths that this peer has not heard of.
  if (const auto next = election_.promised_to()) watched.push_back(*next);
  if (membership_.leads()) watched = membership_.others();
  failure_detector_.watch(watched, now_s_, !election_.awaited().empty());
}

void Peer::suspect_the_silent() {
  if (!plan_.recovers) {
    for (const auto& [peer, since_s] : failure_detector_.silent(now_s_)) {
      lost(peer, fmt::format("peer {} has been silent for {:.1f} s", peer.value, since_s),
           HeardBy::some);
    }
    return;
  }
  const bool others_may_have_finished = end_ && (finishes_at_s_ || join_request_);
  if (others_may_have_finished || (join_request_ && !membership_.view())) return;
  if (!stops()) stops_since_s_.reset();
  if (stops() && !stops_since_s_) stops_since_s_ = now_s_;
  // A leader ends a run that is to stop without those whom nobody can kill.
  const bool waits_for_all = leader_ && !is_cut_off();
  const double give_up_after_s = plan_.swarm.give_up_after_s;
  const double patience_s = waits_for_all ? give_up_after_s : waits_at_most_s(give_up_after_s);
  for (const Survivor& survivor : failure_detector_.suspect(now_s_)) {
    cannot_kill(survivor.peer);
    if (waited_s(survivor) >= patience_s) give_up(survivor.peer);
  }
  if (leader_) failure_detector_.kill_at_a_cut_link(now_s_);
  if (!failure_detector_.is_not_heard(now_s_)) return;
  if (!leader_ || !leader_->ends()) return leave_it_to_the_others(ending_words::kIsNotHeard);
  for (const PeerId peer : failure_detector_.deaf_members(now_s_)) leader_->end_without(peer);
}

void Peer::receive(const SuspectMessage& message, PeerId from) {
  if (leader_) failure_detector_.reported(from, message.peer, now_s_);
}

// It may live, and continue the run. Its host may be stopped, or cut off for a while: until
// give_up() all stand and wait for it.
void Peer::cannot_kill(PeerId peer) {
  const bool news = failure_detector_.first_seen_to_survive(peer);
  if (leader_ && news && !membership_.is_dead(peer)) leader_->wait_for_unkillable(peer);
}

double Peer::waited_s(const Survivor& survivor) const {
  return stops_since_s_ ? std::min(survivor.ordered_s, now_s_ - *stops_since_s_)
                        : survivor.ordered_s;
}

// It may live, and continue the run: so this peer, and all that hear it, must not.
void Peer::give_up(PeerId peer) {
  if (done() || membership_.is_dead(peer) || suspension_.active()) return;
  if (is_cut_off()) return leave_it_to_the_others(ending_words::kHearsNobody);
  std::string why = fmt::format("peer {} {}: the run ends, because that peer may continue it",
                                peer.value, ending_words::kCannotBeKilled);
  if (leader_) return leader_->unreachable(peer, Status::stopped(why));
  if (end_) return end_for_all(status_of(*end_));
  if (stop_) why = *stop_ + "; " + why;
  const CommitLog& log = replica_host_.commit_log();
  const std::string lacks = log.lacks_checkpoint();
  if (!lacks.empty()) {
    why += fmt::format("; {}, for nobody can lead without that peer; {}", lacks,
                       log.last_good_checkpoint());
  }
  end_for_all(Status::stopped(why));
}

// A leader that has decided how the run ends goes on with that.
bool Peer::is_cut_off() const {
  return failure_detector_.hears_nobody(now_s_) && !(leader_ && leader_->ends());
}

// What it does is what a death does.
void Peer::leave_it_to_the_others(std::string_view reason) {
  if (done()) return;
  if (end_) return finish(status_of(*end_));
  left_to_others_ = true;
  const std::string why =
      fmt::format("{}: they may continue the run without it, or have ended", reason);
  for (const PeerId peer : others())
    outbox_.send(peer, LostMessage{self_, false, std::string(reason)});
  finish(Status::stopped(stop_ ? *stop_ + "; " + why : why));
}

// ---- Suspension

void Peer::suspend_if_stale() {
  if (!plan_.recovers || !suspension_.is_due(now_s_, timer_s_)) return;
  if (others().empty() || asks_to_join()) return;
  suspension_.begin(now_s_);
  failure_detector_.forget_kill_orders();
  ask_the_others();
}

void Peer::ask_the_others() {
  for (const PeerId peer : others()) outbox_.send(peer, PingMessage{now_s_, true});
}

void Peer::give_up_suspended() {
  if (!suspension_.is_hopeless(now_s_) && !others().empty()) return;
  finish(Status::stopped(
      fmt::format("{}: no other peer answers it now", ending_words::kStoppedTooLong)));
}

void Peer::receive(const PongMessage& message, PeerId) {
  for (const Event& event : suspension_.answered(message.sent_s)) dispatch(event);
}

// ---- Work that hangs

void Peer::probe_work() {
  const bool wanted = replica_host_.wants_probe() || run_lane_.busy() || stages_lane_.busy();
  if (wanted) outbox_.act(ProbeWork{});
}

void Peer::receive(const WorkProbed& probe) {
  replica_host_.probed(probe.job_cpu_s);
  run_lane_.probed(probe.run, awake_.awake_s());
  stages_lane_.probed(probe.stages, awake_.awake_s());
  give_up_lanes();
}

void Peer::tell_what_hangs() {
  tell(Task::job, replica_host_.job_late_s(), [this] { return replica_host_.job(); });
  tell(Task::load, load_hangs_s(),
       [this] { return fmt::format("loading its stages ({})", stages_lane_.running()); });
  const CallWatch& lane =
      run_lane_.still_s(awake_.awake_s()) > stages_lane_.still_s(awake_.awake_s()) ? run_lane_
                                                                                   : stages_lane_;
  const double still_s = lane.still_s(awake_.awake_s());
  const bool hangs = still_s >= plan_.swarm.suspect_after_s;
  tell(Task::storage, hangs ? std::optional(still_s) : std::nullopt,
       [&lane] { return lane.running(); });
}

template <class Describe>
void Peer::tell(Task task, std::optional<double> since_s, Describe describe) {
  const ViewRef& view = membership_.view();
  if (!view || (!since_s && told_late_.empty())) return;
  const auto told = told_late_.find(task);
  const bool was_told = told != told_late_.end();
  const std::string what = describe();
  if (since_s ? was_told && told->second == what : !was_told) return;
  outbox_.send(view->leader(), LateMessage{task, since_s.has_value(), what, since_s.value_or(0)});
  if (since_s) {
    told_late_[task] = what;
  } else {
    told_late_.erase(task);
  }
}

// What hangs may be a call from before: it has as long once it is waited for.
std::optional<double> Peer::load_hangs_s() const {
  const std::optional<double> loading_s = replica_host_.loading_s();
  if (!loading_s) return std::nullopt;
  const double hangs_s = std::min(*loading_s, stages_lane_.still_s(awake_.awake_s()));
  return hangs_s >= plan_.storage_timeout_s ? std::optional(hangs_s) : std::nullopt;
}

void Peer::give_up_lanes() {
  const double timeout_s = waits_at_most_s(plan_.storage_timeout_s);
  const auto why = [&](const CallWatch& lane) {
    return fmt::format("storage of peer {} hangs: {} {} for {:.0f} s", self_.value, lane.running(),
                       ending_words::kDoesNotReturn, lane.still_s(awake_.awake_s()));
  };
  const bool stages_hang = stages_lane_.still_s(awake_.awake_s()) >= timeout_s;
  if (!stages_hang && std::exchange(gave_up_stages_, false)) replica_host_.storage_goes_on();
  // What is loaded is wanted however late it comes: the leader decides whether others wait for it.
  const bool loading = replica_host_.loading_s().has_value();
  if (stages_hang && !loading && !std::exchange(gave_up_stages_, true)) {
    outbox_.act(AbandonLane{Lane::stages});
    replica_host_.give_up_storing(why(stages_lane_));
  }
  const bool run_hangs = run_lane_.still_s(awake_.awake_s()) >= timeout_s;
  if (leader_) {
    leader_->storage_hangs(run_hangs ? std::optional(why(run_lane_)) : std::nullopt);
  } else if (run_hangs && election_.awaits_term()) {
    abstain(why(run_lane_), std::nullopt);
  }
}

void Peer::abstain(const std::string& why, std::optional<PeerId> to) {
  if (end_ && !leader_) return end_for_all(status_of(*end_));
  if (!plan_.recovers || !(to || membership_.others_can_lead())) {
    return end_for_all(Status::stopped(fmt::format("{}; {}", why, ending_words::kNobodyCanStore)));
  }
  outbox_.act(AbandonLane{Lane::run});
  // Who has come back since the last view stands in no other: this leader publishes none any more.
  if (leader_) membership_.merge(leader_->view().order());
  const LeadingOrder& order = membership_.abstain(to);
  for (const PeerId peer : others()) outbox_.send(peer, AbstainMessage{why, order});
  leader_.reset();
  failure_detector_.forget_kill_orders();  // whoever leads now sees to them
  election_.withdraw();
  watch_others();
}

// A peer that has died may have told its order, or its last view, to some only.
void Peer::tell_order() {
  if (!plan_.recovers || !membership_.somebody_has_abstained()) return;
  for (const PeerId peer : others()) outbox_.send(peer, AbstainMessage{"", membership_.order()});
}

void Peer::receive(const AbstainMessage& message, PeerId from) {
  const PeerId leader_before = membership_.leader();
  membership_.merge(message.order);
  if (!message.why.empty() && membership_.abstains(from)) {
    if (const auto view = election_.abstains(from)) receive(*view, self_);
  }
  watch_others();
  if (membership_.leader() == leader_before || leader_ || !plan_.recovers) return;
  election_.vacant_since(now_s_);
  if (membership_.is_outsider() || !membership_.leads()) return;
  const ViewRef& view = membership_.view();
  ask_for_term(view ? view->number.term.next() : membership_.initial().first_term);
}

// A call that was given up comes to an end first: nothing of it lies behind the probe.
void Peer::prove_storage() {
  const bool wanted =
      plan_.recovers && !leader_ && !election_.under_way() && membership_.abstains(self_);
  if (!wanted || proof_for_ == membership_.leader() || run_lane_.busy()) return;
  proof_for_ = membership_.leader();
  proof_given_ = false;
  outbox_.act(StoreProbe{});
}

void Peer::probe_stored() {
  if (const auto trial = std::exchange(storage_trial_, std::nullopt)) {
    outbox_.send(trial->first, TriedMessage{trial->second.number});
  }
  if (!proof_for_ || std::exchange(proof_given_, true)) return;
  outbox_.send(*proof_for_, AbleMessage{membership_.order().number_of(self_)});
}

// Who is about to lead may have to abstain itself: then it knows of somebody else.
void Peer::receive(const AbleMessage& message, PeerId from) {
  if (leader_) return leader_->receive(message, from);
  const bool is_to_lead = membership_.leads() && !membership_.abstains(self_);
  if (is_to_lead) membership_.come_back(from, message.number);
}

void Peer::receive(const TryMessage& message, PeerId from) {
  if (message.task == Task::job) return replica_host_.receive(message, from);
  storage_trial_ = {from, message};
  outbox_.act(StoreProbe{});
}

void Peer::receive(const ResignMessage& message, PeerId) {
  if (!replica_host_.job_late_s() && !load_hangs_s()) return;  // it goes on after all
  announce_departure(Status::stopped("this peer gave itself up: " + message.why), message.why);
}

// ---- Leaving, failure, and the end of the run

void Peer::ask_to_stop(const std::string& why) {
  stop_ = why;  // for whoever leads next
  if (leader_) return leader_->receive(NoticeMessage{why}, self_);
  const ViewRef& view = membership_.view();
  if (!view && membership_.initial().all().size() == 1) return finish(Status::stopped(why));
  if (view) outbox_.send(view->leader(), NoticeMessage{why});
}

// With a leader, that one ends the run for all.
void Peer::report_failure(const Status& status) {
  if (leader_) return leader_->storage_failed({status});
  failure_ = status;
  if (!membership_.view() || membership_.leads()) return end_for_all(status);
  outbox_.send(membership_.leader(), FailureMessage{status.code(), status.message()});
}

void Peer::receive(const ReleaseMessage&, PeerId) { announce_departure(Status()); }

void Peer::receive(const FencedMessage&, PeerId) { announce_departure(fenced()); }

// All are told: the peer that leads next may not have heard it from the last leader.
void Peer::announce_departure(const Status& status, const std::string& why) {
  for (const PeerId peer : others()) outbox_.send(peer, LostMessage{self_, status.ok(), why});
  membership_.left(self_);
  finish(status);
}

void Peer::receive(const EndMessage& message, PeerId from) {
  end_ = message;
  outbox_.send(from, EndHeard{});
}

void Peer::receive(const ExitMessage&, PeerId) {
  if (end_) finish_as_heard();
}

// A view may have named this peer, though no leader answers it any more: the others are not to wait
// until it is silent for too long.
void Peer::finish_as_heard() {
  if (end_) return finish(status_of(*end_));
  for (const PeerId peer : others()) {
    outbox_.send(peer, LostMessage{self_, false, "it was not let in"});
  }
  finish(Status::stopped(fmt::format("{}: no peer has answered", ending_words::kNoRunToJoin)));
}

// Nobody leads, so nobody can wait for all to hear the end.
void Peer::end_for_all(const Status& status) {
  for (const PeerId peer : others()) {
    outbox_.send(peer, EndMessage{status.code(), status.message()});
    outbox_.send(peer, ExitMessage{});
  }
  ended_for_all_ = true;
  finish(status);
}

void Peer::finish(Status status) {
  if (done()) return;
  finished_ = std::move(status);
  outbox_.act(Finish{*finished_});
}

// ---- Timer, and what others ask

void Peer::set_timer() {
  std::optional<double> due_s = failure_detector_.due_s();
  const auto no_later_than = [&](std::optional<double> at_s) {
    if (at_s) due_s = std::min(due_s.value_or(*at_s), *at_s);
  };
  no_later_than(finishes_at_s_);
  if (join_request_) no_later_than(join_request_->due_s());
  if (leader_ && !suspension_.active()) no_later_than(leader_->gives_up_s());
  const double soon_s = now_s_ + failure_detector_.period_s();
  const bool watches = replica_host_.runs_a_job() || run_lane_.busy() || stages_lane_.busy();
  if (watches && (!due_s || *due_s > soon_s)) {
    if (timer_s_ && *timer_s_ > now_s_ && *timer_s_ <= soon_s) return;
    due_s = soon_s;
  }
  if (!due_s || due_s == timer_s_) return;
  timer_s_ = due_s;
  outbox_.act(SetTimer{*due_s});
}

bool Peer::reports_outcome() const {
  return !left() && (lost_leader_ || ended_for_all_ || left_to_others_ || membership_.leads());
}

std::string Peer::position() const {
  return fmt::format("peer {}, step {}", self_.value,
                     replica_host_.commit_log().committed().next().value);
}

std::string Peer::waiting_for() const {
  const std::int32_t leader = membership_.leader().value;
  std::string text = replica_host_.activity();
  if (suspension_.active()) return "an answer from any other peer, after it was stopped for long";
  if (!membership_.view()) text = fmt::format("the first view of peer {}", leader);
  if (end_) text = fmt::format("ExitMessage from peer {}", leader);
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

}  // namespace swarmpi
