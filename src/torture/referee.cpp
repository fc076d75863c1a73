#include "torture/referee.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/overloaded.hpp"
#include "torture/run_record.hpp"

namespace swarmpi {
namespace {

std::string name(const WorkId& work) {
  return fmt::format("{} microbatch {} of step {} in stage {}",
                     work.microbatch.purpose == Purpose::train ? "training" : "validation",
                     work.microbatch.index, work.microbatch.step.value, work.stage.value);
}

std::string name(Step step) { return fmt::format("step {}", step.value); }

std::string name(Step step, StageId stage) {
  return fmt::format("stage {}, step {}", stage.value, step.value);
}

StageId stage_of(const Job& job) {
  return std::visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                               [](const BackwardJob& j) { return j.work.stage; },
                               [](const auto& j) { return j.stage; }},
                    job);
}

// A repair that was planned because nothing had happened for long.
bool is_deadline_repair(const StoreRecord& record) {
  const auto* event = std::get_if<EventRow>(&record.row);
  return event != nullptr && event->kind == "repair" &&
         event->detail.rfind("at a deadline: ", 0) == 0;
}

// Rows of /steps and /validation, which a resumed run needs; others may be lost at the end of a
// run.
bool is_table_row(const StoreRecord& record) {
  return std::holds_alternative<StepRow>(record.row) ||
         std::holds_alternative<ValidationRow>(record.row);
}

}  // namespace

Referee::Referee(const RunPlan& plan, const InitialMembership& membership,
                 const ResumeState& resume, const VirtualDisk& disk)
    : plan_(plan),
      disk_(disk),
      first_view_(share(
          deal_peers(membership.workers, membership.spares, plan.stage_costs, plan.swarm.pins))),
      resumed_in_(resume.incarnation),
      incarnation_(resume.incarnation),
      resumed_from_(resume.step) {
  for (const PeerId peer : membership.all()) {
    living_.insert(peer);
    views_[peer] = first_view_;
    for (const StageId stage : first_view_->members().at(peer)) has_stage_.insert({peer, stage});
  }
}

void Referee::expect_newcomer(PeerId peer) {
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

void Referee::require(bool kept, const char* what, PeerId peer, const std::string& about) {
  if (kept || !violation_.empty()) return;
  violation_ = fmt::format("peer {}: {}: {}", peer.value, what, about);
}

// ---- Events

void Referee::happened(double, PeerId peer, const Event& event) {
  if (dead(peer)) return;  // or declared dead
  if (const auto* job = std::get_if<JobFinished>(&event)) return finished(peer, job->result);
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    const auto* view = std::get_if<ViewMessage>(&arrived->message.body);
    if (view != nullptr && view->restart) fall_back(peer, *view);
    if (view != nullptr) adopt_view(peer, *view);
  } else if (const auto* failed = std::get_if<KillFailed>(&event)) {
    unreachable_.insert(failed->peer);
  } else if (std::holds_alternative<StorageFailed>(event)) {
    storage_failed_ = true;
  } else if (std::holds_alternative<StopRequested>(event) ||
             std::holds_alternative<TermOver>(event)) {
    may_leave_.insert(peer);
    if (std::holds_alternative<TermOver>(event)) {
      outsiders_.insert(peer);
      // Storage has refused the rows that are not written yet: they are for whoever leads next.
      read_journal();
      rows_asked_[peer] = rows_written_by_[peer];
    }
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

void Referee::leave(PeerId peer) {
  require(may_leave_.contains(peer), "only peers that were asked to leave do so", peer, "");
  living_.erase(peer);
}

void Referee::adopt_view(PeerId peer, const ViewMessage& message) {
  ViewRef& newest = views_.try_emplace(peer, no_view()).first->second;
  if (message.view->number <= newest->number) return;
  newest = message.view;
  for (const auto* who : {&newest->members(), &newest->learners()}) {
    const auto mine = who->find(peer);
    if (mine == who->end()) continue;
    for (const StageId stage : mine->second) has_stage_.insert({peer, stage});
  }
}

// What was committed after that step is done again, with the same results.
void Referee::fall_back(PeerId peer, const ViewMessage& message) {
  const Incarnation incarnation(message.restart->state.incarnation);
  const Step step(message.restart->state.step);
  Incarnation& own = incarnations_.try_emplace(peer, resumed_in_).first->second;
  if (incarnation <= own) return;
  own = incarnation;
  history_start_[peer] = step;
  commit_known_[peer] = step;
  // A new leader may reuse the number of a fallback that no live peer knows of; and a newcomer may
  // be told of an old one.
  if (message.restart == fallback_) return;
  fallback_ = message.restart;
  incarnation_ = incarnation;
  work_.restarted(step);
  in_flight_.clear();
}

// A newcomer is a member once it sends a table or a view: it has adopted or made a view. Receiving
// one is not enough, for it may be of a leader that the newcomer knows to be dead.
void Referee::admit(PeerId peer, const Action& action) {
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

// A hash of 0 is that of a tensor that a learner does not have yet.
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
    require(false, "updates are applied in order", peer, name(result.step, result.stage));
  }
  before->second = result.step;
  const auto [first, fresh] = states_.try_emplace({result.step, result.stage}, result);
  if (!fresh && !ignores_state_differences_ &&
      !agree(first->second.tensor_hashes, result.tensor_hashes)) {
    require(false, "replicas agree on the state", peer, name(result.step, result.stage));
  }
}

// ---- Actions

void Referee::asked(double now_s, PeerId peer, const Action& action) {
  if (dead(peer)) return check_declared_dead(now_s, peer, action);
  if (!outsiders_.empty()) admit(peer, action);
  std::visit(Overloaded{
                 [&](const Send& a) { sends(peer, a); },
                 [&](const StartJob& a) { started(peer, a.job); },
                 [&](const KillPeer& a) {
                   require(is_suspect(now_s, a.peer), "only silent peers are killed", peer,
                           fmt::format("peer {}", a.peer.value));
                 },
                 [&](const StoreStage& a) { stores(peer, a); },
                 [&](const LoadStage& a) {
                   loading_[{peer, a.stage}] = applied_[{peer, a.stage}] = a.step;
                 },
                 [&](const StoreRecord& a) {
                   rows_asked_[peer] += is_table_row(a);
                   require(!is_deadline_repair(a) || somebody_was_silent(now_s),
                           "no work is lost without a death that was noticed", peer,
                           "repairs were planned at a deadline");
                 },
                 [&](const Finish& a) { finishes(peer, a.status); },
                 [](const auto&) {},
             },
             action);
}

void Referee::started(PeerId peer, const Job& job) {
  ++jobs_;
  if (!computing_.insert(peer).second) require(false, "one job at a time", peer, "another began");
  if (!has_stage_.contains({peer, stage_of(job)})) {
    require(false, "only replicas and learners of a stage do its jobs", peer,
            fmt::format("a job of stage {}", stage_of(job).value));
  }
  if (const auto* apply = std::get_if<ApplyJob>(&job)) {
    const Held held{peer, apply->stage};
    applying_.insert(held);
    knows_commit(peer, apply->record->step);
    if (storing_.contains(held)) {
      require(false, "nothing is applied to a state that is being written", peer,
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
    require(false, "no pass is repeated without need", peer, name(work));
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
    require(false, "a checkpoint holds the state of its step", peer, name(store.step, store.stage));
  }
}

void Referee::sends(PeerId peer, const Send& send) {
  if (const auto* issue = std::get_if<IssueMessage>(&send.message.body)) {
    const bool fresh = issued_.insert({send.message.incarnation, issue->microbatch}).second;
    if (!fresh) return;  // a repair
    in_flight_[peer].insert(issue->microbatch);
    const auto in_flight = static_cast<std::int64_t>(in_flight_[peer].size());
    if (in_flight > plan_.window) {
      require(false, "the window bounds the microbatches in flight", peer,
              fmt::format("{} are", in_flight));
    }
  } else if (const auto* message = std::get_if<ViewMessage>(&send.message.body)) {
    const ViewNumber& number = message->view->number;
    const auto leader = leaders_.find(number.term);
    const bool leads = leader != leaders_.end() && leader->second == peer;
    require(leads, "a leader has a term of its own", peer,
            fmt::format("it has not created term {}", number.term.value));
    if (number > newest_->number) {
      work_.planned();
      newest_ = message->view;
    }
    adopt_view(peer, *message);
    if (!leaving_ && !ended_.contains(send.to)) views_sent_[{peer, send.to}] = number;
  } else if (const auto* commit = std::get_if<CommitMessage>(&send.message.body)) {
    announces(peer, *commit);
  } else if (const auto* lost = std::get_if<LostMessage>(&send.message.body)) {
    if (lost->peer == peer) leave(peer);
  } else if (std::holds_alternative<ExitMessage>(send.message.body)) {
    leaving_ = true;
  }
}

// A new leader announces the commits that it found, and decides again those that no live peer knew.
void Referee::announces(PeerId peer, const CommitMessage& commit) {
  const Step step = commit.record->step;
  knows_commit(peer, step);
  const auto [known, fresh] = commits_.try_emplace(step, commit.record);
  if (!fresh && known->second != commit.record) {
    const std::string unequal = difference(*known->second, *commit.record);
    if (!unequal.empty()) require(false, "a step is committed once", peer, unequal);
  }
  read_journal();
  for (std::int64_t row = resumed_from_.value + 1; row <= commit.written.value; ++row) {
    if (rows_written_.contains(row)) continue;
    require(false, "a row is durable before it counts as written", peer, name(Step(row)));
  }
  if (commit.checkpointed <= resumed_from_) return;
  const auto& all = disk_.checkpoints;
  const bool stored = std::any_of(all.begin(), all.end(), [&](const auto& checkpoint) {
    return checkpoint.state.step >= commit.checkpointed.value;
  });
  if (!stored) {
    require(false, "a checkpoint is durable before it counts", peer, name(commit.checkpointed));
  }
}

void Referee::read_journal() {
  for (; journal_read_ < disk_.journal.size(); ++journal_read_) {
    const VirtualDisk::Entry& entry = disk_.journal[journal_read_];
    rows_written_by_[entry.writer] += is_table_row(entry.record);
    if (const auto* row = std::get_if<StepRow>(&entry.record.row)) rows_written_.insert(row->step);
  }
}

bool Referee::known_to_others(PeerId peer) const {
  return std::any_of(views_.begin(), views_.end(), [&](const auto& known) {
    const auto& [other, view] = known;
    const bool goes_on = other != peer && !dead(other) && !ended_.contains(other);
    return goes_on && view->contains(peer);
  });
}

void Referee::finishes(PeerId peer, const Status& status) {
  ended_[peer] = status;
  const bool last = std::all_of(living_.begin(), living_.end(), [this](PeerId other) {
    return ended_.contains(other) || outsiders_.contains(other);
  });
  if (cut_off(status) && (last || disk_.ended)) outsiders_.insert(peer);  // it found no run, either
  // Peers that could have answered may have ended as cut off.
  const bool is_alone = !known_to_others(peer) || somebody_was_cut_off();
  if (found_no_run(status) && is_alone) outsiders_.insert(peer);
  // The others may repair what it did, as after its death.
  if (cut_off(status)) work_.died(peer, false, last_commit());
  if (outsiders_.contains(peer) || cut_off(status) || lost_its_disk(status)) return;
  if (status.code() == ExitStatus::good && !disk_.complete()) {
    require(false, "nobody finishes before completion is durable", peer, "finished");
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
    require(false, "nobody stops before journal and checkpoint are durable", peer, "finished");
  }
}

// ---- Silence
// Who may be taken for dead, and what those must not do who were, and live.

namespace {

bool says_that_another_writes(const Status& status) {
  return status.message().rfind("another run writes", 0) == 0;
}

}  // namespace

// A live peer that was declared dead: what it does must be harmless.
void Referee::check_declared_dead(double now_s, PeerId peer, const Action& action) {
  if (const auto* kill = std::get_if<KillPeer>(&action)) {
    require(is_suspect(now_s, kill->peer), "only silent peers are killed", peer,
            fmt::format("peer {}", kill->peer.value));
  } else if (const auto* finish = std::get_if<Finish>(&action)) {
    const bool as_all_others = disk_.ended && disk_.ended->code == finish->status.code();
    const bool harmless = as_all_others || finish->status.code() == ExitStatus::stopped ||
                          (finish->status.ok() && may_leave_.contains(peer)) ||
                          says_that_another_writes(finish->status);
    require(harmless, "a peer that was declared dead ends without harm", peer,
            finish->status.message());
  } else if (const auto* send = std::get_if<Send>(&action)) {
    if (const auto* issue = std::get_if<IssueMessage>(&send->message.body)) {
      issued_.insert({send->message.incarnation, issue->microbatch});
    }
    const auto* commit = std::get_if<CommitMessage>(&send->message.body);
    const auto known = commit == nullptr ? commits_.end() : commits_.find(commit->record->step);
    if (known == commits_.end()) return;
    const std::string unequal = difference(*known->second, *commit->record);
    require(unequal.empty(), "a step is committed once", peer, unequal);
  }
}

bool Referee::is_suspect(double now_s, PeerId peer) const {
  if (ended_.contains(peer) || dead(peer)) return true;
  const auto silences = silences_.find(peer);
  if (silences == silences_.end()) return false;
  const double patience_s = plan_.swarm.suspect_after_s;
  return std::any_of(silences->second.begin(), silences->second.end(), [&](const Silence& silence) {
    const bool long_enough = std::min(silence.until_s, now_s) - silence.from_s > patience_s / 3;
    return long_enough && now_s < silence.until_s + 1.1 * patience_s;
  });
}

bool Referee::somebody_was_silent(double now_s) const {
  const double longest_s = 4.1 * plan_.swarm.suspect_after_s;
  return std::any_of(silences_.begin(), silences_.end(), [&](const auto& of_peer) {
    return std::any_of(of_peer.second.begin(), of_peer.second.end(),
                       [&](const Silence& silence) { return now_s < silence.until_s + longest_s; });
  });
}

// ---- The end of the run
// What must hold once each peer has finished or is dead.

bool Referee::found_no_run(const Status& status) {
  return status.message().rfind("there is no run to join", 0) == 0;
}

bool Referee::lost_its_disk(const Status& status) {
  return status.message().find("space left") != std::string::npos ||
         status.message().find("output error") != std::string::npos;
}

bool Referee::cut_off(const Status& status) {
  return status.message().find("cannot be killed") != std::string::npos ||
         status.message().find("stopped for too long") != std::string::npos;
}

Step Referee::last_commit() const {
  Step last = resumed_from_;
  for (const auto& [peer, step] : commit_known_) {
    const auto lives_in = incarnations_.find(peer);
    const bool left_behind =
        (lives_in == incarnations_.end() ? resumed_in_ : lives_in->second) < incarnation_;
    const bool counts = !dead(peer) && !outsiders_.contains(peer);
    if (counts && !left_behind) last = std::max(last, step);
  }
  return last;
}

bool Referee::stage_was_lost() const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const std::vector<PeerId> replicas = first_view_->replicas(StageId(s));
    const auto is_dead = [this](PeerId peer) { return dead(peer); };
    if (std::all_of(replicas.begin(), replicas.end(), is_dead)) return true;
  }
  return false;
}

std::string Referee::at_the_end(const VirtualWorld& world) const {
  if (!violation_.empty()) return violation_;
  if (!world.all_done()) {
    return fmt::format("stalled after {} events at {:.6f} s:\n{}", world.events(), world.now_s(),
                       world.waiting_for());
  }
  if (ended_.empty()) return "";  // all are dead
  if (std::string wrong = statuses(); !wrong.empty()) return wrong;
  if (std::string wrong = too_much_work(); !wrong.empty()) return wrong;
  if (std::string wrong = leftovers(world); !wrong.empty()) return wrong;
  if (commits_.empty()) return "";  // stopped before the first commit
  if (std::string wrong = undelivered_views(); !wrong.empty()) return wrong;
  const bool good = std::all_of(ended_.begin(), ended_.end(),
                                [](const auto& ended) { return ended.second.ok(); });
  return good ? unapplied_commits() : "";
}

std::string Referee::statuses() const {
  const auto found = std::find_if(ended_.begin(), ended_.end(), [](const auto& ended) {
    return !found_no_run(ended.second) && !cut_off(ended.second);
  });
  if (found == ended_.end()) return "";
  const auto& [leader, first] = *found;
  // An end that could not be stored does not bind newcomers: one that the ending leader did not
  // know may take the run up, and complete it.
  std::optional<Status> taken_up;
  if (storage_failed_ && !leaders_.empty()) {
    const PeerId last = leaders_.rbegin()->second;
    if (!first_view_->contains(last) && ended_.contains(last)) taken_up = ended_.at(last);
  }
  for (const auto& [peer, status] : ended_) {
    if (outsiders_.contains(peer) || found_no_run(status) || cut_off(status)) continue;
    if (status.code() == first.code() && status.message() == first.message()) continue;
    if (taken_up && status.code() == taken_up->code()) continue;
    return fmt::format("peer {} ended with status {} ({}), peer {} with {} ({})", peer.value,
                       static_cast<int>(status.code()), status.message(), leader.value,
                       static_cast<int>(first.code()), first.message());
  }
  return "";
}

bool Referee::somebody_was_cut_off() const {
  return std::any_of(ended_.begin(), ended_.end(), [this](const auto& ended) {
    return cut_off(ended.second) && !outsiders_.contains(ended.first);
  });
}

std::string Referee::undelivered_views() const {
  for (const auto& [pair, number] : views_sent_) {
    const auto& [from, to] = pair;
    if (from == to || dead(from) || dead(to)) continue;
    if (unreachable_.contains(to)) continue;
    if (cut_off(ended_.at(from)) || cut_off(ended_.at(to))) continue;
    if (outsiders_.contains(to) || views_.at(to)->number >= number) continue;
    return fmt::format("peer {} has not received the last view of peer {}", to.value, from.value);
  }
  return "";
}

std::string Referee::unapplied_commits() const {
  const Step last = last_commit();
  for (const PeerId peer : members()) {
    // A peer that has left may not know of the last commit.
    const auto serves = newest_->members().find(peer);
    if (serves == newest_->members().end()) continue;
    for (const StageId stage : serves->second) {
      const auto found = applied_.find({peer, stage});
      const Step step = found == applied_.end() ? resumed_from_ : found->second;
      // A run that is complete after a fallback does not wait until all stages are loaded.
      const auto begins = history_start_.find(peer);
      if (step == last || (begins != history_start_.end() && begins->second == last)) continue;
      return fmt::format("peer {} ended with step {} of stage {} applied; step {} is committed",
                         peer.value, step.value, stage.value, last.value);
    }
  }
  return "";
}

std::string Referee::leftovers(const VirtualWorld& world) const {
  for (const auto& [peer, status] : ended_) {
    if (dead(peer) || world.dead(peer)) continue;
    if (std::string what = world.peer(peer).left_over(); !what.empty()) {
      return fmt::format("peer {} still holds {}", peer.value, what);
    }
  }
  return "";
}

// A death can undo all open steps; what a death just before it has undone is counted with it.
std::string Referee::too_much_work() const {
  const std::int64_t steps = 2 * plan_.delay() * plan_.stages();
  const std::int64_t backward = steps * plan_.train.microbatches;
  const std::int64_t forward = backward + steps * plan_.validation_microbatches;
  for (const DeathCost& death : deaths()) {
    if (death.repeated <= backward && death.forward_again <= forward) continue;
    return fmt::format(
        "after the death of peer {} {} backward and {} forward passes were repeated, of {} and {} "
        "in the open steps",
        death.peer.value, death.repeated, death.forward_again, backward, forward);
  }
  return "";
}

}  // namespace swarmpi
