#include "swarm/peer.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {

Peer::Peer(PeerId self, RunPlan plan, Roster roster, ResumeState resume)
    : self_(self),
      plan_(std::move(plan)),
      roster_(std::move(roster)),
      resume_(std::move(resume)),
      heartbeats_(self, plan_.swarm.heartbeat_s, plan_.swarm.suspect_after_s),
      server_(self_, plan_, resume_, outbox_) {
  outbox_.set_incarnation(Incarnation(resume_.incarnation));
}

Actions Peer::handle(const Event& event, double now_s) {
  if (done()) return {};
  now_s_ = now_s;
  server_.set_now(now_s);
  if (leader_) leader_->set_now(now_s);
  learn(event);  // 1. note what happened in the table, the ledger, the view
  if (!done()) {
    server_.start_job();           // 2. completed steps first, then backward, then forward
    server_.flush_report();        // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write down, end
    if (leader_ && leader_->over()) finish(leader_->ending());
  }
  if (!done()) set_timer();
  return outbox_.take();
}

void Peer::learn(const Event& event) {
  std::visit(Overloaded{
                 [&](const Started&) { start(); },
                 [&](const MessageArrived& arrived) { learn(arrived); },
                 [&](const JobFinished& job) { server_.finished(job); },
                 [&](const TermCreated& term) { take_the_lead(term); },
                 [&](const StageStored& part) { server_.stored(part); },
                 [&](const RecordDurable& record) { leader().durable(record); },
                 [&](const CheckpointDurable& checkpoint) { leader().durable(checkpoint); },
                 [&](const CompletionDurable& completion) { leader().durable(completion); },
                 [&](const StorageFailed& failure) { report_failure(failure.status); },
                 [&](const StopRequested& stop) { ask_to_stop(stop.why); },
                 [&](const PeerLost& peer) {
                   lost(peer.peer, format("peer %d was lost", peer.peer.value));
                 },
                 [&](const TimerDue&) {
                   timer_s_.reset();
                   heartbeats_.beat(now_s_, outbox_);
                   suspect_the_silent();
                 },
             },
             event);
}

void Peer::learn(const MessageArrived& arrived) {
  const Message& message = arrived.message;
  if (message.incarnation < Incarnation(resume_.incarnation)) return;
  const PeerId from = arrived.from;
  heartbeats_.heard(from, now_s_);
  const bool announces = std::holds_alternative<ViewMessage>(message.body) ||
                         std::holds_alternative<EndMessage>(message.body);
  if (!announces && message.view > (view_ ? view_->number : ViewNumber())) {
    early_.push_back(arrived);
    return;
  }
  std::visit(Overloaded{
                 [&](const ViewMessage& m) { adopt(m); },
                 [&](const IssueMessage& m) { server_.receive(m, from); },
                 [&](const ForwardMessage& m) { server_.receive(m, from); },
                 [&](const ForwardDone& m) {
                   if (m.work.stage == StageId(0)) return leader().receive(m, from);
                   server_.receive(m, from);
                 },
                 [&](const BackwardMessage& m) { server_.receive(m, from); },
                 [&](const SealMessage& m) { server_.receive(m, from); },
                 [&](const ShareMessage& m) { server_.receive(m, from); },
                 [&](const ChunkMessage& m) { server_.receive(m, from); },
                 [&](const CommitMessage& m) { server_.receive(m, from); },
                 [&](const CheckpointMessage& m) { server_.receive(m, from); },
                 [&](const ReportMessage& m) { leader().receive(m, from); },
                 [&](const SealAnswer& m) { leader().receive(m, from); },
                 [&](const ReducedMessage& m) { leader().receive(m, from); },
                 [&](const StageStoredMessage& m) { leader().receive(m, from); },
                 [&](const NoticeMessage& m) { leader().receive(m, from); },
                 [&](const FailureMessage& m) { leader().receive(m, from); },
                 [&](const EndHeard& m) { leader().receive(m, from); },
                 [&](const HeartbeatMessage&) {},
                 [&](const EndMessage& m) {
                   outbox_.send(from, EndHeard{});
                   finish(m.code == ExitStatus::good ? Status() : Status::error(m.code, m.why));
                 },
             },
             message.body);
}

void Peer::adopt(const ViewMessage& message) {
  if (view_ && message.view.number <= view_->number) return;  // sent twice
  view_ = message.view;
  outbox_.set_view(view_->number);
  server_.adopt(*view_);
  if (stop_) outbox_.send(view_->leader(), NoticeMessage{*std::exchange(stop_, std::nullopt)});
  for (const MessageArrived& arrived : std::exchange(early_, {})) learn(arrived);
}

// The live peer with the lowest id leads; it needs a term of its own before it says a word.
void Peer::start() {
  const bool leads = leader_id() == self_;
  heartbeats_.watch(leads ? roster_.all() : std::vector{leader_id()}, now_s_);
  if (leads) outbox_.act(CreateTerm{roster_.first_term});
}

void Peer::take_the_lead(const TermCreated& term) {
  if (!term.created) {
    return report_failure(
        Status::failed(format("another run writes to the same journal (term %lld exists)",
                              static_cast<long long>(term.term.value))));
  }
  View view = deal_peers(roster_.workers, roster_.spares, plan_.stage_costs, plan_.swarm.pins);
  view.number = {term.term, 1};
  outbox_.set_view(view.number);
  leader_.emplace(self_, plan_, resume_, term.term, std::move(view), outbox_);
  leader_->set_now(now_s_);
  leader_->begin();
}

void Peer::ask_to_stop(const std::string& why) {
  if (leader_) return leader_->receive(NoticeMessage{why}, self_);
  if (view_) return outbox_.send(view_->leader(), NoticeMessage{why});
  if (roster_.all().size() == 1) return finish(Status::stopped(why));
  stop_ = why;
}

// The leader ends the run for all; without one there is nobody to wait for.
void Peer::report_failure(const Status& status) {
  if (leader_) return leader_->storage_failed({status});
  if (view_) return outbox_.send(view_->leader(), FailureMessage{status.code(), status.message()});
  for (const PeerId peer : roster_.all()) {
    if (peer != self_) outbox_.send(peer, EndMessage{status.code(), status.message()});
  }
  finish(status);
}

void Peer::lost(PeerId peer, const std::string& how) {
  if (std::find(lost_.begin(), lost_.end(), peer) != lost_.end()) return;
  const bool led = peer == leader_id();
  lost_.push_back(peer);
  const std::string why = how + ": this version cannot go on without it";
  if (leader_) return leader_->lost(peer, why);
  if (led) {
    lost_leader_ = true;
    return finish(Status::stopped(why));
  }
  // About to lead, but without a term: nobody else would end the run.
  if (leader_id() == self_) report_failure(Status::stopped(why));
}

void Peer::suspect_the_silent() {
  if (const auto silent = heartbeats_.suspect(now_s_)) {
    lost(silent->peer,
         format("peer %d has been silent for %.1f s", silent->peer.value, silent->since_s));
  }
}

void Peer::set_timer() {
  std::optional<double> due_s = heartbeats_.due_s();
  if (leader_ && leader_->gives_up_s()) {
    due_s = std::min(due_s.value_or(*leader_->gives_up_s()), *leader_->gives_up_s());
  }
  if (!due_s || due_s == timer_s_) return;
  timer_s_ = due_s;
  outbox_.act(SetTimer{*due_s});
}

PeerId Peer::leader_id() const {
  if (view_) return view_->leader();
  return roster_.all().front();
}

bool Peer::speaks() const {
  if (lost_leader_) return true;
  for (const PeerId peer : roster_.all()) {
    if (peer == self_) return true;
    if (std::find(lost_.begin(), lost_.end(), peer) == lost_.end()) return false;
  }
  return false;
}

Leader& Peer::leader() {
  SWARMPI_CHECK(leader_.has_value(), "only the leader is told this");
  return *leader_;
}

void Peer::finish(Status status) {
  if (done()) return;
  finished_ = std::move(status);
  outbox_.act(Finish{*finished_});
}

std::string Peer::waiting_for() const {
  std::string text = server_.activity();
  if (!view_) text = format("the first view of peer %d", leader_id().value);
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

}  // namespace swarmpi
