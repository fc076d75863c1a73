#include "protocol/peer.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "protocol/rules.hpp"

namespace swarmpi {
namespace {

// That somebody does not hear another counts for this part of the patience.
constexpr double kReportCounts = 1.0 / 3;

template <class Body, class... Bodies>
constexpr bool kIsOneOf = (std::is_same_v<Body, Bodies> || ...);

// Heard by whoever lives, in whatever view and history.
template <class Body>
constexpr bool kWhateverTheView =
    kIsOneOf<Body, ViewMessage, EndMessage, ExitMessage, JoinMessage, InquiryMessage, InquiryAnswer,
             TableMessage, PingMessage, PongMessage, FencedMessage, ReleaseMessage, LostMessage>;
template <class Body>
constexpr bool kForTheLeader =
    kIsOneOf<Body, ReportMessage, SealRefused, ReducedMessage, TableMessage, UnableMessage,
             LearnedMessage, StageStoredMessage, NoticeMessage, FailureMessage, EndHeard>;

}  // namespace

Peer::Peer(PeerId self, RunPlan plan, InitialMembership membership, ResumeState resume)
    : self_(self),
      plan_(std::move(plan)),
      membership_(std::move(membership)),
      incarnation_(resume.incarnation),
      heartbeats_(self, plan_.swarm.heartbeat_s),
      silent_links_(plan_.swarm.heartbeat_s, kReportCounts * plan_.swarm.suspect_after_s),
      replica_host_(self_, plan_, resume, outbox_) {
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
    learn(event);  // 1. note what happened in the table, the ledger, the view
  }
  if (!done() && !suspended_since_s_) {
    replica_host_.start_job();     // 2. completed steps first, then backward, then forward
    replica_host_.flush_report();  // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write down, end
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

void Peer::learn(const Event& event) {
  std::visit(Overloaded{
                 [&](const Started&) { start(); },
                 [&](const MessageArrived& arrived) { learn(arrived); },
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
                   if (asks_at_s_ && now_s_ >= *asks_at_s_) ask_to_join();
                   if (leaves_at_s_ && now_s_ >= *leaves_at_s_) leave();
                 },
             },
             event);
}

// What the dead have sent may still arrive: it is refused, so that a table which is taken after a
// death holds all that will ever come of it.
void Peer::learn(const MessageArrived& arrived) {
  const Message& message = arrived.message;
  const PeerId from = arrived.from;
  if (holds(Rule::refuse_the_dead) && dead_.contains(from)) return refuse(arrived);
  heartbeats_.heard(from, now_s_);
  const auto whatever_the_view = [](const auto& body) {
    return kWhateverTheView<std::decay_t<decltype(body)>>;
  };
  if (!std::visit(whatever_the_view, message.body)) {
    if (holds(Rule::leave_histories) && message.incarnation < incarnation_) return;
    const ViewNumber known = view_ ? view_->number : ViewNumber();
    const bool ahead = message.view > known || message.incarnation > incarnation_;
    if (holds(Rule::await_newer_views) && ahead) {
      early_.push_back(arrived);
      return;
    }
    if (view_ && !view_->members.contains(from)) return;
  }
  std::visit([&](const auto& body) { receive(body, from); }, message.body);
}

// Counts whenever it comes: the end of the process may be heard first, or by others.
void Peer::note_departure(const Event& event) {
  const auto* arrived = std::get_if<MessageArrived>(&event);
  const auto* lost =
      arrived == nullptr ? nullptr : std::get_if<LostMessage>(&arrived->message.body);
  if (lost != nullptr && lost->left) left_.insert(lost->peer);
}

template <class Body>
void Peer::receive(const Body& body, PeerId from) {
  if constexpr (kForTheLeader<Body>) {
    if (leader_) leader_->receive(body, from);  // it may have led once
  } else {
    replica_host_.receive(body, from);
  }
}

void Peer::receive(const ForwardDone& message, PeerId from) {
  if (message.work.stage != StageId(0)) return replica_host_.receive(message, from);
  if (leader_) leader_->receive(message, from);
}

void Peer::receive(const JoinMessage& message, PeerId from) {
  if (holds(Rule::dead_stay_out) && dead_.contains(message.peer)) return;
  if (leader_) return leader_->receive(message, from);
  if (from == message.peer && view_) outbox_.send(leader_id(), message);
}

void Peer::receive(const LostMessage& message, PeerId from) {
  lost(message.peer, format("peer %d was lost, says peer %d", message.peer.value, from.value));
}

void Peer::receive(const PingMessage& message, PeerId from) {
  outbox_.send(from, PongMessage{message.sent_s});
}

void Peer::receive(const SuspectMessage& message, PeerId from) {
  if (!leader_) return;
  silent_links_.reported(from, message.peer, now_s_, heartbeats_.last_message_s(message.peer));
}

void Peer::receive(const ReleaseMessage&, PeerId) { announce_departure(Status()); }

void Peer::receive(const FencedMessage&, PeerId) {
  announce_departure(gone_on_without_this_peer());
}

void Peer::receive(const ExitMessage&, PeerId) {
  if (end_) leave();
}

// ---- Views

void Peer::receive(const ViewMessage& message, PeerId) {
  if (view_ && message.view.number <= view_->number) return;  // sent twice
  if (message.view.number.term < promised_) {
    below_promise_ = message;
    return;
  }
  if (!message.view.members.contains(self_)) {
    return finish(gone_on_without_this_peer());
  }
  for (const auto& [peer, stages] : members().members) {
    if (!message.view.members.contains(peer)) dead_.insert(peer);
  }
  // One whom a new leader had not heard of may have joined again.
  std::erase_if(dead_, [&](PeerId peer) {
    const bool back = message.view.members.contains(peer) && !lost_.contains(peer);
    return back && holds(Rule::forgive_newcomers);
  });
  view_ = message.view;
  leaderless_since_s_.reset();
  leaves_at_s_.reset();
  asks_at_s_.reset();
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
  replica_host_.adopt(*view_);
  if (plan_.recovers) {
    TableMessage table = replica_host_.table();
    table.end = end_;
    outbox_.send(leader, std::move(table));
  }
  if (stop_) outbox_.send(leader, NoticeMessage{*stop_});
  if (failure_) outbox_.send(leader, FailureMessage{failure_->code(), failure_->message()});
  for (const MessageArrived& arrived : std::exchange(early_, {})) learn(arrived);
}

View Peer::members() const {
  if (view_) return *view_;
  return deal_peers(membership_.workers, membership_.spares, plan_.stage_costs, plan_.swarm.pins);
}

PeerId Peer::leader_id() const {
  if (view_) {
    for (const auto& [peer, stages] : view_->members) {
      if (!dead_.contains(peer)) return peer;
    }
  }
  for (const PeerId peer : membership_.all()) {
    if (!dead_.contains(peer)) return peer;
  }
  return self_;
}

// ---- Leadership

// The live peer with the lowest id leads; it needs a term of its own before it says a word.
void Peer::start() {
  if (!members().members.contains(self_)) {
    leaves_at_s_ = now_s_ + kPatienceToJoinS;
    return ask_to_join();
  }
  watch_others();
  if (leader_id() == self_) ask_for_term(membership_.first_term);
}

void Peer::ask_to_join() {
  std::set<PeerId> known(membership_.join_contacts.begin(), membership_.join_contacts.end());
  for (const PeerId peer : membership_.all()) known.insert(peer);
  for (const auto& [peer, stages] : members().members) known.insert(peer);
  for (const PeerId peer : known) {
    if (peer != self_ && !dead_.contains(peer)) outbox_.send(peer, JoinMessage{self_});
  }
  // It sends no signs of life to whom it does not know, but answers.
  if (view_ && leader_id() != self_) outbox_.send(leader_id(), PingMessage{now_s_});
  asks_at_s_ = now_s_ + kAskAgainS;
}

// ---- Ends

void Peer::ask_to_stop(const std::string& why) {
  if (leader_) return leader_->receive(NoticeMessage{why}, self_);
  if (!view_ && membership_.all().size() == 1) return finish(Status::stopped(why));
  stop_ = why;
  if (view_) outbox_.send(view_->leader(), NoticeMessage{why});
}

// The leader ends the run for all.
void Peer::report_failure(const Status& status) {
  if (leader_) return leader_->storage_failed({status});
  failure_ = status;
  if (!view_ || leader_id() == self_) return end_for_all(status);
  outbox_.send(leader_id(), FailureMessage{status.code(), status.message()});
}

// Without a leader there is nobody to wait for.
void Peer::end_for_all(const Status& status) {
  for (const PeerId peer : others()) {
    outbox_.send(peer, EndMessage{status.code(), status.message()});
    outbox_.send(peer, ExitMessage{});
  }
  ended_for_all_ = true;
  finish(status);
}

// Whoever has not heard that nothing of it is needed any more hears it from itself.
void Peer::announce_departure(const Status& status) {
  for (const PeerId peer : others()) outbox_.send(peer, LostMessage{self_, status.ok()});
  left_.insert(self_);
  finish(status);
}

void Peer::receive(const EndMessage& message, PeerId from) {
  end_ = message;
  outbox_.send(from, EndHeard{});
}

void Peer::leave() {
  if (!end_) return finish(Status::stopped("there is no run to join: nobody answers"));
  finish(status_of(*end_));
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
    return give_up(peer, how);
  }
  if (suspended_since_s_ && others().empty()) return give_up_suspended();
  if (leader_) return leader_->lost(peer, how);
  const std::vector<PeerId> first = membership_.all();
  const bool joined = std::find(first.begin(), first.end(), self_) == first.end();
  // It may be that nobody who lives has heard of this peer.
  if (joined && led) {
    asks_at_s_ = now_s_ + kAskAgainS;
    leaves_at_s_ = now_s_ + kPatienceToJoinS;
  }
  if (joined && !view_) return;
  if (inquiry_) {
    inquiry_->awaited.erase(peer);
    return lead_when_all_have_answered();
  }
  // At the end the next in line may have left already.
  if (end_ && led) leaves_at_s_ = now_s_ + kPatienceAtTheEndS;
  succeed(peer);
}

void Peer::give_up(PeerId peer, const std::string& how) {
  const std::string why = how + ": this version cannot go on without it";
  if (leader_) return leader_->lost(peer, why);
  if (lost_leader_) {
    return end_ ? leave() : finish(Status::stopped(why));
  }
  // About to lead, but without a term: nobody else would end the run.
  if (leader_id() == self_) report_failure(Status::stopped(why));
}

void Peer::set_timer() {
  std::optional<double> due_s = heartbeats_.due_s();
  const auto no_later_than = [&](std::optional<double> at_s) {
    if (at_s) due_s = std::min(due_s.value_or(*at_s), *at_s);
  };
  no_later_than(leaves_at_s_);
  no_later_than(asks_at_s_);
  if (leader_) no_later_than(leader_->gives_up_s());
  if (!due_s || due_s == timer_s_) return;
  timer_s_ = due_s;
  outbox_.act(SetTimer{*due_s});
}

bool Peer::reports_outcome() const { return !left() && (lost_leader_ || leader_id() == self_); }

void Peer::finish(Status status) {
  if (done()) return;
  finished_ = std::move(status);
  outbox_.act(Finish{*finished_});
}

std::string Peer::waiting_for() const {
  std::string text = replica_host_.activity();
  if (suspended_since_s_) return "a sign that the others have not gone on without this peer";
  if (!view_) text = format("the first view of peer %d", leader_id().value);
  if (end_) text = format("leave to go, from peer %d", leader_id().value);
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

// ---- Succession
// How a peer comes to lead: a term of its own, and the newest view that anybody lives in.

void Peer::ask_for_term(Term term) {
  if (term_asked_ || inquiry_ || leader_) return;
  if (end_) return end_for_all(status_of(*end_));
  if (failure_) return end_for_all(*failure_);
  term_asked_ = term;
  outbox_.act(CreateTerm{term});
}

void Peer::succeed(PeerId dead) {
  const PeerId leader = leader_id();
  if (leader != self_) return outbox_.send(leader, LostMessage{dead, left_.contains(dead)});
  ask_for_term(view_ ? view_->number.term.next() : membership_.first_term);
}

void Peer::take_the_lead(const TermCreated& term) {
  term_asked_.reset();
  if (leader_id() != self_) return;  // it has heard of another meanwhile
  if (term.ended && holds(Rule::stay_ended)) end_ = term.ended;
  // Nobody leads a run to another end than one that some may have heard of.
  if (end_) return end_for_all(status_of(*end_));
  if (holds(Rule::own_term) && !term.created) {
    // Made by one who has led since, and died.
    if (plan_.recovers && !dead_.empty()) return ask_for_term(term.term.next());
    return report_failure(
        Status::failed(format("another run writes to the same journal (term %lld exists)",
                              static_cast<long long>(term.term.value))));
  }
  const bool may_be_behind =
      holds(Rule::ask_for_newest_view) && (!dead_.empty() || view_.has_value());
  if (!may_be_behind) return lead(term.term, members(), restart_);
  inquire(term.term);
}

void Peer::inquire(Term term) {
  promised_ = std::max(promised_, term);
  inquiry_ = Inquiry{term, members(), restart_, {}};
  for (const auto& [peer, stages] : inquiry_->newest.members) {
    if (peer == self_ || dead_.contains(peer)) continue;
    inquiry_->awaited.insert(peer);
    outbox_.send(peer, InquiryMessage{term});
  }
  lead_when_all_have_answered();
}

void Peer::repeat_inquiry() {
  if (!inquiry_) return;
  for (const PeerId peer : inquiry_->awaited) outbox_.send(peer, InquiryMessage{inquiry_->term});
}

// Whoever created it had not heard of this leader, and may have died over it: the others tell. But
// two that each take the other for dead must not outbid each other for ever: more often than every
// peer can be wrong about it once or twice.
void Peer::receive(const TermOver& over) {
  if (!leader_ || leader_->view().number.term != over.term) return;
  leader_.reset();
  const std::size_t peers = membership_.all().size() + dead_.size() + members().members.size();
  if (++outbid_ > peers) return announce_departure(gone_on_without_this_peer());
  ask_for_term(over.newest.next());
}

void Peer::receive(const InquiryMessage& message, PeerId from) {
  if (message.term < promised_) return;
  // Of one whom nobody here knows the others must not depend.
  const bool known = !view_ || view_->members.contains(from);
  if (known || !holds(Rule::lead_the_known)) {
    promised_ = message.term;
    promised_to_ = from;
  }
  outbox_.send(from, InquiryAnswer{message.term, view_.value_or(View()), restart_});
}

void Peer::receive(const InquiryAnswer& message, PeerId from) {
  if (!inquiry_ || message.term != inquiry_->term) return;
  inquiry_->awaited.erase(from);
  if (message.view.number > inquiry_->newest.number) {
    for (const auto& [peer, stages] : message.view.members) {
      const bool asked = inquiry_->newest.members.contains(peer);
      if (asked || peer == self_ || dead_.contains(peer)) continue;
      inquiry_->awaited.insert(peer);
      outbox_.send(peer, InquiryMessage{inquiry_->term});
    }
    inquiry_->newest = message.view;
    inquiry_->restart = message.restart;
    watch_others();
  }
  lead_when_all_have_answered();
}

void Peer::lead_when_all_have_answered() {
  if (!inquiry_ || !inquiry_->awaited.empty()) return;
  Inquiry inquiry = *std::exchange(inquiry_, std::nullopt);
  if (!inquiry.newest.members.contains(self_) && holds(Rule::lead_the_known)) {
    promised_ = inquiry.newest.number.term;
    leaves_at_s_ = now_s_ + kPatienceToJoinS;
    return ask_to_join();
  }
  lead(inquiry.term, std::move(inquiry.newest), std::move(inquiry.restart));
}

void Peer::break_promise_to(PeerId peer) {
  if (promised_to_ != peer) return;
  promised_to_.reset();
  promised_ = view_ ? view_->number.term : Term();
  const auto message = std::exchange(below_promise_, std::nullopt);
  if (message && !dead_.contains(message->view.leader())) receive(*message, self_);
}

void Peer::lead(Term term, View view, std::shared_ptr<const RestartPoint> restart) {
  Succession succession;
  succession.term = term;
  succession.view = std::move(view);
  succession.takes_over = !dead_.empty();
  succession.workers = static_cast<std::int64_t>(membership_.workers.size());
  succession.highest_id_at_start = membership_.all().back();
  succession.peers = static_cast<std::int64_t>(membership_.all().size());
  succession.predecessor_was_silent = leader_was_silent_;
  succession.restart = std::move(restart);
  succession.leaderless_since_s = std::exchange(leaderless_since_s_, std::nullopt).value_or(now_s_);
  std::map<PeerId, DepartureKind> gone;
  for (const PeerId peer : dead_) {
    if (succession.view.members.contains(peer)) {
      gone[peer] = left_.contains(peer) ? DepartureKind::left : DepartureKind::lost;
    }
    succession.view.remove(peer);
  }
  leader_.emplace(self_, plan_, replica_host_.commit_log(), std::move(succession), outbox_, now_s_);
  leader_->begin(gone);
}

// ---- Suspicion
// What a peer does about silence. Suspicion changes no view: a suspect is killed, never just left
// out, for two peers that suspect each other must not both go on. Its death is then like any other.

namespace {

// All others wait so much longer than the leader: whoever cannot reach a leader that lives is dead
// before it suspects anybody.
constexpr double kLongerThanTheLeader = 1.5;
// Whoever has been heard within this part of the patience speaks.
constexpr double kSpeaks = 0.5;

}  // namespace

double Peer::patience_s() const {
  const bool leads = leader_id() == self_ || !plan_.recovers;
  return plan_.swarm.suspect_after_s * (leads ? 1 : kLongerThanTheLeader);
}

// Those who would lead one after the other, up to the first who is not silent: this peer at the
// latest.
std::vector<PeerId> Peer::line_of_succession() const {
  std::vector<PeerId> line;
  for (const auto& [peer, stages] : members().members) {
    if (dead_.contains(peer)) continue;
    line.push_back(peer);
    if (peer == self_ || !heartbeats_.is_silent(peer, now_s_, patience_s())) break;
  }
  return line;
}

bool Peer::asks_to_join() const { return asks_at_s_ && (!view_ || leader_id() != self_); }

std::set<PeerId> Peer::awaited() const {
  if (!plan_.recovers) return {};
  std::set<PeerId> peers;
  if (holds(Rule::ask_who_owes)) peers = replica_host_.awaited();
  for (const PeerId peer : line_of_succession()) peers.insert(peer);
  return peers;
}

std::vector<PeerId> Peer::others() const {
  std::set<PeerId> others = inquiry_ ? inquiry_->awaited : std::set<PeerId>();
  for (const auto& [peer, stages] : members().members) others.insert(peer);
  std::erase_if(others, [this](PeerId peer) { return peer == self_ || dead_.contains(peer); });
  return {others.begin(), others.end()};
}

void Peer::watch_others() {
  if (!members().members.contains(self_)) return;  // comes only now
  const PeerId leader = leader_id();
  heartbeats_.watch(leader == self_ ? others() : std::vector{leader}, now_s_);
}

void Peer::suspect_the_silent() {
  const std::vector<Heartbeats::Silent> all = heartbeats_.silent(now_s_, patience_s());
  if (!plan_.recovers) {
    for (const auto& [peer, since_s] : all) {
      lost(peer, format("peer %d has been silent for %.1f s", peer.value, since_s));
    }
    return;
  }
  const bool some_have_left = end_ && leaves_at_s_;
  if (some_have_left || (asks_at_s_ && !view_)) return;
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
  // Who is silent, or is being killed, is not silent because of a link.
  const auto speaks = [&](PeerId peer) {
    return view_->members.contains(peer) && !dead_.contains(peer) && !kill_orders_.contains(peer) &&
           !heartbeats_.is_silent(peer, now_s_, kSpeaks * patience_s());
  };
  if (const auto peer = silent_links_.worst(now_s_, speaks)) kill(*peer, true);
}

void Peer::kill(PeerId peer, bool over_a_link) {
  if (!holds(Rule::suspects_are_killed)) return;
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
    const bool speaks =
        !order.over_a_link && heartbeats_.last_message_s(peer).value_or(0) > order.at_s;
    if (overdue && !speaks) alive.push_back(peer);
    it = overdue && speaks ? kill_orders_.erase(it) : std::next(it);
  }
  for (const PeerId peer : alive) cannot_kill(peer);
}

// It may live, and go on: nobody else must.
void Peer::cannot_kill(PeerId peer) {
  if (dead_.contains(peer) || suspended_since_s_) return;
  if (leader_) return leader_->unreachable(peer);
  if (end_) return leave();
  end_for_all(Status::stopped(format("peer %d does not answer, and cannot be killed", peer.value)));
}

// ---- A peer that was stopped itself

// The others may have gone on without it: it rests until one of them answers.
void Peer::suspend_if_stale() {
  const double patience_s = plan_.swarm.suspect_after_s;
  if (!plan_.recovers || !timer_s_ || now_s_ <= *timer_s_ + patience_s) return;
  if (suspended_since_s_ && now_s_ <= *suspended_since_s_ + patience_s) return;
  if (others().empty() || asks_to_join() || !holds(Rule::suspend_if_stale)) return;
  suspended_since_s_ = now_s_;
  kill_orders_.clear();
  ask_the_others();
}

void Peer::ask_the_others() {
  for (const PeerId peer : others()) outbox_.send(peer, PingMessage{now_s_});
}

// What is heard meanwhile waits, but for answers and deaths.
bool Peer::held_while_suspended(const Event& event) const {
  if (!suspended_since_s_) return false;
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    const MessageBody& body = arrived->message.body;
    return !std::holds_alternative<PingMessage>(body) &&
           !std::holds_alternative<PongMessage>(body) &&
           !std::holds_alternative<FencedMessage>(body);
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
  finish(Status::stopped("this peer was stopped for too long: nobody answers it"));
}

void Peer::receive(const PongMessage& message, PeerId) {
  if (!suspended_since_s_ || message.sent_s < *suspended_since_s_) return;
  suspended_since_s_.reset();
  for (const Event& event : std::exchange(held_, {})) learn(event);
}

// Whoever was wrongly said to be dead asks its leader, and hears of it.
void Peer::refuse(const MessageArrived& arrived) {
  const MessageBody& body = arrived.message.body;
  const bool asks = std::holds_alternative<HeartbeatMessage>(body) ||
                    std::holds_alternative<PingMessage>(body) ||
                    std::holds_alternative<InquiryMessage>(body);
  if (asks && plan_.recovers && holds(Rule::tell_the_forgotten))
    outbox_.send(arrived.from, FencedMessage{});
}

}  // namespace swarmpi
