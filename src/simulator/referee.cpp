#include "simulator/referee.hpp"

#include <algorithm>
#include <utility>

#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "simulator/story.hpp"

namespace swarmpi {
namespace {

std::string name(const WorkId& work) {
  return format("%s microbatch %d of step %lld in stage %d",
                work.microbatch.purpose == Purpose::train ? "training" : "validation",
                work.microbatch.index, static_cast<long long>(work.microbatch.step.value),
                work.stage.value);
}

std::string name(Step step) { return format("step %lld", static_cast<long long>(step.value)); }

std::string name(Step step, StageId stage) {
  return format("stage %d, ", stage.value) + name(step);
}

StageId stage_of(const Job& job) {
  return std::visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                               [](const BackwardJob& j) { return j.work.stage; },
                               [](const auto& j) { return j.stage; }},
                    job);
}

// A plan that was made because nothing had come for long.
bool is_of_a_deadline(const StoreRecord& record) {
  const auto* event = std::get_if<EventRow>(&record.row);
  return event != nullptr && event->kind == "repair" &&
         event->detail.rfind("at a deadline: ", 0) == 0;
}

// Rows that a run resumes from; events and the like may be lost at its end.
bool is_of_the_story(const StoreRecord& record) {
  return std::holds_alternative<StepRow>(record.row) ||
         std::holds_alternative<ValidationRow>(record.row);
}

}  // namespace

Referee::Referee(const RunPlan& plan, const Roster& roster, const ResumeState& resume,
                 const VirtualDisk& disk)
    : plan_(plan),
      disk_(disk),
      dealt_(deal_peers(roster.workers, roster.spares, plan.stage_costs, plan.swarm.pins)),
      resumed_in_(resume.incarnation),
      incarnation_(resume.incarnation),
      resumed_from_(resume.step) {
  for (const PeerId peer : roster.all()) {
    living_.insert(peer);
    views_[peer] = dealt_;
    for (const StageId stage : dealt_.members.at(peer)) has_stage_.insert({peer, stage});
  }
}

void Referee::comes(PeerId peer) {
  living_.insert(peer);
  outsiders_.insert(peer);
}

std::vector<PeerId> Referee::members() const {
  std::vector<PeerId> members;
  for (const PeerId peer : living_) {
    if (!outsiders_.contains(peer)) members.push_back(peer);
  }
  return members;
}

void Referee::rule(bool kept, const char* what, PeerId peer, const std::string& about) {
  if (kept || !breach_.empty()) return;
  breach_ = format("peer %d: ", peer.value) + what + ": " + about;
}

// ---- Events

void Referee::happened(double, PeerId peer, const Event& event) {
  if (dead(peer)) return;  // as the others have been told
  if (const auto* job = std::get_if<JobFinished>(&event)) return finished(peer, job->result);
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    const auto* view = std::get_if<ViewMessage>(&arrived->message.body);
    if (view != nullptr && view->restart) goes_back(peer, *view);
    if (view != nullptr) adopts(peer, *view);
  } else if (const auto* failed = std::get_if<KillFailed>(&event)) {
    unreachable_.insert(failed->peer);
  } else if (std::holds_alternative<StorageFailed>(event)) {
    storage_failed_ = true;
  } else if (std::holds_alternative<StopRequested>(event) ||
             std::holds_alternative<TermOver>(event)) {
    may_leave_.insert(peer);
    if (std::holds_alternative<TermOver>(event)) outsiders_.insert(peer);
  } else if (const auto* loaded = std::get_if<StageLoaded>(&event)) {
    const Held held{peer, loaded->stage};
    applied_[held] = loading_[held];
    applying_.erase(held);
  } else if (const auto* stored = std::get_if<StageStored>(&event)) {
    storing_.erase({peer, stored->stage});
  } else if (const auto* term = std::get_if<TermCreated>(&event)) {
    if (term->created) leaders_[term->term] = peer;
    if (term->ended) outsiders_.insert(peer);  // it comes too late
  }
}

void Referee::died(double, PeerId peer) {
  const bool led = *living_.begin() == peer;
  living_.erase(peer);
  work_.died(peer, led, last_commit());
  const auto of_peer = [peer](const Held& held) { return held.first == peer; };
  computing_.erase(peer);
  std::erase_if(applying_, of_peer);
  std::erase_if(storing_, of_peer);
}

void Referee::leaves(PeerId peer) {
  rule(may_leave_.contains(peer), "only those leave who were asked to", peer, "");
  living_.erase(peer);
}

void Referee::adopts(PeerId peer, const ViewMessage& message) {
  View& newest = views_[peer];
  if (message.view.number <= newest.number) return;
  newest = message.view;
  for (const auto* who : {&newest.members, &newest.learners}) {
    const auto mine = who->find(peer);
    if (mine == who->end()) continue;
    for (const StageId stage : mine->second) has_stage_.insert({peer, stage});
  }
}

// What was committed after that step is done again, and comes to the same.
void Referee::goes_back(PeerId peer, const ViewMessage& message) {
  const Incarnation incarnation(message.restart->state.incarnation);
  const Step step(message.restart->state.step);
  Incarnation& own = incarnations_.try_emplace(peer, resumed_in_).first->second;
  if (incarnation <= own) return;
  own = incarnation;
  begins_at_[peer] = step;
  commit_known_[peer] = step;
  // The next leader may number one alike of which nobody alive has heard; or tell a newcomer of an
  // old one.
  if (message.restart == went_back_to_) return;
  went_back_to_ = message.restart;
  incarnation_ = incarnation;
  work_.restarted(step);
  in_flight_.clear();
}

// Whoever has adopted a view, or made one, was let in; one of a leader that it knows to be dead may
// come, and changes nothing.
void Referee::lets_in(PeerId peer, const Action& action) {
  const auto* send = std::get_if<Send>(&action);
  if (send == nullptr) return;
  const MessageBody& body = send->message.body;
  const bool in_a_view =
      std::holds_alternative<TableMessage>(body) || std::holds_alternative<ViewMessage>(body);
  if (in_a_view) joined_ += static_cast<std::int64_t>(outsiders_.erase(peer));
}

void Referee::knows_commit(PeerId peer, Step step) {
  Step& last = commit_known_.try_emplace(peer, resumed_from_).first->second;
  last = std::max(last, step);
}

void Referee::finished(PeerId peer, const JobResult& result) {
  computing_.erase(peer);
  const auto through = [this](const MicrobatchId& microbatch) {
    for (auto& [leader, in_flight] : in_flight_) in_flight.erase(microbatch);
  };
  if (const auto* pass = std::get_if<BackwardResult>(&result)) {
    if (pass->work.stage.value == 0) through(pass->work.microbatch);
  } else if (const auto* forward = std::get_if<ForwardResult>(&result)) {
    if (forward->work.stage.value + 1 == plan_.stages()) through(forward->work.microbatch);
  } else if (const auto* apply = std::get_if<ApplyResult>(&result)) {
    applied(peer, *apply);
  }
}

namespace {

// 0: a tensor that a learner has not yet.
bool agree(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != 0 && b[i] != 0 && a[i] != b[i]) return false;
  }
  return a.size() == b.size();
}

}  // namespace

void Referee::applied(PeerId peer, const ApplyResult& result) {
  const Held held{peer, result.stage};
  applying_.erase(held);
  const auto before = applied_.try_emplace(held, resumed_from_).first;
  if (before->second.next() != result.step) {
    rule(false, "updates are applied in order", peer, name(result.step, result.stage));
  }
  before->second = result.step;
  const auto [first, fresh] = states_.try_emplace({result.step, result.stage}, result);
  if (!fresh && !overlooks_states_ && !agree(first->second.tensor_hashes, result.tensor_hashes)) {
    rule(false, "replicas agree on the state", peer, name(result.step, result.stage));
  }
}

// ---- Actions

void Referee::asked(double now_s, PeerId peer, const Action& action) {
  if (dead(peer)) return forgotten(now_s, peer, action);
  if (!outsiders_.empty()) lets_in(peer, action);
  std::visit(Overloaded{
                 [&](const Send& a) { sends(peer, a); },
                 [&](const StartJob& a) { started(peer, a.job); },
                 [&](const KillPeer& a) {
                   rule(is_suspect(now_s, a.peer), "nobody is killed who is not silent", peer,
                        format("peer %d", a.peer.value));
                 },
                 [&](const StoreStage& a) { stores(peer, a); },
                 [&](const LoadStage& a) {
                   loading_[{peer, a.stage}] = applied_[{peer, a.stage}] = a.step;
                 },
                 [&](const StoreRecord& a) {
                   rows_asked_[peer] += is_of_the_story(a);
                   rule(!is_of_a_deadline(a) || somebody_was_silent(now_s),
                        "nothing is lost that nobody noticed", peer, "planned at a deadline");
                 },
                 [&](const Finish& a) { finishes(peer, a.status); },
                 [](const auto&) {},
             },
             action);
}

void Referee::started(PeerId peer, const Job& job) {
  ++jobs_;
  if (!computing_.insert(peer).second) rule(false, "one job at a time", peer, "another began");
  if (!has_stage_.contains({peer, stage_of(job)})) {
    rule(false, "work is done by those whose stage it is", peer,
         format("a job of stage %d", stage_of(job).value));
  }
  if (const auto* apply = std::get_if<ApplyJob>(&job)) {
    const Held held{peer, apply->stage};
    applying_.insert(held);
    knows_commit(peer, apply->record->step);
    if (storing_.contains(held)) {
      rule(false, "nothing is applied to a state that is being written", peer,
           name(apply->record->step, apply->stage));
    }
    return;
  }
  if (const auto* write = std::get_if<WriteJob>(&job)) knows_commit(peer, write->step);
  if (const auto* prepare = std::get_if<PrepareJob>(&job)) {
    applied_[{peer, prepare->stage}] = prepare->step;
    return;
  }
  const auto begin = [&](const WorkId& work, WorkCount::Pass pass) {
    if (work_.begin(peer, work, pass)) return;
    rule(false, "no pass is repeated without need", peer, name(work));
  };
  if (const auto* j = std::get_if<ForwardJob>(&job)) begin(j->work, WorkCount::Pass::forward);
  if (const auto* j = std::get_if<BackwardJob>(&job)) begin(j->work, WorkCount::Pass::backward);
}

void Referee::stores(PeerId peer, const StoreStage& store) {
  const Held held{peer, store.stage};
  storing_.insert(held);
  const auto applied = applied_.find(held);
  const Step stands_at = applied == applied_.end() ? resumed_from_ : applied->second;
  if (stands_at != store.step || applying_.contains(held)) {
    rule(false, "a checkpoint holds the state of its step", peer, name(store.step, store.stage));
  }
}

void Referee::sends(PeerId peer, const Send& send) {
  if (const auto* issue = std::get_if<IssueMessage>(&send.message.body)) {
    const bool fresh = issued_.insert({send.message.incarnation, issue->microbatch}).second;
    if (!fresh) return;  // a repair
    in_flight_[peer].insert(issue->microbatch);
    const auto in_flight = static_cast<std::int64_t>(in_flight_[peer].size());
    if (in_flight > plan_.window) {
      rule(false, "the window bounds the microbatches in flight", peer,
           format("%lld are", static_cast<long long>(in_flight)));
    }
  } else if (const auto* message = std::get_if<ViewMessage>(&send.message.body)) {
    const ViewNumber& number = message->view.number;
    const auto leader = leaders_.find(number.term);
    const bool leads = leader != leaders_.end() && leader->second == peer;
    rule(leads, "a leader has a term of its own", peer,
         format("it has not created term %lld", static_cast<long long>(number.term.value)));
    if (number > newest_.number) {
      work_.planned();
      newest_ = message->view;
    }
    adopts(peer, *message);
    if (!leaving_ && !ended_.contains(send.to)) views_sent_[{peer, send.to}] = number;
  } else if (const auto* commit = std::get_if<CommitMessage>(&send.message.body)) {
    announces(peer, *commit);
  } else if (const auto* lost = std::get_if<LostMessage>(&send.message.body)) {
    if (lost->peer == peer) leaves(peer);
  } else if (std::holds_alternative<LeaveMessage>(send.message.body)) {
    leaving_ = true;
  }
}

// Another leader announces what it found, or decides again what nobody alive had heard of.
void Referee::announces(PeerId peer, const CommitMessage& commit) {
  const Step step = commit.record->step;
  knows_commit(peer, step);
  const auto [known, fresh] = commits_.try_emplace(step, commit.record);
  if (!fresh && known->second != commit.record) {
    const std::string unequal = difference(*known->second, *commit.record);
    if (!unequal.empty()) rule(false, "a step is committed once", peer, unequal);
  }
  read_journal();
  for (std::int64_t row = resumed_from_.value + 1; row <= commit.written.value; ++row) {
    if (rows_written_.contains(row)) continue;
    rule(false, "a row is durable before it counts as written", peer, name(Step(row)));
  }
  if (commit.checkpointed <= resumed_from_) return;
  const auto& all = disk_.checkpoints;
  const bool stored = std::any_of(all.begin(), all.end(), [&](const auto& checkpoint) {
    return checkpoint.state.step >= commit.checkpointed.value;
  });
  if (!stored) {
    rule(false, "a checkpoint is durable before it counts", peer, name(commit.checkpointed));
  }
}

void Referee::read_journal() {
  for (; journal_read_ < disk_.journal.size(); ++journal_read_) {
    const VirtualDisk::Entry& entry = disk_.journal[journal_read_];
    rows_written_by_[entry.writer] += is_of_the_story(entry.record);
    if (const auto* row = std::get_if<StepRow>(&entry.record.row)) rows_written_.insert(row->step);
  }
}

bool Referee::known_to_others(PeerId peer) const {
  return std::any_of(views_.begin(), views_.end(), [&](const auto& known) {
    const auto& [other, view] = known;
    const bool goes_on = other != peer && !dead(other) && !ended_.contains(other);
    return goes_on && view.members.contains(peer);
  });
}

void Referee::finishes(PeerId peer, const Status& status) {
  ended_[peer] = status;
  const bool last = std::all_of(living_.begin(), living_.end(), [this](PeerId other) {
    return ended_.contains(other) || outsiders_.contains(other);
  });
  if (cut_off(status) && (last || disk_.ended)) outsiders_.insert(peer);  // it found nobody, too
  // Those who could have answered may have given the run up, over a link that was cut.
  const bool is_alone = !known_to_others(peer) || somebody_was_cut_off();
  if (found_nobody(status) && is_alone) outsiders_.insert(peer);
  // Others may go on without it, once somebody has seen to it that it is gone.
  if (cut_off(status)) work_.died(peer, false, last_commit());
  if (outsiders_.contains(peer) || cut_off(status) || lost_its_disk(status)) return;
  if (status.code() == ExitStatus::good && !disk_.complete()) {
    rule(false, "nobody finishes before completion is durable", peer, "finished");
  }
  if (status.code() != ExitStatus::stopped) return;
  read_journal();
  const bool journaled =
      std::all_of(rows_asked_.begin(), rows_asked_.end(), [this](const auto& asked) {
        return dead(asked.first) || rows_written_by_[asked.first] >= asked.second;
      });
  const bool saved =
      last_commit() == resumed_from_ ||
      (disk_.newest() != nullptr && disk_.newest()->state.step >= last_commit().value);
  if (!journaled || !saved) {
    rule(false, "nobody stops before journal and checkpoint are durable", peer, "finished");
  }
}

}  // namespace swarmpi
