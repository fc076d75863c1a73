#include "swarm/peer.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {
namespace {

// That somebody does not hear another counts for this part of the patience.
constexpr double kReportCounts = 1.0 / 3;

template <class Body, class... Bodies>
constexpr bool kIsOneOf = (std::is_same_v<Body, Bodies> || ...);

// Heard by whoever lives, in whatever view and history.
template <class Body>
constexpr bool kWhateverTheView =
    kIsOneOf<Body, ViewMessage, EndMessage, LeaveMessage, JoinMessage, InquiryMessage,
             InquiryAnswer, TableMessage, PingMessage, PongMessage, RefusedMessage, DismissMessage,
             LostMessage>;
template <class Body>
constexpr bool kForTheLeader =
    kIsOneOf<Body, ReportMessage, SealRefused, ReducedMessage, TableMessage, UnableMessage,
             LearnedMessage, StageStoredMessage, NoticeMessage, FailureMessage, EndHeard>;

}  // namespace

Peer::Peer(PeerId self, RunPlan plan, Roster roster, ResumeState resume)
    : self_(self),
      plan_(std::move(plan)),
      roster_(std::move(roster)),
      incarnation_(resume.incarnation),
      heartbeats_(self, plan_.swarm.heartbeat_s),
      silent_links_(plan_.swarm.heartbeat_s, kReportCounts * plan_.swarm.suspect_after_s),
      server_(self_, plan_, resume, outbox_) {
  outbox_.set_incarnation(incarnation_);
}

Actions Peer::handle(const Event& event, double now_s) {
  if (done()) return {};
  now_s_ = now_s;
  server_.set_now(now_s);
  if (leader_) leader_->set_now(now_s);
  doubt_if_late();
  note_goodbye(event);
  if (waits_in_doubt(event)) {
    held_.push_back(event);
  } else {
    learn(event);  // 1. note what happened in the table, the ledger, the view
  }
  if (!done() && !in_doubt_since_s_) {
    server_.start_job();           // 2. completed steps first, then backward, then forward
    server_.flush_report();        // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write down, end
    if (leader_ && leader_->over()) {
      leader_->dismiss();
      finish(leader_->ending());
    } else if (leader_ && leader_->has_left()) {
      say_goodbye(Status());
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
                 [&](const JobFinished& job) { server_.finished(job); },
                 [&](const TermCreated& term) { take_the_lead(term); },
                 [&](const StageStored& part) { server_.stored(part); },
                 [&](const RecordDurable& record) {
                   if (leader_) leader_->durable(record);
                 },
                 [&](const CheckpointDurable& checkpoint) {
                   if (leader_) leader_->durable(checkpoint);
                 },
                 [&](const ManifestLoaded& manifest) {
                   if (leader_) leader_->loaded(manifest);
                 },
                 [&](const StageLoaded& stage) { server_.loaded(stage); },
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
                   in_doubt_since_s_ ? ask_again_in_doubt() : suspect_the_silent();
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
void Peer::note_goodbye(const Event& event) {
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
    server_.receive(body, from);
  }
}

void Peer::receive(const ForwardDone& message, PeerId from) {
  if (message.work.stage != StageId(0)) return server_.receive(message, from);
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
  silent_links_.reported(from, message.peer, now_s_, heartbeats_.spoke_s(message.peer));
}

void Peer::receive(const DismissMessage&, PeerId) { say_goodbye(Status()); }

void Peer::receive(const RefusedMessage&, PeerId) { say_goodbye(gone_on_without_this_peer()); }

void Peer::receive(const LeaveMessage&, PeerId) {
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
    server_.restart(*restart_);
  }
  if (leader_ && leader_->view().number < view_->number) leader_.reset();
  inquiry_.reset();
  outbox_.set_view(view_->number);
  const PeerId leader = view_->leader();
  watch_others();
  server_.adopt(*view_);
  if (plan_.recovers) {
    TableMessage table = server_.table();
    table.end = end_;
    outbox_.send(leader, std::move(table));
  }
  if (stop_) outbox_.send(leader, NoticeMessage{*stop_});
  if (failure_) outbox_.send(leader, FailureMessage{failure_->code(), failure_->message()});
  for (const MessageArrived& arrived : std::exchange(early_, {})) learn(arrived);
}

View Peer::members() const {
  if (view_) return *view_;
  return deal_peers(roster_.workers, roster_.spares, plan_.stage_costs, plan_.swarm.pins);
}

PeerId Peer::leader_id() const {
  if (view_) {
    for (const auto& [peer, stages] : view_->members) {
      if (!dead_.contains(peer)) return peer;
    }
  }
  for (const PeerId peer : roster_.all()) {
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
  if (leader_id() == self_) ask_for_term(roster_.first_term);
}

void Peer::ask_to_join() {
  std::set<PeerId> known(roster_.contacts.begin(), roster_.contacts.end());
  for (const PeerId peer : roster_.all()) known.insert(peer);
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
  if (!view_ && roster_.all().size() == 1) return finish(Status::stopped(why));
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
    outbox_.send(peer, LeaveMessage{});
  }
  ended_for_all_ = true;
  finish(status);
}

// Whoever has not heard that nothing of it is needed any more hears it from itself.
void Peer::say_goodbye(const Status& status) {
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
  if (in_doubt_since_s_ && others().empty()) return give_up_in_doubt();
  if (leader_) return leader_->lost(peer, how);
  const std::vector<PeerId> first = roster_.all();
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

bool Peer::speaks() const { return !left() && (lost_leader_ || leader_id() == self_); }

void Peer::finish(Status status) {
  if (done()) return;
  finished_ = std::move(status);
  outbox_.act(Finish{*finished_});
}

std::string Peer::waiting_for() const {
  std::string text = server_.activity();
  if (in_doubt_since_s_) return "a sign that the others have not gone on without this peer";
  if (!view_) text = format("the first view of peer %d", leader_id().value);
  if (end_) text = format("leave to go, from peer %d", leader_id().value);
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

}  // namespace swarmpi
