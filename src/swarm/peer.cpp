#include "swarm/peer.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
Peer::Peer(PeerId self, RunPlan plan, Roster roster, ResumeState resume)
    : self_(self),
      plan_(std::move(plan)),
      roster_(std::move(roster)),
      resume_(std::move(resume)),
      server_(self_, plan_, resume_, outbox_) {
  outbox_.set_incarnation(Incarnation(resume_.incarnation));
}

Actions Peer::handle(const Event& event, double now_s) {
  if (done()) return {};
  if (leader_) leader_->set_now(now_s);
  learn(event, now_s);  // 1. note what happened in the table, the ledger, the view
  if (!done()) {
    server_.start_job(now_s);      // 2. completed steps first, then backward, then forward
    server_.flush_report();        // 3. tell the leader
    if (leader_) leader_->lead();  // 4. issue, seal, commit, write down, end
  }
  return outbox_.take();
}

void Peer::learn(const Event& event, double now_s) {
  std::visit(Overloaded{
                 [&](const Started&) { start(); },
                 [&](const MessageArrived& arrived) { learn(arrived); },
                 [&](const JobFinished& job) { server_.finished(job, now_s); },
                 [&](const TermCreated& term) { take_the_lead(term, now_s); },
                 [&](const StageStored& part) { server_.stored(part); },
                 [&](const RecordDurable& record) { leader().durable(record); },
                 [&](const CheckpointDurable& checkpoint) { leader().durable(checkpoint); },
                 [&](const CompletionDurable& completion) { leader().durable(completion); },
                 [&](const StorageFailed& failure) {
                   if (leader_) return leader_->storage_failed(failure);
                   finish(failure.status);
                 },
                 [&](const StopRequested& stop) {
                   if (view_) return outbox_.send(view_->leader(), NoticeMessage{stop.why});
                   finish(Status::stopped(stop.why));
                 },
                 [&](const PeerLost& lost) {
                   finish(Status::failed(format("peer %d was lost", lost.peer.value)));
                 },
                 [&](const TimerDue&) {},
             },
             event);
}

void Peer::learn(const MessageArrived& arrived) {
  if (arrived.message.incarnation < Incarnation(resume_.incarnation)) return;
  const PeerId from = arrived.from;
  std::visit(Overloaded{
                 [&](const ViewMessage& m) {
                   view_ = m.view;
                   outbox_.set_view(m.view.number);
                   server_.adopt(m.view);
                 },
                 [&](const IssueMessage& m) { server_.receive(m, from); },
                 [&](const ForwardMessage& m) { server_.receive(m, from); },
                 [&](const BackwardMessage& m) { server_.receive(m, from); },
                 [&](const SealMessage& m) { server_.receive(m, from); },
                 [&](const CommitMessage& m) { server_.receive(m, from); },
                 [&](const CheckpointMessage& m) { server_.receive(m, from); },
                 [&](const ReportMessage& m) { leader().receive(m, from); },
                 [&](const SealAnswer& m) { leader().receive(m, from); },
                 [&](const ReducedMessage& m) { leader().receive(m, from); },
                 [&](const StageStoredMessage& m) { leader().receive(m, from); },
                 [&](const NoticeMessage& m) { leader().receive(m, from); },
                 [&](const EndMessage& m) {
                   finish(m.code == ExitStatus::good ? Status() : Status::error(m.code, m.why));
                 },
             },
             arrived.message.body);
}

// The live peer with the lowest id leads; it needs a term of its own before it says a word.
void Peer::start() {
  std::vector<PeerId> all = roster_.workers;
  all.insert(all.end(), roster_.spares.begin(), roster_.spares.end());
  if (*std::min_element(all.begin(), all.end()) == self_) {
    outbox_.act(CreateTerm{roster_.first_term});
  }
}

void Peer::take_the_lead(const TermCreated& term, double now_s) {
  if (!term.created) {
    return finish(Status::failed(format("another run writes to the same journal (term %lld exists)",
                                        static_cast<long long>(term.term.value))));
  }
  View view = deal_peers(roster_.workers, roster_.spares, plan_.stage_costs);
  view.number = {term.term, 1};
  leader_.emplace(self_, plan_, resume_, term.term, std::move(view), outbox_);
  leader_->set_now(now_s);
  leader_->begin();
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
  if (leader_) text += "; the leader waits for " + leader_->waiting_for();
  return text;
}

}  // namespace swarmpi
