#include "protocol/leader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/check.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/method/room_layout.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {
namespace {

// A table round begins when nothing has come for so many times suspect_after_s. A peer that is
// silent is suspected long before; this is for a loss that nobody has noticed.
constexpr double kDeadlineFactor = 4;

constexpr const char* kTaskNames[] = {"job", "storage", "load"};

}  // namespace

// ---- Beginning

Leader::History::History(const RunPlan& plan, const CommitLog& log, std::unique_ptr<Router> router,
                         const SealId& first_seal)
    : commit_log(log),
      steps(plan, std::move(router), log.committed(), first_seal),
      agreement(plan, log.committed()),
      checkpoint_rounds(plan) {}

Leader::Leader(PeerId self, const RunPlan& plan, const CommitLog& commit_log, Succession succession,
               const Outbox& outbox, const FailureDetector& failure_detector, const double& now_s)
    : self_(self),
      plan_(plan),
      outbox_(outbox.beside()),
      failure_detector_(failure_detector),
      view_(std::move(succession.view)),
      takes_over_(succession.takes_over),
      history_(plan, commit_log, make_router(plan.swarm, self, StageId(0)),
               {Incarnation(commit_log.state().incarnation), succession.term, 1}),
      time_offset_s_(takes_over_
                         ? std::max(succession.run_time_ahead_s, commit_log.state().time_s - now_s)
                         : commit_log.state().time_s),
      now_s_(now_s),
      run_rows_(plan, commit_log.state().time_s),
      lives_(succession.run),
      run_ending_(plan.recovers),
      interval_(plan, commit_log.state().time_s),
      round_(succession.leaderless_since_s),
      deadline_(kDeadlineFactor * plan.swarm.suspect_after_s, now_s),
      restart_(std::move(succession.restart)),
      learners_(plan, succession.workers, succession.highest_id_at_start),
      moves_(plan.torture_only.moves),
      rebalancing_(plan, now_s),
      newcomers_(succession.peers, now_s),
      late_(plan) {
  view_.number = {succession.term, 0};
  const auto& faults = plan_.faults_by_clock;
  const double last_s = commit_log.state().time_s;  // none was made known since
  while (next_fault_ < faults.size() && faults[next_fault_].time_s < last_s) ++next_fault_;
  // Of which deaths the leader before knew is not known: it may have taken the dead out of the
  // view.
  if (takes_over_ && !succession.nothing_was_lost) break_pipelines("the leader before is gone");
  if (const auto& went = succession.gave_itself_up) late_.gave_itself_up(went->first, went->second);
}

void Leader::begin(const std::map<PeerId, Gone>& gone) {
  publish_view();
  const std::int64_t step = committed().value;
  if (committed().value >= 0 && !takes_over_) {
    store_event(EventKind::resume, step, 0, fmt::format("continues after step {}", step));
  }
  for (const auto& [peer, fate] : gone) {
    const auto& [how, suspicion, obituary] = fate;
    const bool left = how == DepartureKind::left;
    const bool led = peer == gone.begin()->first && peer < self_;
    std::string what =
        led ? fmt::format("the leader {}; peer {} has taken over", left ? "left" : "was lost",
                          self_.value)
            : fmt::format("{} before peer {} began to lead", left ? "left" : "lost", self_.value);
    if (!obituary.empty()) what += "; it gave itself up: " + obituary;
    // What it has told only itself is lost with the leader before.
    lives_.joined(peer, history_.commit_log.state().time_s - time_offset_s_);
    end_life(peer, left ? &GoodputRow::idle_s : &GoodputRow::repeated_s);
    if (left) {
      store_peer_event(EventKind::leave, peer, {}, what);
    } else {
      store_death(peer, what, suspicion);
    }
  }
  std::string abstain;
  for (const PeerId peer : view_.abstaining()) abstain += fmt::format(" {}", peer.value);
  store_event(EventKind::leader, step, 0,
              fmt::format("term {}", view_.number.term.value) +
                  (abstain.empty() ? "" : "; storage hangs at peers" + abstain));
}

// ---- What peers report about the open steps

void Leader::receive(const ForwardDone& message, PeerId from) {
  history_.steps.router().measured(from, message.compute_s);
}

void Leader::receive(const ReportMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  history_.steps.enter(message, view_, from);
  for (const HashFact& fact : message.hashes) history_.agreement.enter(view_, fact, from);
  for (const UseFact& fact : message.uses) {
    history_.agreement.enter(fact);
    times_.enter(fact);
  }
  for (const GoodputRow& row : message.goodput) {
    lives_.enter(row, committed());
    lives_.told_until(from, now_s_);
  }
  for (const LoadFact& fact : message.loads) rebalancing_.enter(fact, from, now_s_);
}

void Leader::receive(const SealRefused& message, PeerId from) {
  const OpenStep* open = history_.steps.find(message.step);
  if (!open || !open->stands(message.stage, message.seal)) return;
  end(Status::failed(
      fmt::format("step {}, stage {}: peer {} has summed the gradients of microbatches {}, but "
                  "other microbatches were sealed; this is a bug of SwarMPI: please report it",
                  message.step.value, message.stage.value, from.value, message.carried.text())));
}

void Leader::receive(const ReducedMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  history_.steps.enter(message, view_, from);
}

void Leader::receive(const ChunkRefused& message, PeerId from) {
  deadline_.progress(now_s_);
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  OpenStep* open = history_.steps.find(message.step);
  if (!repairs_steps() || !open || !open->stands(message.stage, message.seal)) return;
  const std::int64_t microbatches = plan_.train_microbatches(message.step);
  const bool damaged = message.cover == Cover::of_step(message.step, microbatches);
  const std::string why =
      damaged ? "was damaged on its way"
              : fmt::format("was summed over {} microbatches instead of {}, or over other ones",
                            message.cover.microbatches, microbatches);
  reduce_again(*open, {message.stage, fmt::format("chunk {}, as it came to peer {}, {}",
                                                  message.chunk, from.value, why)});
}

void Leader::receive(const CollectiveWord& message, PeerId from) {
  if (message.news != CollectiveNews::ready) deadline_.progress(now_s_);
  if (run_ending_.decided() || !collectives_.enter(message, from)) return;
  OpenStep* open = history_.steps.find(message.step);
  if (!open || !open->stands(message.stage, message.seal)) return;
  if (message.news == CollectiveNews::over) {
    if (!repairs_steps()) return;
    return reduce_again(*open, {message.stage, fmt::format("its collective is over at peer {}: {}",
                                                           from.value, message.why)});
  }
  const std::vector<PeerId>& replicas = view_.replicas(message.stage);
  if (!collectives_.all_frozen(message.seal, replicas)) return;
  for (const PeerId peer : replicas) {
    outbox_.send(peer, EnterMessage{message.stage, message.seal});
  }
}

// ---- One round of decisions

// What a death has changed is known when all tables are here: until then nothing is sealed,
// committed or planned, but the peers whom it does not concern go on with what they have.
void Leader::lead() {
  if (plan_.torture_only.checks_counts) check_counts();
  help_own_storage();
  if (run_ending_.decided() || hands_over_) return;
  store_faults();
  rebalancing_.pass(now_s_, !history_.steps.empty());
  note_a_stop();
  if (round_.falling_back() || plan_again_at_deadline()) return;
  if (round_.gathering() && !finish_without_the_late()) return;
  begin_departures();
  help_the_late();
  if (run_ending_.decided()) return;
  if (somebody_came_back_ && !run_ending_.stop_requested()) return publish_view();
  agree_on_hashes();
  ask_for_owed_checkpoint();
  commit_reduced_steps();
  finish_validation_passes();
  store_validations();
  track_agreed_rows();
  if (!stopping()) seal_complete_steps();
  open_steps();
  issue();
  end_when_done();
  if (run_ending_.decided()) return;
  promote_learned();
  drop_slow_learners();
  assign_learners();
  spawn_newcomer();
  move_peers();
  rebalance();
  process_departures();
}

void Leader::check_counts() const {
  SWARMPI_CHECK(history_.steps.counts_hold(view_), "acknowledgements are counted as they are");
  SWARMPI_CHECK(history_.agreement.counts_hold(view_), "state hashes are counted as they are");
  SWARMPI_CHECK(learners_.counts_hold(view_), "peers that have joined are counted as they are");
}

std::string Leader::waiting_for() const {
  if (run_ending_.decided()) return run_ending_.waiting_for();
  if (round_.gathering()) return round_.waiting_for();
  if (round_.falling_back()) return "storage: the manifest of the newest checkpoint";
  if (const auto what = history_.steps.waiting_for()) return *what;
  if (const std::optional<Step> step = history_.agreement.awaited()) {
    return fmt::format("the state hashes of step {}", step->value);
  }
  if (const std::optional<Step> step = history_.checkpoint_rounds.awaited()) {
    return fmt::format("the checkpoint of step {}", step->value);
  }
  if (!run_rows_.all_durable()) return "storage: rows of the journal";
  return "nothing";
}

// ---- Open steps

void Leader::open_steps() {
  if (!stopping() && !leaves_a_pipeline()) history_.steps.open_due(committed(), now_s_);
}

void Leader::issue() {
  if (stopping()) return;
  for (OpenSteps::Issue& issue : history_.steps.issue(committed())) {
    outbox_.send(issue.to, std::move(issue.message));
  }
}

// ---- Seals

void Leader::seal_complete_steps() {
  for (const StepSeal& seal : history_.steps.seal(view_, now_s_, collectives_)) {
    for (const auto& [peer, stages] : view_.members()) {
      const bool takes_part = !stages.empty() || view_.learners().contains(peer);
      if (takes_part) outbox_.send(peer, seal.message_for(peer));
    }
  }
}

// ---- Commits

// In order of steps, and only when the state before is agreed on: so a checkpoint of that state can
// be asked for before anybody applies the next step.
void Leader::commit_reduced_steps() {
  while (!stopping() && history_.agreement.agreed() == committed() && !waits_for_a_checkpoint()) {
    const Step step = committed().next();
    OpenStep* open = history_.steps.find(step);
    if (!open || !open->facts() || !open->reduced_by_all(view_)) return;
    if (const auto doubt = open->disagreement()) return reduce_again(*open, *doubt);
    commit(step, *open);
    history_.steps.close(step);
  }
}

// A peer that had a share may be dead since: then a table round finds out what the sums lack.
void Leader::reduce_again(OpenStep& open, const OpenStep::Doubt& doubt) {
  const std::string what =
      fmt::format("step {}, stage {}: {}", open.step().value, doubt.stage.value, doubt.why);
  if (!open.reduce_again(doubt.stage)) {
    return end(Status::failed(what + ", though all was summed up again; nothing was committed: "
                                     "this is a fault of the memory or a bug of SwarMPI"));
  }
  store_event(EventKind::recount, open.step().value, 0, what + "; the sums are reduced once more");
  if (!open.ledger().covered(doubt.stage)) publish_view();
}

void Leader::commit(Step step, const OpenStep& open) {
  const CommitRef record = std::make_shared<const CommitRecord>(make_commit_record(
      plan_, open, history_.commit_log.state(), view_.number.term, run_time_s()));
  history_.commit_log.add(record);
  last_checkpoint_s_ = 0;
  if (record->skipped && step.value > 0) {
    std::string names;
    for (const std::int32_t id : open.facts()->flagged) names += " " + plan_.tensor_names.at(id);
    store_event(EventKind::skip, step.value, 0, "infinite, NaN or overflowing gradients:" + names);
  }
  for (const FaultAt& fault : plan_.faults_at) {
    if (fault.event != FaultEvent::flip || fault.step != step.value) continue;
    store(EventRow{run_time_s(), step.value, EventKind::flip, fault.peer, -1, 0,
                   "faults.at in the deck"});
  }
  await_agreement(record, now_s_ - open.sealed_at_s());
  send_all(CommitMessage{record, history_.commit_log.rows_written(),
                         history_.commit_log.checkpointed()});
}

void Leader::finish_validation_passes() {
  for (const auto& [step, loss] : history_.steps.close_validation_passes()) {
    add_validation(step, loss);
  }
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members()) outbox_.send(peer, body);
}

// ---- Agreement on state hashes

void Leader::await_agreement(const CommitRef& record, double seal_to_commit_s) {
  history_.agreement.await(record, seal_to_commit_s);
  if (plan_.validation_in(record->step) > 0) add_validation(record->step, record->validation_loss);
}

void Leader::agree_on_hashes() {
  while (true) {
    const Result<std::optional<AgreedStep>> decided = history_.agreement.decide(view_);
    if (!decided.ok()) return end(decided.status());
    if (!decided.value()) return;
    const AgreedStep& agreed = *decided.value();
    const Step step = agreed.record->step;
    history_.commit_log.agreed(agreed.state_hash);
    store_rows(agreed);
    history_.checkpoint_rounds.passed(step);
    if (interval_.due(step, agreed.record->time_s)) history_.checkpoint_rounds.owe();
  }
}

// ---- Rows

void Leader::store_rows(const AgreedStep& agreed) {
  for (RunRows::Row& row : run_rows_.of(agreed, history_.commit_log.state().incarnation, view_)) {
    store(std::move(row));
  }
  store_event(EventKind::commit, agreed.record->step.value, agreed.seal_to_commit_s, "");
}

void Leader::add_validation(Step step, double loss) {
  run_rows_.add_validation(step, {plan_.validated_step(step), loss, run_time_s()});
}

void Leader::store_validations() {
  for (const ValidationRow& row :
       run_rows_.take_validations(history_.agreement.agreed(), history_.steps.oldest())) {
    store(row);
  }
}

void Leader::track_agreed_rows() {
  run_rows_.all_stored(history_.agreement.agreed(), history_.commit_log.rows_written());
}

void Leader::receive(const RecordDurable& record) {
  const std::optional<Step> written = run_rows_.durable(record.number);
  if (written) history_.commit_log.written(*written, history_.commit_log.checkpointed());
}

void Leader::store(RunRows::Row row) {
  outbox_.act(run_rows_.numbered(std::move(row), lives_.take()));
}

void Leader::end_life(PeerId peer, double GoodputRow::*column) {
  lives_.end(peer, column, now_s_, committed(), history_.commit_log.state().incarnation);
}

// Of what they did for steps that are open nothing is left.
void Leader::end_lives(const Status& how) {
  const bool loses = !how.ok() && !history_.steps.empty();
  for (const auto& [peer, stages] : view_.members()) {
    const bool loses_work = loses && !stages.empty();
    lives_.end(peer, loses_work ? &GoodputRow::repeated_s : &GoodputRow::idle_s, now_s_,
               committed(), history_.commit_log.state().incarnation, last_checkpoint_s_);
  }
}

void Leader::store_event(EventKind kind, std::int64_t step, double cost_s, std::string detail) {
  store(EventRow{run_time_s(), step, kind, self_.value, -1, cost_s, std::move(detail)});
}

void Leader::store_peer_event(EventKind kind, PeerId peer, std::optional<StageId> stage,
                              std::string detail) {
  store(EventRow{run_time_s(), committed().value, kind, peer.value, stage ? stage->value : -1, 0,
                 std::move(detail)});
}

void Leader::store_death(PeerId peer, const std::string& how,
                         const std::optional<Suspicion>& suspicion) {
  if (!suspicion) return store_peer_event(EventKind::kill, peer, {}, how);
  store(EventRow{run_time_s(), committed().value, EventKind::suspect, peer.value, -1,
                 suspicion->silent_s, suspicion->why});
  store_peer_event(EventKind::kill, peer, {}, how + "; it was killed because " + suspicion->why);
}

// Of faults that are no deaths only the trace tells.
void Leader::store_faults() {
  while (next_fault_ < plan_.faults_by_clock.size()) {
    const TraceEvent& fault = plan_.faults_by_clock[next_fault_];
    if (fault.time_s > run_time_s()) return;
    ++next_fault_;
    if (const auto kind = value_named<EventKind>(name_of(fault.event))) {
      store(EventRow{fault.time_s, committed().value, *kind, fault.peer, -1, 0,
                     "faults.trace in the deck"});
    }
  }
}

// ---- Checkpoint rounds

bool Leader::owes_checkpoint() const {
  // Nobody holds the state of an earlier step any more: a dead leader has committed the next.
  const CheckpointRounds& rounds = history_.checkpoint_rounds;
  return rounds.owed() && history_.agreement.agreed() == committed() &&
         !rounds.is_written(committed());
}

bool Leader::waits_for_a_checkpoint() const {
  return owes_checkpoint() && plan_.checkpoint_due(committed()) &&
         !history_.checkpoint_rounds.has_room();
}

void Leader::ask_for_owed_checkpoint() {
  if (owes_checkpoint() && history_.checkpoint_rounds.has_room()) ask_for_checkpoint();
}

void Leader::ask_for_checkpoint() {
  const auto may = [this](PeerId peer, StageId stage) {
    return !history_.agreement.left_out(peer, stage);
  };
  const auto able = [&, unkillable = failure_detector_.unkillable()](PeerId peer, StageId) {
    return !late_.hangs(peer, Task::storage) && !unkillable.contains(peer);
  };
  // For the last checkpoint a disk that is slow may do, where all are. Any other is not worth what
  // the other stages would write for nothing.
  const bool last = stopping() || history_.steps.opened_all();
  const auto asked = [&](PeerId peer, StageId stage) {
    return may(peer, stage) && (last || able(peer, stage));
  };
  if (const auto stage = history_.checkpoint_rounds.lacks_writer(committed(), view_, asked)) {
    return drop_checkpoint(
        stage, fmt::format("{} it was tried{}", ending_words::kNobodyCanWrite, who_hangs(*stage)));
  }
  ask_for_parts(history_.checkpoint_rounds.begin(
      history_.commit_log.state(), history_.agreement.hashes(), view_, may, able, now_s_));
}

void Leader::drop_checkpoint(std::optional<StageId> stage, const std::string& why) {
  const std::string what =
      (stage ? fmt::format("stage {} cannot be written: {}", stage->value, why) : why) + "; " +
      history_.commit_log.last_good_checkpoint();
  history_.checkpoint_rounds.give_up(committed(), what);
  store(EventRow{run_time_s(), committed().value, EventKind::dropped, -1, stage ? stage->value : -1,
                 0, "no checkpoint: " + what});
}

std::string Leader::who_hangs(StageId stage) const {
  const std::set<PeerId> unkillable = failure_detector_.unkillable();
  std::string text;
  for (const PeerId peer : view_.replicas(stage)) {
    std::string what = late_.what_hangs(peer, now_s_);
    if (unkillable.contains(peer)) {
      what = fmt::format("peer {} does not answer, and nobody can kill it", peer.value);
    } else if (what.empty() && history_.checkpoint_rounds.left_out(peer, committed())) {
      what = fmt::format("peer {} was asked, and has not written it", peer.value);
    }
    if (!what.empty()) text += (text.empty() ? ": " : "; ") + what;
  }
  return text;
}

// During a stop whoever is asked now has the whole patience.
void Leader::ask_for_parts(const CheckpointRounds::Orders& orders) {
  if (stop_deadline_s_ && !orders.empty()) stop_deadline_s_ = now_s_ + plan_.stop_patience_s();
  for (const auto& [peer, order] : orders) outbox_.send(peer, order);
}

void Leader::receive(const StageStoredMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  const Result<std::optional<StoreManifest>> manifest =
      history_.checkpoint_rounds.stored(message, from);
  if (!manifest.ok()) return end(manifest.status());
  if (manifest.value()) outbox_.act(*manifest.value());
}

void Leader::receive(const CheckpointDurable& checkpoint) {
  const std::optional<double> took_s = history_.checkpoint_rounds.durable(checkpoint.step, now_s_);
  if (!took_s) return;  // of an incarnation that was left
  if (checkpoint.step == committed()) last_checkpoint_s_ = *took_s;
  store_event(EventKind::checkpoint, checkpoint.step.value, *took_s, interval_.measured(*took_s));
  history_.commit_log.written(history_.commit_log.rows_written(), checkpoint.step);
}

// The run goes on: what is missing is only what it would go back to.
void Leader::receive(const CheckpointDropped& checkpoint) {
  const Step step = checkpoint.step;
  const std::string good = history_.commit_log.last_good_checkpoint();
  const auto lost =
      history_.checkpoint_rounds.dropped(step, checkpoint.part, checkpoint.why + "; " + good);
  if (!lost) return;  // of an incarnation that was left
  store(EventRow{run_time_s(), step.value, EventKind::dropped, lost->writer.value,
                 lost->stage.value, 0,
                 fmt::format("checkpoint not completed: the part that peer {} has written of stage "
                             "{} is not there: {}: do all hosts share this folder? {}",
                             lost->writer.value, lost->stage.value, checkpoint.why, good)});
}

void Leader::receive(const CheckpointDamaged& checkpoint) {
  store(EventRow{run_time_s(), checkpoint.step.value, EventKind::dropped, -1, -1, 0,
                 "checkpoint set aside, an older one is taken: " + checkpoint.why});
}

// ---- The end of the run

void Leader::end_when_done() {
  const bool written = run_rows_.all_durable() && !history_.checkpoint_rounds.awaited();
  if (const auto& why = run_ending_.stop_requested()) return end_when_stopped(*why);
  if (stopping()) {
    if (history_.agreement.agreed() != committed() || !written) return;
    return end(Status::failed(
        fmt::format("{} steps in a row had infinite, NaN or overflowing gradients (the last one is "
                    "step {}): the training has diverged; try a lower train.lr{}",
                    history_.commit_log.state().skips_in_a_row, committed().value,
                    plan_.stages() > 1 && plan_.swarm.codes_fp16()
                        ? fmt::format(", or a lower swarm.fp16_scale than {0}: between stages "
                                      "fp16 holds nothing above 65504 / {0}",
                                      plan_.swarm.fp16_scale)
                        : "")));
  }
  const bool trained = history_.steps.opened_all() && history_.steps.empty() &&
                       !history_.agreement.awaited() && !run_rows_.validations_waiting();
  if (!trained || !written) return;
  // What was trained is in that checkpoint alone.
  const bool again = history_.checkpoint_rounds.worth_another_try(committed());
  if (history_.checkpoint_rounds.owed() || again) return ask_for_checkpoint();
  const auto dropped = history_.checkpoint_rounds.why_dropped(committed());
  end(dropped ? Status::stopped(without_checkpoint(*dropped)) : Status());
}

std::string Leader::without_checkpoint(const std::string& because) const {
  return history_.commit_log.lacks_checkpoint() + ": " + because;
}

// Each wait has the same patience: for the state of the last step, then for its checkpoint's parts.
// Whoever has not answered then is left out. Rows and manifests wait for this peer's own storage,
// about which help_own_storage() decides.
void Leader::end_when_stopped(const std::string& why) {
  if (!stop_deadline_s_) stop_deadline_s_ = now_s_ + plan_.stop_patience_s();
  const bool too_long = now_s_ >= *stop_deadline_s_;
  if (!agree_at_a_stop(why, too_long)) return;
  if (!checkpoint_at_a_stop(too_long) || !run_rows_.all_durable()) return;
  std::string how = why;
  if (const auto dropped = history_.checkpoint_rounds.why_dropped(committed()))
    how += "; " + without_checkpoint(*dropped);
  for (const PeerId peer : failure_detector_.unkillable())
    how += fmt::format("; peer {} {}", peer.value, ending_words::kWasLeft);
  end(Status::stopped(how));
}

bool Leader::agree_at_a_stop(const std::string& why, bool too_long) {
  if (history_.agreement.agreed() == committed()) return true;
  if (!too_long && !history_.agreement.lacks_only(view_, failure_detector_.unkillable()))
    return false;
  const auto stage = history_.agreement.leave_out_the_late(view_);
  if (!stage) {
    agree_on_hashes();
    return history_.agreement.agreed() == committed();
  }
  if (committed() <= history_.commit_log.checkpointed()) return true;
  std::string peers;
  for (const PeerId peer : history_.agreement.awaited_of(view_, *stage)) {
    peers += fmt::format(" {}", peer.value);
  }
  const std::string because =
      fmt::format("stage {}: {}, of peers{}{}; {}", stage->value, ending_words::kNobodyTold, peers,
                  who_hangs(*stage), history_.commit_log.last_good_checkpoint());
  end(Status::stopped(why + "; " + without_checkpoint(because)));
  return false;
}

bool Leader::checkpoint_at_a_stop(bool too_long) {
  CheckpointRounds& rounds = history_.checkpoint_rounds;
  const bool lacks = committed() > history_.commit_log.checkpointed();
  if (lacks) {
    const auto may = [this](PeerId peer, StageId stage) {
      return !history_.agreement.left_out(peer, stage);
    };
    rounds.pass_over(committed(), failure_detector_.unkillable(), view_, may);
    if (too_long) rounds.leave_out_the_late(committed());
    const bool dropped = rounds.why_dropped(committed()) && !rounds.worth_another_try(committed());
    if (!rounds.is_written(committed()) && !dropped) ask_for_checkpoint();
  }
  // An earlier one is of use only where this one is not to be had.
  if (too_long || !lacks) rounds.forget_before(committed());
  return !rounds.awaited();
}

// Nobody hears of the end before its mark is durable: a peer that leads after that finds the mark
// and ends the run likewise.
void Leader::end(const Status& how) {
  auto mark = run_ending_.decide(how);
  if (!mark) return;
  end_lives(how);
  mark->goodput = lives_.take();
  outbox_.act(*std::move(mark));
}

void Leader::receive(const FailureMessage& message, PeerId) {
  end(Status::error(message.code, message.why));
}

void Leader::receive(const EndDurable&) { announce_end(); }

void Leader::storage_failed(const StorageFailed& failure) {
  run_ending_.storage_failed(failure.status);
  announce_end();
}

void Leader::wait_for_unkillable(PeerId peer) {
  if (run_ending_.stop_requested()) run_ending_.unreachable(peer);
  if (run_ending_.decided()) return;
  store(EventRow{run_time_s(), committed().value, EventKind::late, peer.value, -1, 0,
                 fmt::format("peer: it does not answer, and nobody can kill it now; the run waits "
                             "for it for {:g} s",
                             plan_.swarm.give_up_after_s)});
}

void Leader::unreachable(PeerId peer, const Status& why) {
  run_ending_.unreachable(peer);
  end(why);
}

void Leader::announce_end() {
  if (run_ending_.stop_requested()) {
    for (const PeerId peer : failure_detector_.unkillable()) run_ending_.unreachable(peer);
  }
  for (const PeerId peer : run_ending_.announce(view_, self_, now_s_)) {
    outbox_.send(peer, run_ending_.message());
  }
}

void Leader::receive(const EndHeard&, PeerId from) { run_ending_.acknowledged(from); }

void Leader::send_exit() {
  for (const auto& [peer, stages] : view_.members()) {
    if (peer != self_) outbox_.send(peer, ExitMessage{});
  }
}

// ---- Work that hangs

void Leader::receive(const LateMessage& message, PeerId from) {
  if (!view_.contains(from)) return;
  // It is from an older view. With the new one the peer forgets what it has said, and says it again
  // if it is still so; but not that it is so no more.
  if (round_.gathering() && !round_.came_after_table(from)) return;
  if (!late_.enter(message, from, now_s_)) return;
  store(EventRow{run_time_s(), committed().value, EventKind::late, from.value, -1, message.since_s,
                 kTaskNames[static_cast<std::size_t>(message.task)] + (": " + message.what)});
}

// What it knows of itself may be newer than this leader's view: it may have abstained as it was
// about to lead.
void Leader::receive(const AbleMessage& message, PeerId from) {
  if (!view_.contains(from) || view_.order().number_of(from) > message.number) return;
  view_.come_back(from, message.number);
  store_peer_event(EventKind::late, from, {}, "storage: works again; the peer may lead");
  somebody_came_back_ = true;
}

void Leader::receive(const TriedMessage& message, PeerId from) {
  late_.enter(message, from, now_s_);
}

void Leader::help_the_late() {
  LateWork::Decision decision = late_.decide(view_, committed(), now_s_);
  if (decision.end) return end(*decision.end);
  for (const auto& [peer, message] : decision.tries) outbox_.send(peer, message);
  if (decision.resigns && plan_.recovers) {
    outbox_.send(decision.resigns->first, ResignMessage{decision.resigns->second});
  }
}

void Leader::storage_hangs(const std::optional<std::string>& why) {
  own_storage_hangs_ = why;
  if (!why) late_.storage_goes_on();
}

void Leader::help_own_storage() {
  if (!own_storage_hangs_ || run_ending_.announced()) return;
  if (plan_.recovers) {
    for (const auto& [peer, message] : late_.try_others(view_, self_, now_s_)) {
      outbox_.send(peer, message);
    }
    if (const auto to = late_.who_can_store(view_, now_s_)) {
      hands_over_ = {*own_storage_hangs_, *to};
      return;
    }
  }
  const double more_s =
      run_ending_.stop_requested() ? plan_.stop_patience_s() : plan_.storage_timeout_s;
  if (late_.storage_hangs_s(now_s_) < more_s) return;
  const Status why =
      Status::stopped(fmt::format("{}; {}: see the disk, or the file server, then resume",
                                  *own_storage_hangs_, ending_words::kNobodyShowed));
  (void)run_ending_.decide(why);
  storage_failed({why});
}

// ---- Table rounds
// After a death, and after each other change of the view, the leader asks all who live for their
// tables, and has done again what is missing in them, and nothing else. A new leader begins with
// such a round, and announces once more what its predecessor had committed.

void Leader::lost(PeerId peer, const std::string& how, const std::optional<Suspicion>& suspicion) {
  newcomers_.lost(peer, now_s_);
  if (!view_.contains(peer)) return;
  const auto move = view_.move();
  const bool served = !view_.members().at(peer).empty();
  const bool learned = view_.learners().contains(peer);
  end_life(peer, served    ? &GoodputRow::repeated_s
                 : learned ? &GoodputRow::repair_s
                           : &GoodputRow::idle_s);
  view_.remove(peer);
  run_ending_.acknowledged(peer);
  departures_.lost(peer);
  late_.lost(peer);
  times_.forget(peer);
  learners_.forget(peer);
  if (run_ending_.decided()) return;
  if (!plan_.recovers) return end(Status::stopped(how));
  deadline_.round_for_another_cause();
  store_death(peer, how, suspicion);
  if (move && move->peer == peer) {
    store_peer_event(EventKind::migrate, peer, move->to, "end of a move: it has died");
  }
  forget(peer, std::nullopt);
  if (served) break_pipelines(fmt::format("peer {} of a pipeline was lost", peer.value));
  if (!round_.falling_back()) publish_view();
}

void Leader::forget(PeerId peer, std::optional<StageId> stage) {
  history_.steps.forget(peer, stage);
  history_.agreement.forget(peer, stage);
}

// What a peer has sent before it hears of the view is in the table with which it answers.
void Leader::publish_view() {
  if (view_.number.number > 0) round_.drop_tables(now_s_);
  departures_.keep_last_replicas(view_);
  advance_move();
  for (const auto& [peer, stages] : view_.members()) lives_.joined(peer, now_s_);
  late_.new_view();
  somebody_came_back_ = false;
  ++view_.number.number;
  outbox_.set_view(view_.number);
  collectives_.begin(view_.number);
  rebalancing_.count_in(view_.number, committed(), now_s_);
  history_.steps.router().set_peers(view_.choices(StageId(0)), 0);
  if (takes_over_ || view_.number.number > 1) {
    round_.gather(view_.members());
    stop_deadline_s_.reset();  // during a stop whoever is asked now has the whole patience
  }
  release_held_back();
  send_view();
}

void Leader::send_view() {
  const ViewRef before = std::exchange(published_, share(view_));
  const ViewMessage whole{published_, restart_};
  ViewMessage change{published_};
  if (before) change.delta = std::make_shared<const ViewDelta>(delta_between(*before, *published_));
  for (const auto& [peer, stages] : view_.members()) {
    const bool has_base = before && before->contains(peer);
    outbox_.send(peer, has_base ? change : whole);
  }
}

void Leader::receive(const WholeViewRequest&, PeerId from) {
  outbox_.send(from, ViewMessage{published_, restart_});
}

void Leader::receive(const TableMessage& message, PeerId from) {
  if (run_ending_.decided() || message.view != view_.number) return;
  if (!round_.enter(message, from)) return receive_late(message, from);
  deadline_.restart(now_s_);
  learners_.keep_listed(from, message.learned);
  lives_.told_until(from, now_s_ - message.untold_s);
  if (!round_.gathering()) finish_table_round();
}

// It was left out at a stop: what it tells of its state, in this table alone, is of use all the
// same.
void Leader::receive_late(const TableMessage& message, PeerId from) {
  if (!run_ending_.stop_requested() || round_.gathering() || round_.falling_back()) return;
  for (const HashFact& fact : message.hashes) history_.agreement.enter(view_, fact, from);
}

void Leader::release_held_back() {
  for (const auto& [peer, message] : round_.release()) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
}

void Leader::receive(const UnableMessage& message, PeerId from) {
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  const OpenStep* open = history_.steps.find(message.microbatch.step);
  if (!repairs_steps() || !open || round_.gathering()) return;
  if (!open->ledger().finished(message.microbatch)) publish_view();
}

void Leader::finish_table_round() {
  for (const auto& [peer, table] : round_.tables()) {
    if (table.end) return end(status_of(*table.end));
  }
  deadline_.restart(now_s_);
  if (std::exchange(takes_over_, false)) adopt_commits();
  if (!repair_stages()) return;
  collect_hashes();
  // Where a stop was asked for nothing is committed any more, and tables may be missing.
  Repairs repairs;
  if (!run_ending_.stop_requested()) repairs = repair_open_steps();
  ask_for_parts(history_.checkpoint_rounds.repair(view_));
  const bool was_needed = repairs.resent > 0 || repairs.reopened > 0;
  const char* why = deadline_.round_ended(was_needed) ? "at a deadline: " : "";
  store_event(EventKind::repair, committed().value, now_s_ - round_.since_s(),
              fmt::format("{}{} microbatches sent again", why, repairs.resent));
  round_.end();
  release_held_back();
}

// A commit that only a table has told of which is missing then is not made: the run ends a step
// earlier.
bool Leader::finish_without_the_late() {
  if (!run_ending_.stop_requested()) return false;
  if (!stop_deadline_s_) stop_deadline_s_ = now_s_ + plan_.stop_patience_s();
  std::set<PeerId> out = failure_detector_.unkillable();
  if (now_s_ >= *stop_deadline_s_) {
    for (const auto& [peer, stages] : view_.members()) {
      if (peer != self_) out.insert(peer);
    }
  }
  if (!round_.leave_out(out)) return false;
  stop_deadline_s_.reset();  // what is waited for next has the whole patience
  finish_table_round();
  return !run_ending_.decided() && !round_.gathering() && !round_.falling_back();
}

Leader::Repairs Leader::repair_open_steps() {
  open_begun_steps();
  collect_rows();
  const WorkRows works(round_.tables());
  Repairs repairs;
  for (auto& [step, open] : history_.steps) {
    repairs.reopened += repair_seals(open);
    repairs.resent += repair_microbatches(open, works);
  }
  return repairs;
}

bool Leader::repairs_steps() const {
  return !run_ending_.decided() && !run_ending_.stop_requested() && !round_.falling_back();
}

bool Leader::plan_again_at_deadline() {
  const bool waits =
      plan_.recovers && repairs_steps() && (round_.gathering() || !history_.steps.empty());
  // Where work hangs, or disks are slow, no new plan helps.
  const bool helps = !late_.work_hangs(view_) && !waits_for_a_checkpoint();
  if (!waits || !helps || !deadline_.passed(now_s_)) return false;
  deadline_.round_at_deadline();
  publish_view();
  return true;
}

// ---- Repair: what a dead leader left

void Leader::adopt_commits() {
  std::map<Step, CommitRef> known;
  // Who is left out at a stop may lack any.
  const bool all_are_here = round_.tables().size() == view_.members().size();
  Step heard_by_all = all_are_here ? committed() : Step(-1);
  Step written = history_.commit_log.rows_written();
  for (const auto& [peer, table] : round_.tables()) {
    for (const CommitRef& record : table.commits) known[record->step] = record;
    const Step heard = table.commits.empty() ? Step(-1) : table.commits.back()->step;
    heard_by_all = std::min(heard_by_all, heard);
    written = std::max(written, table.written);
    history_.commit_log.written(written, table.checkpointed);
  }
  for (const auto& [step, record] : known) {
    if (step > committed()) history_.commit_log.add(record);
    const CommitMessage again{record, written, history_.commit_log.checkpointed()};
    if (step > heard_by_all) send_all(again);
  }
  time_offset_s_ = std::max(time_offset_s_, history_.commit_log.state().time_s - now_s_);
  history_.steps.skip_through(committed());
  for (Step step = history_.commit_log.checkpointed().next(); step < committed();
       step = step.next()) {
    history_.checkpoint_rounds.passed(step);
  }
  history_.agreement = Agreement(plan_, committed());
  for (const auto& [peer, table] : round_.tables()) {
    for (const GoodputRow& row : table.goodput) lives_.enter(row, committed());
  }
  if (known.empty()) return;
  // The steps whose rows may not be durable are agreed on once more, and so is the last in any
  // case: whether its checkpoint was asked for is not known.
  history_.agreement = Agreement(plan_, std::min(written, Step(committed().value - 1)));
  run_rows_.go_on_from(history_.commit_log.state().time_s);
  for (const auto& [step, record] : known) {
    if (step > history_.agreement.agreed()) await_agreement(record, 0);
  }
}

void Leader::collect_hashes() {
  for (const auto& [peer, table] : round_.tables()) {
    for (const HashFact& fact : table.hashes) history_.agreement.enter(view_, fact, peer);
  }
}

// A dead leader may have begun a step after a commit that nobody alive has heard of.
void Leader::open_begun_steps() {
  Step newest = committed();
  for (const auto& [peer, table] : round_.tables()) {
    if (!table.works.empty()) newest = std::max(newest, table.works.back().work.microbatch.step);
  }
  history_.steps.open_through(newest, now_s_);
  open_steps();
}

void Leader::collect_rows() {
  for (const auto& [peer, table] : round_.tables()) {
    history_.steps.enter_table(table, peer, now_s_);
    for (const ReducedMessage& reduced : table.reduced) {
      history_.steps.enter(reduced, view_, peer);
    }
  }
}

// ---- Repair: seals and microbatches

std::int64_t Leader::repair_seals(OpenStep& open) {
  const auto broken = open.void_broken_seals(view_, round_.tables());
  for (const StageId stage : broken) {
    for (const PeerId peer : view_.replicas(stage)) {
      outbox_.send(peer, ReopenMessage{open.step(), stage});
    }
  }
  return std::ssize(broken);
}

std::int64_t Leader::repair_microbatches(OpenStep& open, const WorkRows& works) {
  std::int64_t resent = 0;
  for (const MicrobatchId& id : open.unfinished()) {
    const MicrobatchState state = works.state_of(id, open.ledger(), plan_.stages());
    for (const Resend& order : plan_resends(state, view_)) {
      ++resent;
      const auto path = std::make_shared<const Path>(order.path);
      if (order.provider) {
        const StageHolder& provider = *state.stages.at(order.provider->value);
        outbox_.send(provider.peer, ResendMessage{{id, *order.provider}, path});
      } else {
        const auto holder = path->holders.find(StageId(0));
        const bool known = holder != path->holders.end();
        const auto to = known ? std::optional(holder->second) : std::nullopt;
        OpenSteps::Issue again = history_.steps.issue(open, id, to, path);
        outbox_.send(again.to, std::move(again.message));
      }
    }
  }
  return resent;
}

// ---- Repair: a stage without replicas, or a pipeline without a peer

bool Leader::repair_stages() {
  constexpr const char* kStageLost = "a stage was lost with its last replica";
  bool changed = false;
  if (must_go_back_) {
    fall_back_to_checkpoint(*must_go_back_);
    return false;
  }
  for (const auto& [peer, table] : round_.tables()) {
    if (table.incarnation.value != history_.commit_log.state().incarnation) {
      fall_back_to_checkpoint({kStageLost});
      return false;
    }
  }
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    if (!view_.replicas(stage).empty()) continue;
    for (const auto& [peer, table] : round_.tables()) {
      for (const LearnedMessage& learned : table.learned) {
        if (learned.stage != stage || learned.step < committed()) continue;
        const auto agreed = history_.agreement.hashes().find(stage);
        const bool known = learned.step == history_.agreement.agreed() &&
                           agreed != history_.agreement.hashes().end();
        if (known && !learned.tensors.empty() && learned.tensors != agreed->second) continue;
        promote(peer, stage);
        changed = true;
      }
    }
    if (view_.replicas(stage).empty()) {
      fall_back_to_checkpoint({kStageLost});
      return false;
    }
  }
  if (changed) publish_view();
  return !changed;
}

void Leader::break_pipelines(std::string why) {
  if (plan_.swarm.has_pipelines() && !must_go_back_) must_go_back_ = GoingBack{std::move(why)};
}

void Leader::fall_back_to_checkpoint(GoingBack how) {
  went_back_ = std::move(how);
  round_.fall_back();
  outbox_.act(LoadManifest{went_back_.proves});
}

void Leader::receive(const ManifestLoaded& manifest) {
  if (run_ending_.decided() || !round_.falling_back()) return;
  round_.end_fall_back();
  for (const auto& [peer, bytes] : std::exchange(budgets_to_be_, {})) {
    if (view_.contains(peer)) view_.set_budget(peer, bytes);
  }
  Result<View> redealt = redealt_view();
  if (!redealt.ok()) return end(redealt.status());
  auto restart = std::make_shared<RestartPoint>();
  if (manifest.checkpoint) *restart = *manifest.checkpoint;
  std::int64_t newest = history_.commit_log.state().incarnation;
  for (const auto& [peer, table] : round_.tables())
    newest = std::max(newest, table.incarnation.value);
  restart->state.incarnation = newest + 1;
  const Incarnation incarnation(restart->state.incarnation);
  history_ = History(plan_, CommitLog(plan_, restart->state), history_.steps.take_router(),
                     {incarnation, view_.number.term, history_.steps.next_seal().number});
  restart_ = std::move(restart);
  published_.reset();
  history_.steps.router().go_back();
  must_go_back_.reset();
  interval_.go_back(committed(), history_.commit_log.state().time_s);
  view_.become(std::move(redealt).value());
  run_rows_.leave_history();
  lives_.go_back(committed());
  learners_.leave_history();
  departures_.leave_history();
  rebalancing_.leave_history();
  round_.release();
  const std::string from = manifest.checkpoint
                               ? fmt::format("the checkpoint of step {}", committed().value)
                               : "the start: there is no checkpoint";
  store(EventRow{run_time_s(), committed().value, EventKind::incarnation, -1, -1,
                 now_s_ - round_.since_s(), went_back_.why + ": all continue from " + from});
  outbox_.set_incarnation(incarnation);
  publish_view();
}

Result<View> Leader::redealt_view() const {
  Hands hands;  // those that depart serve only if nobody else can
  for (const auto& [peer, stages] : view_.members()) {
    const bool goes = departures_.departs(peer);
    (goes ? hands.last : stages.empty() ? hands.spares : hands.workers).push_back(peer);
  }
  if (hands.workers.empty() && hands.spares.empty()) hands.workers = std::exchange(hands.last, {});
  while (!hands.spares.empty() &&
         static_cast<std::int64_t>(hands.workers.size()) < learners_.wanted_workers(view_)) {
    hands.workers.push_back(hands.spares.front());
    hands.spares.erase(hands.spares.begin());
  }
  std::optional<View> view = lay_out_in_room(plan_, hands, view_.budgets());
  if (!view) {
    return Status::stopped(
        fmt::format("{}{}, and the peers that are left cannot hold all stages: "
                    "{}; resume with more ranks, or a larger compute.memory_gb",
                    kTooLittleMemory, went_back_.why, shortage(plan_, hands, view_.budgets())));
  }
  view->number = view_.number;
  view->merge(view_.order());
  return *std::move(view);
}

// ---- Learners
// Spares and newcomers learn the stages that need them most, and serve once their state is that of
// the other replicas.

void Leader::receive(const JoinMessage& message, PeerId) {
  if (view_.contains(message.peer) || !plan_.recovers) return;
  if (run_ending_.announced()) {
    outbox_.send(message.peer, run_ending_.message());
    outbox_.send(message.peer, ExitMessage{});
  }
  if (run_ending_.decided() || round_.falling_back() || stopping() ||
      departures_.was_released(message.peer)) {
    return;
  }
  view_.add(message.peer);
  if (message.budget_bytes) view_.set_budget(message.peer, *message.budget_bytes);
  newcomers_.joined(message.peer);
  store_peer_event(EventKind::join, message.peer, {}, "");
  publish_view();
  // It may outlive all others, and lead: then it must store the rows that are not durable yet.
  for (const auto& [step, record] : history_.commit_log.commits()) {
    outbox_.send(message.peer, CommitMessage{record, history_.commit_log.rows_written(),
                                             history_.commit_log.checkpointed()});
  }
}

void Leader::receive(const LearnedMessage& message, PeerId from) {
  if (view_.learns(from, message.stage)) learners_.enter(message, from);
}

// What was asked for is not asked again: with its new budget the peer has no room for it. A replica
// that is to be loaded cannot be had without it: so all go back once more, to stages dealt anew.
void Leader::receive(const NoRoomMessage& message, PeerId from) {
  const bool learns = view_.learns(from, message.stage);
  if (run_ending_.decided() || (!learns && !view_.serves(from, message.stage))) return;
  const std::int64_t asked_bytes = least_bytes(plan_.needs, view_, from);
  const auto stated = view_.budgets().find(from);
  const std::int64_t budget_bytes =
      stated == view_.budgets().end() ? asked_bytes : std::min(asked_bytes, stated->second);
  const std::string why =
      fmt::format("peer {} has no memory left for stage {}", from.value, message.stage.value);
  if (learns) {
    view_.set_budget(from, budget_bytes - 1);
    if (round_.falling_back()) return;
    drop_learner(from, message.stage, "learner dropped: " + why);
  } else {
    budgets_to_be_[from] = budget_bytes - 1;  // until then it serves more than that
    // It says so in each view: another view would not be the last.
    if (round_.falling_back() || must_go_back_) return;
    must_go_back_ = GoingBack{why};
  }
  publish_view();
}

// Whoever loads a file is the first to read all of it. A second time nothing is gained: this leader
// has read it too, and found it whole.
void Leader::receive(const DamagedMessage& message, PeerId from) {
  const bool is_of_now = message.incarnation.value == history_.commit_log.state().incarnation;
  if (run_ending_.decided() || round_.falling_back() || !is_of_now) return;
  if (!view_.serves(from, message.stage)) return;
  if (went_back_.proves) {
    return end(Status::stopped(fmt::format(
        "peer {} cannot load stage {}, though the leader has read all of the checkpoint and found "
        "it whole: {}; look at the disk and the mounts of that peer's host",
        from.value, message.stage.value, message.why)));
  }
  if (must_go_back_) {
    must_go_back_->proves = true;
    return;
  }
  must_go_back_ = GoingBack{fmt::format("peer {} cannot load stage {} ({})", from.value,
                                        message.stage.value, message.why),
                            true};
  publish_view();
}

void Leader::assign_learners() {
  if (!may_change_roles() || plan_.swarm.has_pipelines()) return;
  const auto needs = [this] {
    return stage_needs(plan_, view_, departures_, times_, rebalancing_.stage_loads());
  };
  const Learners::Progress progress{committed(), history_.steps.sealed().value_or(committed())};
  if (learners_.assign(view_, departures_, needs, progress, now_s_)) publish_view();
}

void Leader::promote_learned() {
  if (round_.gathering() || run_ending_.stop_requested()) return;
  if (history_.agreement.agreed() != committed()) return;
  const auto [ready, wrong] =
      learners_.judge(view_, departures_, history_.agreement.agreed(), history_.agreement.hashes());
  for (const auto& [peer, stage] : ready) promote(peer, stage);
  for (const auto& [peer, stage] : wrong) {
    drop_learner(peer, stage,
                 "learner dropped: its state differs from the one that all replicas agreed on");
  }
  if (!ready.empty() || !wrong.empty()) publish_view();
}

void Leader::promote(PeerId peer, StageId stage) {
  learners_.promote(view_, peer, stage);
  store_peer_event(EventKind::migrate, peer, stage, "");
}

void Leader::drop_slow_learners() {
  if (round_.gathering() || run_ending_.stop_requested()) return;
  const auto late =
      history_.steps.late_learners(view_, now_s_, plan_.torture_only.learner_patience_s);
  for (const auto& [peer, stage, waited_s, patience_s] : late) {
    double bytes = 0;
    for (const std::int64_t elements : plan_.elements_in(stage)) {
      bytes += static_cast<double>(elements) * sizeof(float);
    }
    drop_learner(
        peer, stage,
        fmt::format("learner dropped: a commit waited {:.3g} s for it; the gradient of its "
                    "stage, {:.3g} MB a step, has to come within {:.3g} s, over {:.3g} "
                    "Mb/s at least",
                    waited_s, bytes * 1e-6, patience_s, bytes * 8e-6 / patience_s));
  }
  if (!late.empty()) publish_view();
}

void Leader::drop_learner(PeerId peer, StageId stage, const std::string& why) {
  const double pause_s = learners_.drop(view_, peer, stage, now_s_);
  forget(peer, stage);
  const auto move = view_.move();
  if (move && move->peer == peer && !view_.serves(peer, move->from)) {
    view_.end_move();  // it has neither of its stages
    store_peer_event(EventKind::migrate, peer, move->to,
                     "end of a move: it could not learn the new stage");
  }
  store_peer_event(EventKind::dismiss, peer, stage,
                   fmt::format("{}; it may begin again in {:.3g} s", why, pause_s));
}

// ---- Leaving a static pipeline

bool Leader::leaves_a_pipeline() const {
  if (!plan_.swarm.has_pipelines() || !plan_.recovers) return false;
  const std::set<PeerId>& departing = departures_.departing();
  return departing.size() < view_.members().size() &&
         std::any_of(departing.begin(), departing.end(),
                     [this](PeerId peer) { return !view_.members().at(peer).empty(); });
}

void Leader::free_departing() {
  if (!history_.steps.empty() || history_.agreement.agreed() != committed()) return;
  const bool dropped = history_.checkpoint_rounds.why_dropped(committed()).has_value();
  if (committed() <= history_.commit_log.checkpointed() || dropped) {
    break_pipelines("a peer leaves its pipeline");
    publish_view();
  } else if (!history_.checkpoint_rounds.is_written(committed())) {
    ask_for_checkpoint();
  }
}

// ---- Leaving and moving

void Leader::receive(const NoticeMessage& message, PeerId from) {
  if (!plan_.recovers) run_ending_.request_stop(message.why);
  departures_.notice(from, message.why, now_s_);
}

// From a peer whose host is stopped or cut off no notice comes.
void Leader::note_a_stop() {
  const auto why = departures_.asked_of_all(view_, failure_detector_.unkillable());
  if (why) run_ending_.request_stop(*why);
  // Where all steps have begun the run ends as soon by itself, and is complete.
  if (plan_.stops_at_s && run_time_s() >= *plan_.stops_at_s && !history_.steps.opened_all()) {
    run_ending_.request_stop(fmt::format("train.max_hours = {:g} are over", plan_.train.max_hours));
  }
}

void Leader::begin_departures() {
  if (run_ending_.stop_requested()) return;
  const auto heard_since = [this](PeerId peer, double at_s) {
    return peer == self_ || failure_detector_.heard_since(peer, at_s);
  };
  for (const auto& [peer, why] :
       departures_.begin(view_, now_s_, plan_.torture_only.notices_together_s, heard_since)) {
    store_peer_event(EventKind::notice, peer, {}, why);
  }
}

void Leader::process_departures() {
  if (!may_change_roles()) return;
  if (leaves_a_pipeline()) return free_departing();
  const Departures::HandedOver handed = departures_.hand_over(
      view_, [this](PeerId peer) { return learners_.may_begin(view_, peer, now_s_); }, plan_.needs);
  for (const auto& [peer, stage] : handed.gave_way) {
    forget(peer, stage);
    store_peer_event(EventKind::dismiss, peer, stage,
                     "learner dropped: it has no room beside what it is to learn instead");
  }
  bool changed = handed.view_changed;
  changed |= advance_move();  // the others of its stage may leave: then it stays
  const auto writes = [this](PeerId peer, StageId stage) {
    return history_.checkpoint_rounds.awaits(peer, stage);
  };
  const Departures::Progress progress{history_.steps.newest(), committed(),
                                      history_.agreement.agreed(), writes};
  for (const auto& [peer, stage] : departures_.remove_drained(view_, progress)) {
    forget(peer, stage);
    store_peer_event(EventKind::migrate, peer, stage, "no longer serves the stage");
    changed = true;
  }
  changed |= advance_move();
  const bool drained = departures_.departs(self_) && view_.members().at(self_).empty();
  has_left_ = drained && run_rows_.all_durable() && !history_.checkpoint_rounds.awaited();
  for (const PeerId peer : departures_.release_drained(view_, self_)) {
    learners_.forget(peer);
    outbox_.send(peer, ReleaseMessage{});
    end_life(peer, &GoodputRow::idle_s);
    store_peer_event(EventKind::leave, peer, {}, "");
    changed = true;
  }
  if (changed) publish_view();
}

void Leader::move_peers() {
  if (!may_change_roles()) return;
  if (moves_.advance(view_, departures_, learners_, committed(), now_s_, plan_.needs)) {
    publish_view();
  }
}

void Leader::rebalance() {
  if (!may_change_roles()) return;
  const auto move = rebalancing_.decide(view_, departures_, learners_, committed(), now_s_);
  if (!move) return;
  const bool beside = Rebalancing::begin(view_, *move, plan_.needs);
  store_peer_event(EventKind::migrate, move->peer, move->to,
                   fmt::format("moves from stage {}{}", move->from.value,
                               beside ? "" : ", which it leaves first: it has no room for both"));
  publish_view();
}

bool Leader::advance_move() {
  if (!view_.move()) return false;
  const StageMove move = *view_.move();
  const bool learned = view_.learns(move.peer, move.to);
  const auto [changed, ended] = Rebalancing::advance(view_, departures_, plan_.needs);
  if (ended.empty()) return changed;
  if (learned) forget(move.peer, move.to);
  store_peer_event(EventKind::migrate, move.peer, move.to, "end of a move: " + ended);
  return true;
}

// ---- Newcomers

void Leader::spawn_newcomer() {
  newcomers_.give_up_late(now_s_);
  const bool can = plan_.swarm.spawn && may_change_roles() && !departures_.departs(self_);
  const auto staying =
      static_cast<std::int64_t>(view_.members().size() - departures_.departing().size());
  if (!can || !newcomers_.due(staying, now_s_)) return;
  newcomers_.spawning();
  outbox_.act(SpawnPeer{});
}

void Leader::receive(const PeerSpawned& spawned) {
  newcomers_.spawned(spawned.peer, now_s_);
  store(EventRow{run_time_s(), committed().value, EventKind::spawn, spawned.peer.value, -1,
                 spawned.took_s, ""});
}

void Leader::receive(const SpawnFailed& failed) {
  newcomers_.failed(now_s_);
  store_event(EventKind::spawn, committed().value, 0, failed.why);
}

}  // namespace swarmpi
