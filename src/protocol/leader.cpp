#include "protocol/leader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/check.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/method/room_layout.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {
namespace {

// A table round begins when nothing has come for so many times suspect_after_s. A peer that is
// silent is suspected long before; this is for a loss that nobody has noticed.
constexpr double kDeadlineFactor = 4;

constexpr const char* kTaskNames[] = {"job", "storage", "load"};

}  // namespace

// ---- Beginning

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
      now_s_(now_s),
      record_(self, plan, history_.commit_log, outbox_, succession.run,
              takes_over_ ? std::max(succession.run_time_ahead_s,
                                     history_.commit_log.state().time_s - now_s)
                          : history_.commit_log.state().time_s,
              now_s),
      run_ending_(plan.recovers),
      round_(succession.leaderless_since_s),
      deadline_(kDeadlineFactor * plan.swarm.suspect_after_s, now_s),
      restart_(std::move(succession.restart)),
      roles_(self, plan, succession.at_start, view_, history_, record_, outbox_, now_s),
      late_(plan),
      checkpoints_(plan, view_, history_, record_, late_, failure_detector, outbox_, now_s) {
  view_.number = {succession.term, 0};
  // Of which deaths the leader before knew is not known: it may have taken the dead out of the
  // view.
  if (takes_over_ && !succession.nothing_was_lost) break_pipelines("the leader before is gone");
  if (const auto& went = succession.gave_itself_up) late_.gave_itself_up(went->first, went->second);
}

void Leader::begin(const std::map<PeerId, Gone>& gone) {
  publish_view();
  const std::int64_t step = committed().value;
  if (committed().value >= 0 && !takes_over_) {
    record_.store_event(EventKind::resume, step, 0, fmt::format("continues after step {}", step));
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
    record_.lives().joined(peer, record_.clock_at(history_.commit_log.state().time_s));
    record_.end_life(peer, left ? &GoodputRow::idle_s : &GoodputRow::repeated_s);
    if (left) {
      record_.store_peer_event(EventKind::leave, peer, {}, what);
    } else {
      record_.store_death(peer, what, suspicion);
    }
  }
  std::string abstain;
  for (const PeerId peer : view_.abstaining()) abstain += fmt::format(" {}", peer.value);
  record_.store_event(EventKind::leader, step, 0,
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
    roles_.enter(fact);
  }
  for (const GoodputRow& row : message.goodput) {
    record_.lives().enter(row, committed());
    record_.lives().told_until(from, now_s_);
  }
  for (const LoadFact& fact : message.loads) roles_.enter(fact, from);
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
  record_.store_faults();
  roles_.pass();
  note_a_stop();
  if (round_.falling_back() || plan_again_at_deadline()) return;
  if (round_.gathering() && !finish_without_the_late()) return;
  if (!run_ending_.stop_requested()) roles_.begin_departures(failure_detector_);
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
  change_roles();
}

// One change at a time, for a table round follows on each.
void Leader::change_roles() {
  const bool may_judge = !round_.gathering() && !run_ending_.stop_requested();
  if (may_judge && (roles_.promote_learned() || roles_.drop_slow_learners())) publish_view();
  if (!plan_.recovers || stopping() || round_.gathering()) return;
  if (roles_.assign_learners()) return publish_view();
  roles_.spawn_newcomer();
  if (roles_.move_peers() || roles_.rebalance()) return publish_view();
  if (roles_.leaves_a_pipeline()) return free_departing();
  if (roles_.process_departures()) publish_view();
}

void Leader::check_counts() const {
  SWARMPI_CHECK(history_.steps.counts_hold(view_), "acknowledgements are counted as they are");
  SWARMPI_CHECK(history_.agreement.counts_hold(view_), "state hashes are counted as they are");
  SWARMPI_CHECK(roles_.counts_hold(), "peers that have joined are counted as they are");
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
  if (!record_.rows().all_durable()) return "storage: rows of the journal";
  return "nothing";
}

// ---- Open steps

void Leader::open_steps() {
  if (!stopping() && !roles_.leaves_a_pipeline()) history_.steps.open_due(committed(), now_s_);
}

void Leader::issue() {
  if (stopping()) return;
  for (OpenSteps::Issue& issue : history_.steps.issue(committed())) {
    outbox_.send(issue.to, IssueMessage{issue.microbatch, std::move(issue.path)});
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
  while (!stopping() && history_.agreement.agreed() == committed() &&
         !checkpoints_.hold_commits()) {
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
  record_.store_event(EventKind::recount, open.step().value, 0,
                      what + "; the sums are reduced once more");
  if (!open.ledger().covered(doubt.stage)) publish_view();
}

void Leader::commit(Step step, const OpenStep& open) {
  const CommitRef record = std::make_shared<const CommitRecord>(make_commit_record(
      plan_, open, history_.commit_log.state(), view_.number.term, record_.run_time_s()));
  history_.commit_log.add(record);
  checkpoints_.committed_another();
  if (record->skipped && step.value > 0) {
    std::string names;
    for (const std::int32_t id : open.facts()->flagged) names += " " + plan_.tensor_names.at(id);
    record_.store_event(EventKind::skip, step.value, 0,
                        "infinite, NaN or overflowing gradients:" + names);
  }
  for (const FaultAt& fault : plan_.faults_at) {
    if (fault.event != FaultEvent::flip || fault.step != step.value) continue;
    record_.store(EventRow{record_.run_time_s(), step.value, EventKind::flip, fault.peer, -1, 0,
                           "faults.at in the deck"});
  }
  await_agreement(record, now_s_ - open.sealed_at_s());
  send_all(CommitMessage{record, history_.commit_log.rows_written(),
                         history_.commit_log.checkpointed()});
}

void Leader::finish_validation_passes() {
  for (const auto& [step, loss] : history_.steps.close_validation_passes()) {
    record_.add_validation(step, loss);
  }
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members()) outbox_.send(peer, body);
}

// ---- Agreement on state hashes

void Leader::await_agreement(const CommitRef& record, double seal_to_commit_s) {
  history_.agreement.await(record, seal_to_commit_s);
  if (plan_.validation_in(record->step) > 0)
    record_.add_validation(record->step, record->validation_loss);
}

void Leader::agree_on_hashes() {
  while (true) {
    const Result<std::optional<AgreedStep>> decided = history_.agreement.decide(view_);
    if (!decided.ok()) return end(decided.status());
    if (!decided.value()) return;
    const AgreedStep& agreed = *decided.value();
    const Step step = agreed.record->step;
    history_.commit_log.agreed(agreed.state_hash);
    record_.store_step(agreed, view_);
    checkpoints_.passed(step, agreed.record->time_s);
  }
}

// ---- Rows

void Leader::store_validations() {
  record_.store_validations(history_.agreement.agreed(), history_.steps.oldest());
}

void Leader::track_agreed_rows() {
  record_.rows().all_stored(history_.agreement.agreed(), history_.commit_log.rows_written());
}

void Leader::receive(const RecordDurable& record) {
  const std::optional<Step> written = record_.rows().durable(record.number);
  if (written) history_.commit_log.written(*written, history_.commit_log.checkpointed());
}

// Of what they did for steps that are open nothing is left.
void Leader::end_lives(const Status& how) {
  const bool loses = !how.ok() && !history_.steps.empty();
  for (const auto& [peer, stages] : view_.members()) {
    const bool loses_work = loses && !stages.empty();
    record_.end_life(peer, loses_work ? &GoodputRow::repeated_s : &GoodputRow::idle_s,
                     checkpoints_.last_took_s());
  }
}

// ---- Checkpoint rounds

void Leader::ask_for_owed_checkpoint() {
  if (checkpoints_.owed() && checkpoints_.has_room()) ask_for_checkpoint();
}

void Leader::ask_for_checkpoint() {
  if (checkpoints_.ask(stopping() || history_.steps.opened_all())) begin_patience_anew();
}

void Leader::begin_patience_anew() {
  if (stop_deadline_s_) stop_deadline_s_ = now_s_ + plan_.stop_patience_s();
}

void Leader::receive(const StageStoredMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  const Status status = checkpoints_.stored(message, from);
  if (!status.ok()) end(status);
}

void Leader::receive(const CheckpointDurable& checkpoint) { checkpoints_.durable(checkpoint); }

void Leader::receive(const CheckpointDropped& checkpoint) { checkpoints_.dropped(checkpoint); }

void Leader::receive(const CheckpointDamaged& checkpoint) { checkpoints_.damaged(checkpoint); }

// ---- The end of the run

void Leader::end_when_done() {
  const bool written = record_.rows().all_durable() && !history_.checkpoint_rounds.awaited();
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
                       !history_.agreement.awaited() && !record_.rows().validations_waiting();
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
  if (!checkpoint_at_a_stop(too_long) || !record_.rows().all_durable()) return;
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
                  checkpoints_.who_hangs(*stage), history_.commit_log.last_good_checkpoint());
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
  mark->goodput = record_.lives().take();
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
  record_.store(
      EventRow{record_.run_time_s(), committed().value, EventKind::late, peer.value, -1, 0,
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
  for (const PeerId peer : run_ending_.announce(view_, self_, now_s_, plan_.stop_patience_s())) {
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
  record_.store(EventRow{
      record_.run_time_s(), committed().value, EventKind::late, from.value, -1, message.since_s,
      kTaskNames[static_cast<std::size_t>(message.task)] + (": " + message.what)});
}

// What it knows of itself may be newer than this leader's view: it may have abstained as it was
// about to lead.
void Leader::receive(const AbleMessage& message, PeerId from) {
  if (!view_.contains(from) || view_.order().number_of(from) > message.number) return;
  view_.come_back(from, message.number);
  record_.store_peer_event(EventKind::late, from, {}, "storage: works again; the peer may lead");
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
  roles_.lost(peer);
  if (!view_.contains(peer)) return;
  const auto move = view_.move();
  const bool served = !view_.members().at(peer).empty();
  const bool learned = view_.learners().contains(peer);
  record_.end_life(peer, served    ? &GoodputRow::repeated_s
                         : learned ? &GoodputRow::repair_s
                                   : &GoodputRow::idle_s);
  view_.remove(peer);
  run_ending_.acknowledged(peer);
  late_.lost(peer);
  if (run_ending_.decided()) return;
  if (!plan_.recovers) return end(Status::stopped(how));
  deadline_.round_for_another_cause();
  record_.store_death(peer, how, suspicion);
  if (move && move->peer == peer) {
    record_.store_peer_event(EventKind::migrate, peer, move->to, "end of a move: it has died");
  }
  history_.forget(peer, std::nullopt);
  if (served) break_pipelines(fmt::format("peer {} of a pipeline was lost", peer.value));
  if (!round_.falling_back()) publish_view();
}

// What a peer has sent before it hears of the view is in the table with which it answers.
void Leader::publish_view() {
  if (view_.number.number > 0) round_.drop_tables(now_s_);
  roles_.settle();
  for (const auto& [peer, stages] : view_.members()) record_.lives().joined(peer, now_s_);
  late_.new_view();
  somebody_came_back_ = false;
  ++view_.number.number;
  outbox_.set_view(view_.number);
  collectives_.begin(view_.number);
  roles_.count_in(view_.number);
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
  roles_.keep_listed(from, message.learned);
  record_.lives().told_until(from, now_s_ - message.untold_s);
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
  StepRepairs repairs;
  if (!run_ending_.stop_requested()) repairs = repair_open_steps();
  if (checkpoints_.repair()) begin_patience_anew();
  const char* why = deadline_.round_ended(repairs.needed()) ? "at a deadline: " : "";
  record_.store_event(EventKind::repair, committed().value, now_s_ - round_.since_s(),
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

StepRepairs Leader::repair_open_steps() {
  history_.steps.open_through(newest_begun(round_.tables(), committed()), now_s_);
  open_steps();
  StepRepairs repairs = repair_steps(history_.steps, round_.tables(), view_, plan_, now_s_);
  for (auto& [peer, order] : repairs.orders) outbox_.send(peer, std::move(order));
  return repairs;
}

bool Leader::repairs_steps() const {
  return !run_ending_.decided() && !run_ending_.stop_requested() && !round_.falling_back();
}

bool Leader::plan_again_at_deadline() {
  const bool waits =
      plan_.recovers && repairs_steps() && (round_.gathering() || !history_.steps.empty());
  // Where work hangs, or disks are slow, no new plan helps.
  const bool helps = !late_.work_hangs(view_) && !checkpoints_.hold_commits();
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
  record_.go_on_from(history_.commit_log.state().time_s);
  history_.steps.skip_through(committed());
  for (Step step = history_.commit_log.checkpointed().next(); step < committed();
       step = step.next()) {
    history_.checkpoint_rounds.passed(step);
  }
  history_.agreement = Agreement(plan_, committed());
  for (const auto& [peer, table] : round_.tables()) {
    for (const GoodputRow& row : table.goodput) record_.lives().enter(row, committed());
  }
  if (known.empty()) return;
  // The steps whose rows may not be durable are agreed on once more, and so is the last in any
  // case: whether its checkpoint was asked for is not known.
  history_.agreement = Agreement(plan_, std::min(written, Step(committed().value - 1)));
  for (const auto& [step, record] : known) {
    if (step > history_.agreement.agreed()) await_agreement(record, 0);
  }
}

void Leader::collect_hashes() {
  for (const auto& [peer, table] : round_.tables()) {
    for (const HashFact& fact : table.hashes) history_.agreement.enter(view_, fact, peer);
  }
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
        roles_.promote(peer, stage);
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
  history_ = RunHistory(plan_, CommitLog(plan_, restart->state), history_.steps.take_router(),
                        {incarnation, view_.number.term, history_.steps.next_seal().number});
  restart_ = std::move(restart);
  published_.reset();
  history_.steps.router().go_back();
  must_go_back_.reset();
  checkpoints_.go_back();
  view_.become(std::move(redealt).value());
  record_.rows().leave_history();
  record_.lives().go_back(committed());
  roles_.leave_history();
  round_.release();
  const std::string from = manifest.checkpoint
                               ? fmt::format("the checkpoint of step {}", committed().value)
                               : "the start: there is no checkpoint";
  record_.store_stage_event(EventKind::incarnation, std::nullopt, now_s_ - round_.since_s(),
                            went_back_.why + ": all continue from " + from);
  outbox_.set_incarnation(incarnation);
  publish_view();
}

Result<View> Leader::redealt_view() const {
  const Hands hands = roles_.hands();
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
      roles_.was_released(message.peer)) {
    return;
  }
  view_.add(message.peer);
  if (message.budget_bytes) view_.set_budget(message.peer, *message.budget_bytes);
  roles_.joined(message.peer);
  record_.store_peer_event(EventKind::join, message.peer, {}, "");
  publish_view();
  // It may outlive all others, and lead: then it must store the rows that are not durable yet.
  for (const auto& [step, record] : history_.commit_log.commits()) {
    outbox_.send(message.peer, CommitMessage{record, history_.commit_log.rows_written(),
                                             history_.commit_log.checkpointed()});
  }
}

void Leader::receive(const LearnedMessage& message, PeerId from) { roles_.enter(message, from); }

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
    roles_.drop_learner(from, message.stage, "learner dropped: " + why);
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

// ---- Leaving a static pipeline

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
  roles_.notice(from, message.why);
}

// From a peer whose host is stopped or cut off no notice comes.
void Leader::note_a_stop() {
  const auto why = roles_.asked_of_all(failure_detector_.unkillable());
  if (why) run_ending_.request_stop(*why);
  // Where all steps have begun the run ends as soon by itself, and is complete.
  if (plan_.stops_at_s && record_.run_time_s() >= *plan_.stops_at_s &&
      !history_.steps.opened_all()) {
    run_ending_.request_stop(fmt::format("train.max_hours = {:g} are over", plan_.train.max_hours));
  }
}

// ---- Newcomers

void Leader::receive(const PeerSpawned& spawned) { roles_.spawned(spawned); }

void Leader::receive(const SpawnFailed& failed) { roles_.spawn_failed(failed); }

}  // namespace swarmpi
