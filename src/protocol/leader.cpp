#include "protocol/leader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {
namespace {

// A table round begins when nothing has come for so many times suspect_after_s. A peer that is
// silent is suspected long before; this is for a loss that nobody has noticed.
constexpr double kDeadlineFactor = 4;

// Tensors that a message about differing states names.
constexpr int kMaxTensorsNamed = 3;

}  // namespace

// ---- Beginning

Leader::Leader(PeerId self, const RunPlan& plan, const CommitLog& commit_log, Succession succession,
               const Outbox& outbox, double now_s)
    : self_(self),
      plan_(plan),
      outbox_(outbox.beside()),
      term_(succession.term),
      view_(std::move(succession.view)),
      takes_over_(succession.takes_over),
      commit_log_(commit_log),
      time_offset_s_(commit_log.state().time_s - (takes_over_ ? now_s : 0)),
      now_s_(now_s),
      router_(make_router(plan.swarm.wiring, plan.swarm.seed, self, StageId(0))),
      next_to_open_(committed().next()),
      next_seal_{Incarnation(commit_log.state().incarnation), succession.term, 1},
      agreed_(committed()),
      last_row_s_(commit_log.state().time_s),
      last_checkpoint_(commit_log.checkpointed()),
      round_(succession.leaderless_since_s),
      deadline_(kDeadlineFactor * plan.swarm.suspect_after_s, now_s),
      restart_(std::move(succession.restart)),
      learners_(plan, succession.workers, succession.highest_id_at_start),
      moves_(plan),
      highest_id_at_start_(succession.highest_id_at_start),
      newcomers_(succession.peers, now_s, succession.predecessor_was_silent) {
  view_.number = {term_, 0};
}

void Leader::begin(const std::map<PeerId, DepartureKind>& gone) {
  publish_view();
  const auto step = static_cast<long long>(committed().value);
  if (committed().value >= 0 && !takes_over_) {
    store_event("resume", step, 0, format("continues after step %lld", step));
  }
  for (const auto& [peer, how] : gone) {
    const bool left = how == DepartureKind::left;
    const bool led = peer == gone.begin()->first && peer < self_;
    const std::string what =
        led ? format("the leader %s; peer %d has taken over", left ? "left" : "was lost",
                     self_.value)
            : format("%s before peer %d began to lead", left ? "left" : "lost", self_.value);
    store_peer_event(left ? "leave" : "kill", peer, {}, what);
  }
  store_event("leader", step, 0, format("term %lld", static_cast<long long>(term_.value)));
}

// ---- What peers report about the open steps

void Leader::receive(const ForwardDone& message, PeerId from) {
  router_->measured(from, message.compute_s);
}

void Leader::receive(const ReportMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  const auto open_of = [&](Step step) { return open_.find(step); };
  for (const ContributionFact& fact : message.contributions) {
    if (!view_.serves(from, fact.work.stage)) continue;  // it has left the stage meanwhile
    if (const auto it = open_of(fact.work.microbatch.step); it != open_.end()) {
      it->second.enter(fact, from);
    }
  }
  for (const LossFact& fact : message.losses) {
    if (const auto it = open_of(fact.microbatch.step); it != open_.end()) {
      it->second.enter(fact);
    }
  }
  for (const HashFact& fact : message.hashes) {
    if (const auto it = unagreed_.find(fact.step); it != unagreed_.end()) {
      it->second.hashes[fact.stage][from] = fact.tensors;
    }
  }
  for (const UseFact& fact : message.uses) {
    if (const auto it = unagreed_.find(Step(fact.row.step)); it != unagreed_.end()) {
      it->second.peer_rows.push_back(fact.row);
    }
  }
}

void Leader::receive(const SealRefused& message, PeerId from) {
  const auto open = open_.find(message.step);
  if (open == open_.end() || !open->second.stands(message.stage, message.seal)) return;
  end(ExitStatus::no,
      format("step %lld, stage %d: peer %d has summed the gradients of microbatches %s, but other "
             "microbatches were sealed; this is a bug of SwarMPI: please report it",
             static_cast<long long>(message.step.value), message.stage.value, from.value,
             message.carried.text().c_str()));
}

void Leader::receive(const ReducedMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  if (!view_.serves(from, message.stage) && !view_.learns(from, message.stage)) return;
  const auto open = open_.find(message.step);
  if (open != open_.end()) open->second.enter(message, view_, from);
}

// ---- One round of decisions

// What a death has changed is known when all tables are here: until then nothing is sealed,
// committed or planned, but the peers whom it does not concern go on with what they have.
void Leader::lead() {
  if (plan_.torture_only.checks_counts) check_counts();
  if (ending_) return;
  if (round_.falling_back() || plan_again_at_deadline()) return;
  if (round_.gathering()) return;
  process_notices();
  agree_on_hashes();
  commit_reduced_steps();
  finish_validation_passes();
  store_validations();
  track_agreed_rows();
  seal_complete_steps();
  open_steps();
  issue();
  end_when_done();
  if (ending_) return;
  promote_learned();
  drop_slow_learners();
  assign_learners();
  spawn_newcomer();
  move_peers();
  process_departures();
}

void Leader::check_counts() const {
  for (const auto& [step, open] : open_) {
    SWARMPI_CHECK(open.counts_hold(view_), "acknowledgements are counted as they are");
  }
  SWARMPI_CHECK(learners_.counts_hold(view_), "peers that have joined are counted as they are");
}

std::string Leader::waiting_for() const {
  if (end_announced_) {
    std::string text = "acknowledgements of the run's end, from peers";
    for (const PeerId peer : end_unacknowledged_) text += format(" %d", peer.value);
    return text;
  }
  if (ending_) return "storage: the mark of the run's end";
  if (round_.gathering()) return round_.waiting_for();
  if (round_.falling_back()) return "storage: the manifest of the newest checkpoint";
  for (const auto& [step, open] : open_) {
    const auto number = static_cast<long long>(step.value);
    if (!open.ledger().complete()) {
      return format("microbatches of step %lld: %lld issued, %lld finished", number,
                    static_cast<long long>(open.issued_count()),
                    static_cast<long long>(open.ledger().finished_count()));
    }
    if (open.facts()) return format("the reduced gradients of step %lld", number);
  }
  if (!unagreed_.empty()) {
    return format("the state hashes of step %lld",
                  static_cast<long long>(unagreed_.begin()->first.value));
  }
  if (!checkpoints_.empty()) {
    return format("the checkpoint of step %lld",
                  static_cast<long long>(checkpoints_.begin()->first.value));
  }
  if (records_durable_ < records_stored_) return "storage: rows of the journal";
  return "nothing";
}

// ---- Open steps

void Leader::open_steps() {
  for (; !stopping() && next_to_open_.value <= plan_.last_pass();
       next_to_open_ = next_to_open_.next()) {
    if (committed().value < plan_.starts_after(next_to_open_)) return;
    open(next_to_open_);
  }
}

void Leader::open(Step step) {
  if (plan_.train_microbatches(step) + plan_.validation_in(step) == 0) return;
  if (open_.empty()) router_->all_idle();
  open_.try_emplace(step, plan_, step);
}

// One window bounds the microbatches in flight over all open steps. A step that may not start yet
// waits: its weights are those of a commit to come.
void Leader::issue() {
  if (stopping()) return;
  std::int64_t in_flight = 0;
  for (const auto& [step, open] : open_) in_flight += open.in_flight();
  for (auto& [step, open] : open_) {
    if (committed().value < plan_.starts_after(step)) return;
    for (const Purpose purpose : {Purpose::train, Purpose::validate}) {
      while (const auto id = open.next_to_issue(purpose)) {
        if (in_flight++ >= plan_.window) return;
        issue(open, *id, std::nullopt, nullptr);
      }
    }
  }
}

void Leader::issue(OpenStep& open, const MicrobatchId& id, std::optional<PeerId> to, PathRef path) {
  const PeerId peer = to ? *to : router_->choose(id);
  open.set_issued(id);
  outbox_.send(peer, IssueMessage{id, now_s_, std::move(path)});
}

// ---- Seals

void Leader::seal_complete_steps() {
  for (auto& [step, open] : open_) {
    if (plan_.train_microbatches(step) == 0) continue;
    const std::optional<SealMessage> message = open.seal(view_, next_seal_, now_s_);
    if (!message) continue;
    for (const auto& [peer, stages] : view_.members()) {
      if (!stages.empty() || view_.learners().contains(peer)) outbox_.send(peer, *message);
    }
  }
}

// ---- Commits

// In order of steps, and only when the state before is agreed on: so a checkpoint of that state can
// be asked for before anybody applies the next step.
void Leader::commit_reduced_steps() {
  while (!stopping() && agreed_ == committed()) {
    const Step step = committed().next();
    const auto it = open_.find(step);
    if (it == open_.end() || !it->second.facts() || !it->second.reduced_by_all(view_)) return;
    commit(step, it->second);
    open_.erase(it);
  }
}

void Leader::commit(Step step, const OpenStep& open) {
  const CommitRef record = std::make_shared<const CommitRecord>(
      make_commit_record(plan_, open, commit_log_.state(), term_, run_time_s()));
  commit_log_.add(record);
  if (record->skipped && step.value > 0) {
    std::string names;
    for (const std::int32_t id : record->flagged) names += " " + plan_.tensor_names.at(id);
    store_event("skip", step.value, 0, "infinite, NaN or overflowing gradients:" + names);
  }
  for (const FaultAt& fault : plan_.faults_at) {
    if (fault.event != "flip" || fault.step != step.value) continue;
    store(EventRow{run_time_s(), step.value, "flip", fault.peer, -1, 0, "faults.at in the deck"});
  }
  await_agreement(record, now_s_ - open.sealed_at_s());
  send_all(CommitMessage{record, commit_log_.rows_written(), commit_log_.checkpointed()});
}

void Leader::finish_validation_passes() {
  for (auto it = open_.begin(); it != open_.end();) {
    const bool validates_only = plan_.train_microbatches(it->first) == 0;
    if (validates_only && it->second.ledger().complete()) {
      const std::int64_t tokens = plan_.validation_in(it->first) * plan_.tokens_per_microbatch;
      add_validation(it->first,
                     it->second.ledger().facts()->validation_nats / static_cast<double>(tokens));
      it = open_.erase(it);
    } else {
      ++it;
    }
  }
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members()) outbox_.send(peer, body);
}

// ---- Agreement on state hashes

void Leader::await_agreement(const CommitRef& record, double seal_to_commit_s) {
  UnagreedStep& unagreed = unagreed_[record->step];
  unagreed.record = record;
  unagreed.seal_to_commit_s = seal_to_commit_s;
  if (plan_.validation_in(record->step) > 0) add_validation(record->step, record->validation_loss);
}

void Leader::agree_on_hashes() {
  while (!unagreed_.empty()) {
    const auto it = unagreed_.begin();
    const Step step = it->first;
    // All steps but the last were agreed on, or the next would not have been committed.
    const auto next = std::next(it);
    const std::optional<std::uint64_t> hash = next != unagreed_.end()
                                                  ? std::optional(next->second.record->hash_before)
                                                  : agreed_hash(step, it->second);
    if (!hash) return;
    commit_log_.agreed(*hash);
    agreed_ = step;
    agreed_hashes_.clear();
    for (auto& [stage, by_peer] : it->second.hashes) {
      agreed_hashes_[stage] = std::move(by_peer.begin()->second);
    }
    store_rows(it->second, *hash);
    checkpoint_owed_ = checkpoint_owed_ || plan_.checkpoint_due(step);
    // Nobody holds the state of an earlier step any more: a dead leader has committed the next.
    if (checkpoint_owed_ && step == committed()) ask_for_checkpoint(commit_log_.state());
    unagreed_.erase(it);
  }
}

template <class Value>
bool Leader::all_replicas_answered(
    const std::map<StageId, std::map<PeerId, Value>>& answers) const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const auto stage = answers.find(StageId(s));
    if (stage == answers.end()) return false;
    for (const PeerId peer : view_.replicas(StageId(s))) {
      if (!stage->second.contains(peer)) return false;
    }
  }
  return true;
}

std::optional<std::uint64_t> Leader::agreed_hash(Step step, const UnagreedStep& unagreed) {
  if (!all_replicas_answered(unagreed.hashes)) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [stage, by_peer] : unagreed.hashes) {
    if (by_peer.empty()) return std::nullopt;
    const auto& first = by_peer.begin()->second;
    for (const auto& [peer, tensors] : by_peer) {
      if (tensors == first) continue;
      end(ExitStatus::no, describe_disagreement(step, stage, by_peer));
      return std::nullopt;
    }
    for (const std::uint64_t hash : first) sum += hash;
  }
  return sum;
}

std::string Leader::unequal_tensors(StageId stage,
                                    const std::vector<std::vector<std::uint64_t>>& hashes) const {
  const auto& ids = plan_.stage_tensors.at(static_cast<std::size_t>(stage.value));
  std::string names;
  int unequal = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool equal = std::all_of(hashes.begin(), hashes.end(), [&](const auto& tensors) {
      return tensors.at(i) == hashes.front().at(i);
    });
    if (equal || ++unequal > kMaxTensorsNamed) continue;
    names += " " + plan_.tensor_names.at(static_cast<std::size_t>(ids[i]));
  }
  if (unequal > kMaxTensorsNamed) names += format(" and %d more", unequal - kMaxTensorsNamed);
  return names;
}

std::string Leader::describe_disagreement(
    Step step, StageId stage, const std::map<PeerId, std::vector<std::uint64_t>>& by_peer) const {
  std::vector<std::vector<std::uint64_t>> states;
  std::vector<std::string> groups;  // peers that hold each state
  for (const auto& [peer, tensors] : by_peer) {
    const auto known = std::find(states.begin(), states.end(), tensors);
    const auto group = static_cast<std::size_t>(known - states.begin());
    if (known == states.end()) {
      states.push_back(tensors);
      groups.emplace_back();
    }
    groups[group] += format(" %d", peer.value);
  }
  std::string text =
      format("after step %lld the replicas of stage %d disagree, peers%s",
             static_cast<long long>(step.value), stage.value, groups.front().c_str());
  for (std::size_t i = 1; i < groups.size(); ++i) text += " against" + groups[i];
  return text + ", in" + unequal_tensors(stage, states) + "; check the memory of their hosts";
}

// ---- Rows

void Leader::store_rows(const UnagreedStep& agreed, std::uint64_t state_hash) {
  const CommitRecord& record = *agreed.record;
  store(StepRow{record.step.value, record.loss, record.grad_norm, record.clip, record.lr,
                record.tokens, record.time_s, state_hash, record.skipped, record.term.value,
                commit_log_.state().incarnation});
  double compute_s = 0;
  for (const PeerRow& row : agreed.peer_rows) {
    compute_s += row.compute_s;
    store(row);
  }
  const double seconds = record.time_s - last_row_s_;
  last_row_s_ = record.time_s;
  if (seconds > 0) {
    const auto peers = static_cast<double>(std::max<std::int64_t>(departures_.serving(view_), 1));
    store(ThroughputRow{record.time_s, static_cast<double>(record.tokens) / seconds,
                        compute_s / (seconds * peers)});
  }
  store_event("commit", record.step.value, agreed.seal_to_commit_s, "");
}

void Leader::add_validation(Step step, double loss) {
  validations_[step] = {plan_.validated_step(step), loss, run_time_s()};
}

// A validation that rode on a step ran on the weights of a step before: once the step itself is
// agreed on, so are these. After the last step it rode on a pass without training.
void Leader::store_validations() {
  while (!validations_.empty()) {
    const auto& [step, row] = *validations_.begin();
    const bool agreed = std::min(step.value, plan_.train.steps) <= agreed_.value;
    if (!agreed || (!open_.empty() && open_.begin()->first < step)) return;
    store(row);
    validations_.erase(validations_.begin());
  }
}

void Leader::track_agreed_rows() {
  const Step known = rows_stored_.empty() ? commit_log_.rows_written() : rows_stored_.back().second;
  if (agreed_ > known) rows_stored_.emplace_back(records_stored_, agreed_);
}

void Leader::durable(const RecordDurable& record) {
  records_durable_ = record.number;
  while (!rows_stored_.empty() && rows_stored_.front().first <= records_durable_) {
    commit_log_.written(rows_stored_.front().second, commit_log_.checkpointed());
    rows_stored_.pop_front();
  }
}

void Leader::store(decltype(StoreRecord::row) row) {
  outbox_.act(StoreRecord{++records_stored_, std::move(row)});
}

void Leader::store_event(std::string kind, std::int64_t step, double cost_s, std::string detail) {
  store(EventRow{run_time_s(), step, std::move(kind), self_.value, -1, cost_s, std::move(detail)});
}

void Leader::store_peer_event(std::string kind, PeerId peer, std::optional<StageId> stage,
                              std::string detail) {
  store(EventRow{run_time_s(), committed().value, std::move(kind), peer.value,
                 stage ? stage->value : -1, 0, std::move(detail)});
}

// ---- Checkpoint rounds

void Leader::ask_for_checkpoint(const ResumeState& state) {
  const Step step(state.step);
  last_checkpoint_ = step;
  checkpoint_owed_ = false;
  checkpoints_[step] = {state, agreed_hashes_, now_s_, {}, {}};
  for (std::int32_t s = 0; s < plan_.stages(); ++s) ask_for_part(step, StageId(s));
}

void Leader::ask_for_part(Step step, StageId stage) {
  const PeerId peer = view_.replicas(stage).front();
  checkpoints_.at(step).asked[stage] = peer;
  outbox_.send(peer, CheckpointMessage{step, stage});
}

void Leader::receive(const StageStoredMessage& message, PeerId from) {
  deadline_.progress(now_s_);
  const auto it = checkpoints_.find(message.step);
  if (it == checkpoints_.end()) return;
  PendingCheckpoint& checkpoint = it->second;
  if (!message.stored) {
    if (checkpoint.files.contains(message.stage)) return;
    checkpoint_owed_ = true;
    last_checkpoint_ = commit_log_.checkpointed();
    checkpoints_.erase(it);
    return;
  }
  // A bit may have flipped after the update, whose result the agreed hash describes.
  const auto agreed = checkpoint.hashes.find(message.stage);
  if (agreed != checkpoint.hashes.end() && agreed->second != message.tensor_hashes) {
    return end(ExitStatus::no,
               format("checkpoint of step %lld: what peer %d has written of stage %d differs from "
                      "the state that all replicas agreed on, in",
                      static_cast<long long>(message.step.value), from.value, message.stage.value) +
                   unequal_tensors(message.stage, {message.tensor_hashes, agreed->second}) +
                   "; check the memory and the disk of its host");
  }
  if (!checkpoint.files.try_emplace(message.stage, message.file).second) return;  // sent twice
  if (static_cast<std::int64_t>(checkpoint.files.size()) < plan_.stages()) return;
  StoreManifest manifest{checkpoint.state, {}};
  for (const auto& [stage, file] : checkpoint.files) manifest.files.push_back(file);
  outbox_.act(std::move(manifest));
}

void Leader::durable(const CheckpointDurable& checkpoint) {
  const auto pending = checkpoints_.find(checkpoint.step);
  if (pending == checkpoints_.end()) return;  // of an incarnation that was left
  store_event("checkpoint", checkpoint.step.value, now_s_ - pending->second.asked_s, "");
  commit_log_.written(commit_log_.rows_written(), checkpoint.step);
  checkpoints_.erase(pending);
}

void Leader::repair_checkpoints() {
  std::vector<std::pair<Step, StageId>> unwritten;
  for (const auto& [step, checkpoint] : checkpoints_) {
    for (const auto& [stage, peer] : checkpoint.asked) {
      if (checkpoint.files.contains(stage) || view_.serves(peer, stage)) continue;
      unwritten.emplace_back(step, stage);
    }
  }
  for (const auto& [step, stage] : unwritten) ask_for_part(step, stage);
}

// ---- The end of the run

void Leader::end_when_done() {
  const bool written = records_durable_ == records_stored_ && checkpoints_.empty();
  if (stopping()) {
    if (agreed_ != committed()) return;
    const bool saved = committed() <= last_checkpoint_;
    if (stop_requested_ && !saved) return ask_for_checkpoint(commit_log_.state());
    if (!written) return;
    if (stop_requested_) return end(ExitStatus::stopped, *stop_requested_);
    return end(
        ExitStatus::no,
        format("%lld steps in a row had infinite, NaN or overflowing gradients "
               "(the last one is step %lld): the training has diverged; try a lower train.lr",
               static_cast<long long>(commit_log_.state().skips_in_a_row),
               static_cast<long long>(committed().value)));
  }
  const bool trained = next_to_open_.value > plan_.last_pass() && open_.empty() &&
                       unagreed_.empty() && validations_.empty();
  if (!trained || !written) return;
  if (checkpoint_owed_) return ask_for_checkpoint(commit_log_.state());
  end(ExitStatus::good, "");
}

// Nobody hears of the end before its mark is durable: a peer that leads after that finds the mark
// and ends the run likewise.
void Leader::end(ExitStatus code, const std::string& why) {
  if (ending_) return;
  ending_ = code == ExitStatus::good ? Status() : Status::error(code, why);
  if (storage_failed_) return announce_end();
  outbox_.act(StoreEnd{code, why});
}

void Leader::receive(const FailureMessage& message, PeerId) { end(message.code, message.why); }

void Leader::durable(const EndDurable&) { announce_end(); }

void Leader::storage_failed(const StorageFailed& failure) {
  storage_failed_ = true;
  if (!ending_) return end(failure.status.code(), failure.status.message());
  if (end_announced_) return;
  if (ending_->ok()) ending_ = failure.status;  // it does not count as complete
  announce_end();
}

void Leader::unreachable(PeerId peer) {
  unreachable_.insert(peer);
  end_unacknowledged_.erase(peer);
  end(ExitStatus::stopped, format("peer %d does not answer, and cannot be killed", peer.value));
}

void Leader::announce_end() {
  if (std::exchange(end_announced_, true)) return;
  if (!plan_.recovers) gives_up_s_ = now_s_ + kPatienceAtTheEndS;
  for (const auto& [peer, stages] : view_.members()) {
    if (peer == self_) continue;
    if (!unreachable_.contains(peer)) end_unacknowledged_.insert(peer);
    outbox_.send(peer, EndMessage{ending_->code(), ending_->message()});
  }
}

void Leader::receive(const EndHeard&, PeerId from) { end_unacknowledged_.erase(from); }

bool Leader::over() const {
  const bool gives_up = gives_up_s_ && now_s_ >= *gives_up_s_;
  return end_announced_ && (end_unacknowledged_.empty() || gives_up);
}

void Leader::send_exit() {
  for (const auto& [peer, stages] : view_.members()) {
    if (peer != self_) outbox_.send(peer, ExitMessage{});
  }
}

// ---- Table rounds
// After a death, and after each other change of the view, the leader asks all who live for their
// tables, and has done again what is missing in them, and nothing else. A new leader begins with
// such a round, and announces once more what its predecessor had committed.

void Leader::lost(PeerId peer, const std::string& how) {
  newcomers_.lost(peer, now_s_);
  if (!view_.contains(peer)) return;
  view_.remove(peer);
  end_unacknowledged_.erase(peer);
  departures_.lost(peer);
  if (ending_) return;
  if (!plan_.recovers) return end(ExitStatus::stopped, how);
  deadline_.round_for_another_cause();
  store_peer_event("kill", peer, {}, how);
  forget(peer, std::nullopt);
  if (!round_.falling_back()) publish_view();
}

void Leader::forget(PeerId peer, std::optional<StageId> stage) {
  for (auto& [step, open] : open_) open.forget(peer, stage);
  for (auto& [step, unagreed] : unagreed_) {
    for (auto& [of, by_peer] : unagreed.hashes) {
      if (!stage || of == *stage) by_peer.erase(peer);
    }
  }
}

// What a peer has sent before it hears of the view is in the table with which it answers.
void Leader::publish_view() {
  if (view_.number.number > 0) round_.drop_tables(now_s_);
  departures_.keep_last_replicas(view_);
  ++view_.number.number;
  outbox_.set_view(view_.number);
  router_->set_peers(view_.choices(StageId(0)));
  release_held_back();
  if (takes_over_ || view_.number.number > 1) round_.gather(view_.members());
  send_all(ViewMessage{share(view_), restart_});
}

void Leader::receive(const TableMessage& message, PeerId from) {
  if (ending_ || message.view != view_.number || !round_.enter(message, from)) return;
  learners_.keep_listed(from, message.learned);
  if (!round_.gathering()) finish_table_round();
}

void Leader::release_held_back() {
  for (const auto& [peer, message] : round_.release()) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
}

void Leader::receive(const UnableMessage& message, PeerId from) {
  if (round_.came_after_table(from)) return round_.hold_back(from, message);
  const auto open = open_.find(message.work.microbatch.step);
  if (ending_ || open == open_.end() || round_.gathering()) return;
  if (!open->second.ledger().finished(message.work.microbatch)) publish_view();
}

void Leader::finish_table_round() {
  for (const auto& [peer, table] : round_.tables()) {
    if (table.end) return end(table.end->code, table.end->why);
  }
  deadline_.restart(now_s_);
  if (std::exchange(takes_over_, false)) adopt_commits();
  if (!repair_stages()) return;
  collect_hashes();
  open_begun_steps();
  collect_rows();
  const WorkRows works(round_.tables());
  std::int64_t resent = 0;
  for (auto& [step, open] : open_) {
    repair_seals(open);
    resent += repair_microbatches(open, works);
  }
  repair_checkpoints();
  const char* why = deadline_.round_ended() ? "at a deadline: " : "";
  store_event("repair", committed().value, now_s_ - round_.since_s(),
              format("%s%lld microbatches sent again", why, static_cast<long long>(resent)));
  round_.end();
  release_held_back();
}

bool Leader::plan_again_at_deadline() {
  const bool waits = plan_.recovers && (round_.gathering() || !open_.empty());
  if (!waits || !deadline_.passed(now_s_)) return false;
  deadline_.round_at_deadline();
  publish_view();
  return true;
}

// ---- Repair: what a dead leader left

void Leader::adopt_commits() {
  std::map<Step, CommitRef> known;
  Step heard_by_all = committed();
  Step written = commit_log_.rows_written();
  for (const auto& [peer, table] : round_.tables()) {
    for (const CommitRef& record : table.commits) known[record->step] = record;
    const Step heard = table.commits.empty() ? Step(-1) : table.commits.back()->step;
    heard_by_all = std::min(heard_by_all, heard);
    written = std::max(written, table.written);
    commit_log_.written(written, table.checkpointed);
  }
  for (const auto& [step, record] : known) {
    if (step > committed()) commit_log_.add(record);
    const CommitMessage again{record, written, commit_log_.checkpointed()};
    if (step > heard_by_all) send_all(again);
  }
  time_offset_s_ = std::max(time_offset_s_, commit_log_.state().time_s - now_s_);
  next_to_open_ = std::max(next_to_open_, committed().next());
  last_checkpoint_ = commit_log_.checkpointed();
  for (Step step = last_checkpoint_.next(); step < committed(); step = step.next()) {
    checkpoint_owed_ = checkpoint_owed_ || plan_.checkpoint_due(step);
  }
  agreed_ = committed();
  if (known.empty()) return;
  // The steps whose rows may not be durable are agreed on once more, and so is the last in any
  // case: whether its checkpoint was asked for is not known.
  agreed_ = std::min(written, Step(committed().value - 1));
  last_row_s_ = commit_log_.state().time_s;
  for (const auto& [step, record] : known) {
    if (step > agreed_) await_agreement(record, 0);
  }
}

void Leader::collect_hashes() {
  for (const auto& [peer, table] : round_.tables()) {
    for (const HashFact& fact : table.hashes) {
      const auto unagreed = unagreed_.find(fact.step);
      if (unagreed != unagreed_.end()) unagreed->second.hashes[fact.stage][peer] = fact.tensors;
    }
  }
}

// A dead leader may have begun a step after a commit that nobody alive has heard of.
void Leader::open_begun_steps() {
  Step newest = committed();
  for (const auto& [peer, table] : round_.tables()) {
    if (!table.works.empty()) newest = std::max(newest, table.works.back().work.microbatch.step);
  }
  for (; next_to_open_ <= newest; next_to_open_ = next_to_open_.next()) open(next_to_open_);
  open_steps();
}

void Leader::collect_rows() {
  for (const auto& [peer, table] : round_.tables()) {
    for (auto& [step, open] : open_) open.enter_table(table, peer, now_s_);
    for (const ReducedMessage& reduced : table.reduced) receive(reduced, peer);
  }
}

// ---- Repair: seals and microbatches

void Leader::repair_seals(OpenStep& open) {
  for (const StageId stage : open.void_broken_seals(view_, round_.tables())) {
    for (const PeerId peer : view_.replicas(stage)) {
      outbox_.send(peer, ReopenMessage{open.step(), stage});
    }
  }
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
        issue(open, id, known ? std::optional(holder->second) : std::nullopt, path);
      }
    }
  }
  return resent;
}

// ---- Repair: a stage without replicas

bool Leader::repair_stages() {
  bool changed = false;
  for (const auto& [peer, table] : round_.tables()) {
    if (table.incarnation.value != commit_log_.state().incarnation) {
      fall_back_to_checkpoint();
      return false;
    }
  }
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    if (!view_.replicas(stage).empty()) continue;
    for (const auto& [peer, table] : round_.tables()) {
      for (const LearnedMessage& learned : table.learned) {
        if (learned.stage != stage || learned.step < committed()) continue;
        const auto agreed = agreed_hashes_.find(stage);
        const bool known = learned.step == agreed_ && agreed != agreed_hashes_.end();
        if (known && learned.tensors != agreed->second) continue;
        promote(peer, stage);
        changed = true;
      }
    }
    if (view_.replicas(stage).empty()) {
      fall_back_to_checkpoint();
      return false;
    }
  }
  if (changed) publish_view();
  return !changed;
}

void Leader::fall_back_to_checkpoint() {
  round_.fall_back();
  outbox_.act(LoadManifest{});
}

void Leader::loaded(const ManifestLoaded& manifest) {
  if (ending_ || !round_.falling_back()) return;
  round_.end_fall_back();
  auto restart = std::make_shared<RestartPoint>();
  if (manifest.checkpoint) *restart = *manifest.checkpoint;
  std::int64_t newest = commit_log_.state().incarnation;
  for (const auto& [peer, table] : round_.tables())
    newest = std::max(newest, table.incarnation.value);
  restart->state.incarnation = newest + 1;
  commit_log_ = CommitLog(plan_, restart->state);
  restart_ = std::move(restart);
  view_ = redealt_view();
  open_.clear();
  unagreed_.clear();
  validations_.clear();
  checkpoints_.clear();
  rows_stored_.clear();
  agreed_hashes_.clear();
  learners_.leave_history();
  departures_.leave_history();
  round_.release();
  next_to_open_ = committed().next();
  agreed_ = committed();
  last_checkpoint_ = committed();
  checkpoint_owed_ = false;
  const std::string from = manifest.checkpoint ? format("the checkpoint of step %lld",
                                                        static_cast<long long>(committed().value))
                                               : "the start: there is no checkpoint";
  store(EventRow{run_time_s(), committed().value, "incarnation", -1, -1, now_s_ - round_.since_s(),
                 "a stage was lost with its last replica: all continue from " + from});
  next_seal_.incarnation = Incarnation(commit_log_.state().incarnation);
  outbox_.set_incarnation(next_seal_.incarnation);
  publish_view();
}

View Leader::redealt_view() const {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  std::vector<PeerId> departing;  // they serve only if nobody else can
  for (const auto& [peer, stages] : view_.members()) {
    const bool goes = departures_.departs(peer);
    (goes ? departing : stages.empty() ? spares : workers).push_back(peer);
  }
  if (workers.empty() && spares.empty()) workers = std::exchange(departing, {});
  while (!spares.empty() &&
         static_cast<std::int64_t>(workers.size()) < learners_.wanted_workers(view_)) {
    workers.push_back(spares.front());
    spares.erase(spares.begin());
  }
  spares.insert(spares.end(), departing.begin(), departing.end());
  View view = deal_peers(workers, spares, plan_.stage_costs);
  view.number = view_.number;
  return view;
}

// ---- Learners
// Spares and newcomers learn the stages that need them most, and serve once their state is that of
// the other replicas.

void Leader::receive(const JoinMessage& message, PeerId) {
  if (view_.contains(message.peer) || !plan_.recovers) return;
  if (end_announced_) {
    outbox_.send(message.peer, EndMessage{ending_->code(), ending_->message()});
    outbox_.send(message.peer, ExitMessage{});
  }
  if (ending_ || round_.falling_back() || stopping() || departures_.was_released(message.peer))
    return;
  view_.add(message.peer);
  newcomers_.joined(message.peer);
  store_peer_event("join", message.peer, {}, "");
  publish_view();
  // It may outlive all others, and lead: then it must store the rows that are not durable yet.
  for (const auto& [step, record] : commit_log_.commits()) {
    outbox_.send(message.peer,
                 CommitMessage{record, commit_log_.rows_written(), commit_log_.checkpointed()});
  }
}

void Leader::receive(const LearnedMessage& message, PeerId from) {
  if (view_.learns(from, message.stage)) learners_.enter(message, from);
}

void Leader::assign_learners() {
  if (!may_change_roles()) return;
  if (learners_.assign(view_, departures_, now_s_)) publish_view();
}

void Leader::promote_learned() {
  if (round_.gathering() || agreed_ != committed()) return;
  const auto [ready, wrong] = learners_.judge(view_, departures_, agreed_, agreed_hashes_);
  for (const auto& [peer, stage] : ready) promote(peer, stage);
  for (const auto& [peer, stage] : wrong) {
    drop_learner(peer, stage,
                 "learner dropped: its state differs from the one that all replicas agreed on");
  }
  if (!ready.empty() || !wrong.empty()) publish_view();
}

void Leader::promote(PeerId peer, StageId stage) {
  learners_.promote(view_, peer, stage);
  store_peer_event("migrate", peer, stage, "");
}

void Leader::drop_slow_learners() {
  if (round_.gathering()) return;
  std::vector<OpenStep::LateLearner> late;
  for (auto& [step, open] : open_) {
    const auto of_step = open.late_learners(view_, now_s_, plan_.torture_only.learner_patience_s);
    late.insert(late.end(), of_step.begin(), of_step.end());
  }
  for (const auto& [peer, stage, waited_s] : late) {
    drop_learner(peer, stage, format("learner dropped: a commit waited %.3g s for it", waited_s));
  }
  if (!late.empty()) publish_view();
}

void Leader::drop_learner(PeerId peer, StageId stage, const std::string& why) {
  const double pause_s = learners_.drop(view_, peer, stage, now_s_);
  forget(peer, stage);
  store_peer_event("suspect", peer, stage, why + format("; it may begin again in %.3g s", pause_s));
}

// ---- Leaving and moving

void Leader::receive(const NoticeMessage& message, PeerId from) {
  if (!plan_.recovers && !stop_requested_) stop_requested_ = message.why;
  departures_.notice(from, message.why, now_s_);
}

// Notices from all live peers stop the run. Those that come from fewer are of peers that leave it.
void Leader::process_notices() {
  if (!stop_requested_) stop_requested_ = departures_.asked_of_all(view_);
  if (stop_requested_) return;
  for (const auto& [peer, why] :
       departures_.begin(view_, now_s_, plan_.torture_only.notices_together_s)) {
    store_peer_event("notice", peer, {}, why);
  }
}

void Leader::process_departures() {
  if (!may_change_roles()) return;
  bool changed = departures_.hand_over(
      view_, [this](PeerId peer) { return learners_.may_begin(view_, peer, now_s_); });
  const auto writes = [this](PeerId peer, StageId stage) { return writes_part(peer, stage); };
  const Departures::Progress progress{Step(next_to_open_.value - 1), committed(),
                                      agreed_ == committed(), writes};
  for (const auto& [peer, stage] : departures_.remove_drained(view_, progress)) {
    forget(peer, stage);
    store_peer_event("migrate", peer, stage, "no longer serves the stage");
    changed = true;
  }
  const bool drained = departures_.departs(self_) && view_.members().at(self_).empty();
  has_left_ = drained && records_durable_ == records_stored_ && checkpoints_.empty();
  for (const PeerId peer : departures_.release_drained(view_, self_)) {
    outbox_.send(peer, ReleaseMessage{});
    store_peer_event("leave", peer, {}, "");
    changed = true;
  }
  if (changed) publish_view();
}

bool Leader::writes_part(PeerId peer, StageId stage) const {
  return std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const auto& pending) {
    const auto asked = pending.second.asked.find(stage);
    return asked != pending.second.asked.end() && asked->second == peer &&
           !pending.second.files.contains(stage);
  });
}

void Leader::move_peers() {
  if (!may_change_roles()) return;
  if (moves_.advance(view_, departures_, learners_, committed(), now_s_)) publish_view();
}

// ---- Newcomers

void Leader::spawn_newcomer() {
  newcomers_.give_up_late(now_s_);
  // A process that is spawned cannot reach a peer that has joined later than the start.
  const bool can = plan_.swarm.spawn && may_change_roles() && self_ <= highest_id_at_start_ &&
                   !departures_.departs(self_);
  const auto staying =
      static_cast<std::int64_t>(view_.members().size() - departures_.departing().size());
  if (!can || !newcomers_.due(staying, now_s_)) return;
  newcomers_.spawning();
  outbox_.act(SpawnPeer{});
}

void Leader::receive(const PeerSpawned& spawned) {
  newcomers_.spawned(spawned.peer, now_s_);
  store(EventRow{run_time_s(), committed().value, "spawn", spawned.peer.value, -1, spawned.took_s,
                 ""});
}

void Leader::receive(const SpawnFailed& failed) {
  newcomers_.failed(now_s_);
  store_event("spawn", committed().value, 0, failed.why);
}

}  // namespace swarmpi
