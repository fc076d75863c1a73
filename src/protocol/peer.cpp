#include "protocol/peer.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

// A SuspectMessage counts for this part of the leader's patience; then it must be repeated.
constexpr double kReportCounts = 1.0 / 3;

// The patience of all others over the leader's. A peer that cannot reach a live leader is killed on
// the leader's order before its own patience ends.
constexpr double kLongerThanTheLeader = 1.5;
// A peer that was heard within this part of the patience counts as not silent.
constexpr double kHeardRecently = 0.5;

}  // namespace

Peer::Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume)
    : self_(self),
      plan_(std::move(plan)),
      membership_(std::move(membership)),
      incarnation_(resume.incarnation),
      replica_host_(self_, plan_, resume, outbox_),
      heartbeats_(self, plan_.swarm.heartbeat_s),
      silent_links_(plan_.swarm.heartbeat_s, kReportCounts * plan_.swarm.suspect_after_s) {
  outbox_.set_incarnation(incarnation_);
}

Actions Peer::handle(const Event& event, double now_s) {
  if (done()) return {};
  now_s_ = now_s;
  replica_host_.set_now(now_s);
  if (leader_) leader_->set_now(now_s);
  suspend_if_stale();
  note_departure(event);
  if (held_while_suspended(event)) {
    held_.push_back(event);
  } else {
    dispatch(event);  // 1. note what happened in the table, the ledger, the view
  }
  if (!done() && !suspended_since_s_) {
    replica_host_.start_job();     // 2. completed steps first, then backward, then forward
    replica_host_.flush_report();  // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write rows, end
    if (leader_ && leader_->over()) {
      leader_->send_exit();
      finish(leader_->ending());
    } else if (leader_ && leader_->has_left()) {
      announce_departure(Status());
    }
  }
  if (!done()) set_timer();
  return outbox_.take();
}

// ---- Events

void Peer::dispatch(const Event& event) {
  std::visit(Overloaded{
                 [&](const Started&) { start(); },
                 [&](const MessageArrived& arrived) { hear(arrived); },
                 [&](const JobFinished& job) { replica_host_.finished(job); },
                 [&](const TermCreated& term) { take_the_lead(term); },
                 [&](const StageStored& part) { replica_host_.stored(part); },
                 [&](const RecordDurable& record) {
                   if (leader_) leader_->durable(record);
                 },
                 [&](const CheckpointDurable& checkpoint) {
                   if (leader_) leader_->durable(checkpoint);
                 },
                 [&](const ManifestLoaded& manifest) {
                   if (leader_) leader_->loaded(manifest);
                 },
                 [&](const StageLoaded& stage) { replica_host_.loaded(stage); },
                 [&](const TermOver& over) { receive(over); },
                 [&](const EndDurable& end) {
                   if (leader_) leader_->durable(end);
                 },
                 [&](const StorageFailed& failure) { report_failure(failure.status); },
                 [&](const StopRequested& stop) { ask_to_stop(stop.why); },
                 [&](const PeerLost& peer) {
                   lost(peer.peer, format("peer %d was lost", peer.peer.value));
                 },
                 [&](const KillFailed& peer) { cannot_kill(peer.peer); },
                 [&](const PeerSpawned& peer) {
                   if (leader_) leader_->receive(peer);
                 },
                 [&](const SpawnFailed& failed) {
                   if (leader_) leader_->receive(failed);
                 },
                 [&](const TimerDue&) {
                   timer_s_.reset();
                   heartbeats_.beat(now_s_, awaited(), outbox_);
                   suspended_since_s_ ? ask_again_while_suspended() : suspect_the_silent();
                   repeat_inquiry();
                   if (asks_to_join_at_s_ && now_s_ >= *asks_to_join_at_s_) ask_to_join();
                   if (finishes_at_s_ && now_s_ >= *finishes_at_s_) finish_as_heard();
                 },
             },
             event);
}

// Noted before any rule about views and the dead: the loss of the process may be heard first.
void Peer::note_departure(const Event& event) {
  const auto* arrived = std::get_if<MessageArrived>(&event);
  const auto* lost =
      arrived == nullptr ? nullptr : std::get_if<LostMessage>(&arrived->message.body);
  if (lost != nullptr && lost->left) left_.insert(lost->peer);
}

// What a dead peer has sent may still arrive. It is refused, so that a table that is taken after
// the death holds all that can ever come of it.
void Peer::hear(const MessageArrived& arrived) {
  const Message& message = arrived.message;
  const PeerId from = arrived.from;
  if (dead_.contains(from)) return refuse(arrived);
  heartbeats_.heard(from, now_s_);
  if (kMessageTable.of(message.body).hearing == Hearing::in_its_view) {
    if (message.incarnation < incarnation_) return;
    const ViewNumber known = view_ ? view_->number : ViewNumber();
    if (message.view > known || message.incarnation > incarnation_) {
      awaiting_view_.push_back(arrived);
      return;
    }
    if (view_ && !view_->contains(from)) return;
  }
  std::visit([&](const auto& body) { receive(body, from); }, message.body);
}

// A peer that is wrongly taken for dead sends one of these sooner or later, and learns of it.
void Peer::refuse(const MessageArrived& arrived) {
  const MessageBody& body = arrived.message.body;
  const bool asks = std::holds_alternative<HeartbeatMessage>(body) ||
                    std::holds_alternative<PingMessage>(body) ||
                    std::holds_alternative<InquiryMessage>(body);
  if (asks && plan_.recovers) outbox_.send(arrived.from, FencedMessage{});
}

template <class Body>
void Peer::receive(const Body& body, PeerId from) {
  constexpr Audience kAudience = kMessageTable.of<Body>().audience;
  static_assert(kAudience != Audience::peer, "Peer::receive() has an overload for it");
  if constexpr (kAudience == Audience::leader) {
    if (leader_) leader_->receive(body, from);  // else it does not lead any more
  } else {
    replica_host_.receive(body, from);
  }
}

void Peer::receive(const ForwardDone& message, PeerId from) {
  if (message.work.stage != StageId(0)) return replica_host_.receive(message, from);
  if (leader_) leader_->receive(message, from);
}

void Peer::receive(const PingMessage& message, PeerId from) {
  outbox_.send(from, PongMessage{message.sent_s});
}

// ---- Start, and joining a run that goes on

// The live peer with the lowest id leads, but only under a term of its own.
void Peer::start() {
  if (!membership_.contains(self_)) {
    finishes_at_s_ = now_s_ + kPatienceToJoinS;
    return ask_to_join();
  }
  watch_others();
  if (leader_id() == self_) ask_for_term(membership_.first_term);
}

void Peer::ask_to_join() {
  std::set<PeerId> known(membership_.join_contacts.begin(), membership_.join_contacts.end());
  for (const PeerId peer : membership_.all()) known.insert(peer);
  for (const auto& [peer, stages] : members().members()) known.insert(peer);
  for (const PeerId peer : known) {
    if (peer != self_ && !dead_.contains(peer)) outbox_.send(peer, JoinMessage{self_});
  }
  // A leader sends heartbeats to members only, but answers everybody's ping.
  if (view_ && leader_id() != self_) outbox_.send(leader_id(), PingMessage{now_s_});
  asks_to_join_at_s_ = now_s_ + kAskAgainS;
}

bool Peer::asks_to_join() const { return asks_to_join_at_s_ && (!view_ || leader_id() != self_); }

void Peer::receive(const JoinMessage& message, PeerId from) {
  if (dead_.contains(message.peer)) return;
  if (leader_) return leader_->receive(message, from);
  contacts_.insert(message.peer);
  if (from == message.peer && view_) outbox_.send(leader_id(), message);
}

// ---- Views

void Peer::receive(const ViewMessage& message, PeerId) {
  if (view_ && message.view->number <= view_->number) return;  // sent twice
  if (message.view->number.term < promised_) {
    below_promise_ = message;
    return;
  }
  if (!message.view->contains(self_)) {
    return finish(fenced());
  }
  for (const auto& [peer, stages] : members().members()) {
    if (!message.view->contains(peer)) dead_.insert(peer);
  }
  // A member that the new leader had not heard of, and left out, may have joined again.
  std::erase_if(dead_,
                [&](PeerId peer) { return message.view->contains(peer) && !lost_.contains(peer); });
  view_ = message.view;
  initial_view_.reset();
  leaderless_since_s_.reset();
  finishes_at_s_.reset();
  asks_to_join_at_s_.reset();
  if (message.restart && message.restart->state.incarnation > incarnation_.value) {
    restart_ = message.restart;
    incarnation_ = Incarnation(restart_->state.incarnation);
    outbox_.set_incarnation(incarnation_);
    replica_host_.restart(*restart_);
  }
  if (leader_ && leader_->view().number < view_->number) leader_.reset();
  inquiry_.reset();
  outbox_.set_view(view_->number);
  const PeerId leader = view_->leader();
  watch_others();
  replica_host_.adopt(view_);
  if (plan_.recovers) {
    TableMessage table = replica_host_.table();
    table.end = end_;
    outbox_.send(leader, std::move(table));
  }
  if (stop_) outbox_.send(leader, NoticeMessage{*stop_});
  if (failure_) outbox_.send(leader, FailureMessage{failure_->code(), failure_->message()});
  for (const MessageArrived& arrived : std::exchange(awaiting_view_, {})) hear(arrived);
}

const ViewRef& Peer::newest_view() const {
  if (view_) return view_;
  if (!initial_view_) {
    initial_view_ = share(
        deal_peers(membership_.workers, membership_.spares, plan_.stage_costs, plan_.swarm.pins));
  }
  return initial_view_;
}

std::vector<PeerId> Peer::others() const {
  std::set<PeerId> others = inquiry_ ? inquiry_->asked : std::set<PeerId>();
  for (const auto& [peer, stages] : members().members()) others.insert(peer);
  std::erase_if(others, [this](PeerId peer) { return peer == self_ || dead_.contains(peer); });
  return {others.begin(), others.end()};
}

PeerId Peer::leader_id() const {
  if (view_) {
    for (const auto& [peer, stages] : view_->members()) {
      if (!dead_.contains(peer)) return peer;
    }
  }
  for (const PeerId peer : membership_.all()) {
    if (!dead_.contains(peer)) return peer;
  }
  return self_;
}

bool Peer::is_taken_for_leader() const {
  const auto lives = [this](PeerId peer) { return !dead_.contains(peer); };
  return plan_.recovers && leader_id() == self_ &&
         std::any_of(contacts_.begin(), contacts_.end(), lives);
}

// ---- Death of a peer

void Peer::receive(const LostMessage& message, PeerId from) {
  // Of another's death one tells the peer that leads next, as far as one knows.
  if (from != message.peer) contacts_.insert(from);
  lost(message.peer,
       format("peer %d was lost, as peer %d reports", message.peer.value, from.value));
  if (!membership_.contains(self_) && !view_ && is_taken_for_leader())
    ask_for_term(membership_.first_term);
}

void Peer::lost(PeerId peer, const std::string& how) {
  const bool led = peer == leader_id();
  if (peer == self_) return;
  lost_.insert(peer);
  if (!dead_.insert(peer).second) return;
  if (led && !leaderless_since_s_) leaderless_since_s_ = now_s_;
  kill_orders_.erase(peer);
  break_promise_to(peer);
  silent_links_.forget(peer);
  watch_others();
  if (!plan_.recovers) {
    if (led) lost_leader_ = true;
    return end_without_recovery(peer, how);
  }
  if (suspended_since_s_ && others().empty()) return give_up_suspended();
  if (leader_) return leader_->lost(peer, how);
  // Of a peer that has joined perhaps only the dead leader knew.
  if (!membership_.contains(self_) && led) {
    asks_to_join_at_s_ = now_s_ + kAskAgainS;
    finishes_at_s_ = now_s_ + kPatienceToJoinS;
  }
  if (inquiry_) {
    inquiry_->awaited.erase(peer);
    return lead_when_all_have_answered();
  }
  if (!membership_.contains(self_) && !view_ && !is_taken_for_leader()) return;
  // After the end the next in line may have finished already.
  if (end_ && led) finishes_at_s_ = now_s_ + kPatienceAtTheEndS;
  succeed(peer);
}

void Peer::end_without_recovery(PeerId peer, const std::string& how) {
  const std::string why = how +
                          ": the run cannot continue without it, because swarm.recovery is off or "
                          "this MPI does not report lost ranks";
  if (leader_) return leader_->lost(peer, why);
  if (lost_leader_) {
    return end_ ? finish_as_heard() : finish(Status::stopped(why));
  }
  // It is about to lead, but has no term yet: nobody else would end the run.
  if (leader_id() == self_) report_failure(Status::stopped(why));
}

// ---- Election
// How a peer comes to lead: with a term of its own, and from the newest view that anybody lives in.

void Peer::succeed(PeerId dead) {
  const PeerId leader = leader_id();
  if (leader != self_) return outbox_.send(leader, LostMessage{dead, left_.contains(dead)});
  ask_for_term(view_ ? view_->number.term.next() : membership_.first_term);
}

void Peer::ask_for_term(Term term) {
  if (term_asked_ || inquiry_ || leader_) return;
  if (end_) return end_for_all(status_of(*end_));
  if (failure_) return end_for_all(*failure_);
  term_asked_ = term;
  outbox_.act(CreateTerm{term});
}

void Peer::take_the_lead(const TermCreated& term) {
  term_asked_.reset();
  if (leader_id() != self_) return;  // another peer leads meanwhile
  if (term.ended) end_ = term.ended;
  // Some may have heard of that end: the run must not come to another.
  if (end_) return end_for_all(status_of(*end_));
  if (!term.created) {
    // A peer that led meanwhile, and has died, has created it.
    if (plan_.recovers && !dead_.empty()) return ask_for_term(term.term.next());
    return report_failure(Status::failed(
        format("another run writes to the same journal, where term-%lld exists already: "
               "start only one run for each output file",
               static_cast<long long>(term.term.value))));
  }
  const bool may_be_behind = !dead_.empty() || view_ != nullptr;
  if (!may_be_behind) return lead(term.term, newest_view(), restart_);
  inquire(term.term);
}

void Peer::inquire(Term term) {
  promised_ = std::max(promised_, term);
  inquiry_ = Inquiry{term, newest_view(), restart_, {}, {}};
  for (const auto& [peer, stages] : inquiry_->newest->members()) inquire_of(peer);
  for (const PeerId peer : contacts_) inquire_of(peer);
  lead_when_all_have_answered();
}

void Peer::inquire_of(PeerId peer) {
  if (peer == self_ || dead_.contains(peer) || !inquiry_->asked.insert(peer).second) return;
  inquiry_->awaited.insert(peer);
  outbox_.send(peer, InquiryMessage{inquiry_->term});
}

void Peer::repeat_inquiry() {
  if (!inquiry_) return;
  for (const PeerId peer : inquiry_->awaited) outbox_.send(peer, InquiryMessage{inquiry_->term});
}

void Peer::receive(const InquiryMessage& message, PeerId from) {
  if (message.term < promised_) return;
  // A peer that is not in the view will not lead: no promise to it may hold back the views of the
  // one that does.
  if (!view_ || view_->contains(from)) {
    promised_ = message.term;
    promised_to_ = from;
  }
  outbox_.send(from, InquiryAnswer{message.term, view_ ? view_ : no_view(), restart_});
}

void Peer::receive(const InquiryAnswer& message, PeerId from) {
  if (!inquiry_ || message.term != inquiry_->term) return;
  inquiry_->awaited.erase(from);
  if (message.view->number > inquiry_->newest->number) {
    for (const auto& [peer, stages] : message.view->members()) inquire_of(peer);
    inquiry_->newest = message.view;
    inquiry_->restart = message.restart;
    watch_others();
  }
  lead_when_all_have_answered();
}

void Peer::lead_when_all_have_answered() {
  if (!inquiry_ || !inquiry_->awaited.empty()) return;
  Inquiry inquiry = *std::exchange(inquiry_, std::nullopt);
  if (!inquiry.newest->contains(self_)) {
    promised_ = inquiry.newest->number.term;
    finishes_at_s_ = now_s_ + kPatienceToJoinS;
    return ask_to_join();
  }
  lead(inquiry.term, std::move(inquiry.newest), std::move(inquiry.restart));
}

void Peer::lead(Term term, ViewRef view, std::shared_ptr<const RestartPoint> restart) {
  Succession succession;
  succession.term = term;
  succession.view = *view;
  succession.takes_over = !dead_.empty();
  succession.workers = static_cast<std::int64_t>(membership_.workers.size());
  succession.highest_id_at_start = membership_.all().back();
  succession.peers = static_cast<std::int64_t>(membership_.all().size());
  succession.predecessor_was_silent = leader_was_silent_;
  succession.restart = std::move(restart);
  succession.leaderless_since_s = std::exchange(leaderless_since_s_, std::nullopt).value_or(now_s_);
  std::map<PeerId, DepartureKind> gone;
  for (const PeerId peer : dead_) {
    if (succession.view.contains(peer)) {
      gone[peer] = left_.contains(peer) ? DepartureKind::left : DepartureKind::lost;
    }
    succession.view.remove(peer);
  }
  leader_.emplace(self_, plan_, replica_host_.commit_log(), std::move(succession), outbox_, now_s_);
  leader_->begin(gone);
}

void Peer::break_promise_to(PeerId peer) {
  if (promised_to_ != peer) return;
  promised_to_.reset();
  promised_ = view_ ? view_->number.term : Term();
  const auto message = std::exchange(below_promise_, std::nullopt);
  if (message && !dead_.contains(message->view->leader())) receive(*message, self_);
}

// The peer that created the later term had not heard of this leader, and may have died since: an
// inquiry under a still later term shows who leads. Two peers that take each other for dead must
// not outbid each other for ever: a peer that is outbid more often than there are peers ends
// itself.
void Peer::receive(const TermOver& over) {
  if (!leader_ || leader_->view().number.term != over.term) return;
  leader_.reset();
  const std::size_t peers = membership_.all().size() + dead_.size() + members().members().size();
  if (++outbid_ > peers) return announce_departure(fenced());
  ask_for_term(over.newest.next());
}

// ---- Failure detector
// What a peer does about silence. Suspicion changes no view: a suspect is killed, never just left
// out, because two peers that suspect each other must not both continue. The death that follows is
// like any other.

void Peer::watch_others() {
  if (view_ ? !view_->contains(self_) : !membership_.contains(self_)) return;  // only joining
  const PeerId leader = leader_id();
  heartbeats_.watch(leader == self_ ? others() : std::vector{leader}, now_s_);
}

double Peer::patience_s() const {
  const bool leads = leader_id() == self_ || !plan_.recovers;
  return plan_.swarm.suspect_after_s * (leads ? 1 : kLongerThanTheLeader);
}

std::vector<PeerId> Peer::line_of_succession() const {
  std::vector<PeerId> line;
  for (const auto& [peer, stages] : members().members()) {
    if (dead_.contains(peer)) continue;
    line.push_back(peer);
    if (peer == self_ || !heartbeats_.is_silent(peer, now_s_, patience_s())) break;
  }
  return line;
}

std::set<PeerId> Peer::awaited() const {
  if (!plan_.recovers) return {};
  std::set<PeerId> peers = replica_host_.awaited();
  for (const PeerId peer : line_of_succession()) peers.insert(peer);
  return peers;
}

void Peer::suspect_the_silent() {
  const std::vector<Heartbeats::Silent> all = heartbeats_.silent(now_s_, patience_s());
  if (!plan_.recovers) {
    for (const auto& [peer, since_s] : all) {
      lost(peer, format("peer %d has been silent for %.1f s", peer.value, since_s));
    }
    return;
  }
  const bool others_may_have_finished = end_ && finishes_at_s_;
  if (others_may_have_finished || (asks_to_join_at_s_ && !view_)) return;
  const std::vector<PeerId> line = line_of_succession();
  const bool next_to_lead = !line.empty() && line.back() == self_;
  for (const auto& [peer, since_s] : all) {
    if (dead_.contains(peer)) continue;
    if (leader_id() == self_ || (next_to_lead && peer < self_)) {
      kill(peer);
    } else if (!line.empty() && peer > line.back()) {
      outbox_.send(leader_id(), SuspectMessage{peer});
    }
  }
  follow_kill_orders();
  if (!leader_) return;
  // A peer that is silent to this one too, or is being killed, is not silent because of a link.
  const auto heard_recently = [&](PeerId peer) {
    return view_->contains(peer) && !dead_.contains(peer) && !kill_orders_.contains(peer) &&
           !heartbeats_.is_silent(peer, now_s_, kHeardRecently * patience_s());
  };
  if (const auto peer = silent_links_.worst(now_s_, heard_recently)) kill(*peer, true);
}

void Peer::receive(const SuspectMessage& message, PeerId from) {
  if (!leader_) return;
  silent_links_.reported(from, message.peer, now_s_, heartbeats_.last_message_s(message.peer));
}

void Peer::kill(PeerId peer, bool over_a_link) {
  if (kill_orders_.try_emplace(peer, KillOrder{now_s_, over_a_link}).second) {
    leader_was_silent_ |= peer == leader_id();
    outbox_.act(KillPeer{peer});
  }
}

void Peer::follow_kill_orders() {
  std::vector<PeerId> alive;
  for (auto it = kill_orders_.begin(); it != kill_orders_.end();) {
    const auto [peer, order] = *it;
    const bool overdue = now_s_ - order.at_s > plan_.swarm.suspect_after_s;
    const bool heard_since =
        !order.over_a_link && heartbeats_.last_message_s(peer).value_or(0) > order.at_s;
    if (overdue && !heard_since) alive.push_back(peer);
    it = overdue && heard_since ? kill_orders_.erase(it) : std::next(it);
  }
  for (const PeerId peer : alive) cannot_kill(peer);
}

// It may live, and continue the run: so this peer, and all that hear it, must not.
void Peer::cannot_kill(PeerId peer) {
  if (dead_.contains(peer) || suspended_since_s_) return;
  if (leader_) return leader_->unreachable(peer);
  if (end_) return finish_as_heard();
  end_for_all(
      Status::stopped(format("peer %d does not answer, and cannot be killed: the run "
                             "ends, because that peer may continue it",
                             peer.value)));
}

// ---- Suspension
// A peer that was stopped itself: the others may have continued without it, so it does nothing
// until one of them answers. This does the work of a lease.

// The timer came later than the patience after which the others would have killed this peer.
void Peer::suspend_if_stale() {
  const double patience_s = plan_.swarm.suspect_after_s;
  if (!plan_.recovers || !timer_s_ || now_s_ <= *timer_s_ + patience_s) return;
  if (suspended_since_s_ && now_s_ <= *suspended_since_s_ + patience_s) return;
  if (others().empty() || asks_to_join()) return;
  suspended_since_s_ = now_s_;
  kill_orders_.clear();
  ask_the_others();
}

void Peer::ask_the_others() {
  for (const PeerId peer : others()) outbox_.send(peer, PingMessage{now_s_});
}

// All but pings, their answers, fencing, deaths and the timer.
bool Peer::held_while_suspended(const Event& event) const {
  if (!suspended_since_s_) return false;
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    return kMessageTable.of(arrived->message.body).hearing != Hearing::even_suspended;
  }
  return !std::holds_alternative<PeerLost>(event) && !std::holds_alternative<TimerDue>(event);
}

void Peer::ask_again_while_suspended() {
  ask_the_others();
  give_up_suspended();
}

void Peer::give_up_suspended() {
  const bool long_enough = now_s_ > *suspended_since_s_ + plan_.swarm.suspect_after_s;
  if (!long_enough && !others().empty()) return;
  finish(Status::stopped("this peer was stopped for too long: no other peer answers it now"));
}

void Peer::receive(const PongMessage& message, PeerId) {
  if (!suspended_since_s_ || message.sent_s < *suspended_since_s_) return;
  suspended_since_s_.reset();
  for (const Event& event : std::exchange(held_, {})) dispatch(event);
}

// ---- Leaving, failure, and the end of the run

void Peer::ask_to_stop(const std::string& why) {
  if (leader_) return leader_->receive(NoticeMessage{why}, self_);
  if (!view_ && membership_.all().size() == 1) return finish(Status::stopped(why));
  stop_ = why;
  if (view_) outbox_.send(view_->leader(), NoticeMessage{why});
}

// With a leader, that one ends the run for all.
void Peer::report_failure(const Status& status) {
  if (leader_) return leader_->storage_failed({status});
  failure_ = status;
  if (!view_ || leader_id() == self_) return end_for_all(status);
  outbox_.send(leader_id(), FailureMessage{status.code(), status.message()});
}

void Peer::receive(const ReleaseMessage&, PeerId) { announce_departure(Status()); }

void Peer::receive(const FencedMessage&, PeerId) { announce_departure(fenced()); }

// All are told: the peer that leads next may not have heard it from the last leader.
void Peer::announce_departure(const Status& status) {
  for (const PeerId peer : others()) outbox_.send(peer, LostMessage{self_, status.ok()});
  left_.insert(self_);
  finish(status);
}

void Peer::receive(const EndMessage& message, PeerId from) {
  end_ = message;
  outbox_.send(from, EndHeard{});
}

void Peer::receive(const ExitMessage&, PeerId) {
  if (end_) finish_as_heard();
}

void Peer::finish_as_heard() {
  if (!end_) return finish(Status::stopped("there is no run to join: no peer has answered"));
  finish(status_of(*end_));
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
  std::optional<double> due_s = heartbeats_.due_s();
  const auto no_later_than = [&](std::optional<double> at_s) {
    if (at_s) due_s = std::min(due_s.value_or(*at_s), *at_s);
  };
  no_later_than(finishes_at_s_);
  no_later_than(asks_to_join_at_s_);
  if (leader_) no_later_than(leader_->gives_up_s());
  if (!due_s || due_s == timer_s_) return;
  timer_s_ = due_s;
  outbox_.act(SetTimer{*due_s});
}

bool Peer::reports_outcome() const { return !left() && (lost_leader_ || leader_id() == self_); }

std::string Peer::position() const {
  return format("peer %d, step %lld", self_.value,
                static_cast<long long>(replica_host_.commit_log().committed().next().value));
}

std::string Peer::waiting_for() const {
  std::string text = replica_host_.activity();
  if (suspended_since_s_) return "an answer from any other peer, after it was stopped for long";
  if (!view_) text = format("the first view of peer %d", leader_id().value);
  if (end_) text = format("ExitMessage from peer %d", leader_id().value);
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

}  // namespace swarmpi
