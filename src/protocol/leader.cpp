#include "protocol/leader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "protocol/rules.hpp"
#include "protocol/step/exponents.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi {
namespace {

// A table round begins when nothing has come for so many times suspect_after_s. A peer that is
// silent is suspected long before; this is for a loss that nobody has noticed.
constexpr double kDeadlineFactor = 4;

// Tensors that a message about differing states names.
constexpr int kMaxTensorsNamed = 3;

// A learner that was dropped waits for learner_patience_s, doubled so often at most.
constexpr int kMaxBackoffDoublings = 10;

// Nobody is spawned so soon after a death: near the start of a process a death may take others
// along.
constexpr double kQuietAfterLossS = 0.25;
// After failed spawns the next one waits for a second, doubled so often at most.
constexpr int kMaxSpawnDelayDoublings = 8;

}  // namespace

// ---- Beginning

Leader::OpenStep::OpenStep(const RunPlan& plan, Step step) : ledger(plan, step) {
  issued[Purpose::train] = Bitmap(plan.train_microbatches(step));
  issued[Purpose::validate] = Bitmap(plan.validation_in(step));
  for (std::int32_t s = 0; s < plan.stages(); ++s) stages[StageId(s)];
}

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
      agreed_(committed()),
      last_row_s_(commit_log.state().time_s),
      last_checkpoint_(commit_log.checkpointed()),
      repair_since_s_(succession.leaderless_since_s),
      restart_(std::move(succession.restart)),
      workers_(succession.workers),
      highest_id_at_start_(succession.highest_id_at_start),
      peers_at_start_(succession.peers),
      last_loss_s_(now_s),
      next_spawn_s_(succession.predecessor_was_silent ? now_s + kPatienceForNewcomersS : 0) {
  view_.number = {term_, 0};
  record_progress();
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
  record_progress();
  if (came_after_table(from)) {
    held_back_.emplace_back(from, message);
    return;
  }
  const auto open_of = [&](Step step) { return open_.find(step); };
  for (const ContributionFact& fact : message.contributions) {
    if (!view_.serves(from, fact.work.stage)) continue;  // it has left the stage meanwhile
    if (const auto it = open_of(fact.work.microbatch.step); it != open_.end()) {
      it->second.ledger.add_contribution(fact, from);
    }
  }
  for (const LossFact& fact : message.losses) {
    if (const auto it = open_of(fact.microbatch.step); it != open_.end()) {
      it->second.ledger.add_loss(fact);
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
  if (open == open_.end() || open->second.stages.at(message.stage).seal != message.seal) return;
  end(ExitStatus::no,
      format("step %lld, stage %d: peer %d has summed the gradients of microbatches %s, but other "
             "microbatches were sealed; this is a bug of SwarMPI: please report it",
             static_cast<long long>(message.step.value), message.stage.value, from.value,
             message.carried.text().c_str()));
}

void Leader::receive(const ReducedMessage& message, PeerId from) {
  record_progress();
  if (came_after_table(from)) {
    held_back_.emplace_back(from, message);
    return;
  }
  if (!view_.serves(from, message.stage) && !learns(from, message.stage)) return;
  const auto open = open_.find(message.step);
  if (open != open_.end()) open->second.reduced[message.stage][from] = message.squares;
}

// ---- One round of decisions

// What a death has changed is known when all tables are here: until then nothing is sealed,
// committed or planned, but the peers whom it does not concern go on with what they have.
void Leader::lead() {
  if (ending_) return;
  if (awaits_manifest_ || plan_again_at_deadline()) return;
  if (holds(Rule::tables_first) && !tables_awaited_.empty()) return;
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

std::string Leader::waiting_for() const {
  if (end_announced_) {
    std::string text = "acknowledgements of the run's end, from peers";
    for (const PeerId peer : end_unacknowledged_) text += format(" %d", peer.value);
    return text;
  }
  if (ending_) return "storage: the mark of the run's end";
  if (!tables_awaited_.empty()) {
    std::string text = "tables of peers";
    for (const PeerId peer : tables_awaited_) text += format(" %d", peer.value);
    return text;
  }
  if (awaits_manifest_) return "storage: the manifest of the newest checkpoint";
  for (const auto& [step, open] : open_) {
    const auto number = static_cast<long long>(step.value);
    if (!open.ledger.complete()) {
      return format("microbatches of step %lld: %lld issued, %lld finished", number,
                    static_cast<long long>(open.issued.at(Purpose::train).count() +
                                           open.issued.at(Purpose::validate).count()),
                    static_cast<long long>(open.ledger.finished_count()));
    }
    if (open.facts) return format("the reduced gradients of step %lld", number);
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
  for (const auto& [step, open] : open_) {
    for (const auto& [purpose, issued] : open.issued) in_flight += issued.count();
    in_flight -= open.ledger.finished_count();
  }
  for (auto& [step, open] : open_) {
    if (committed().value < plan_.starts_after(step)) return;
    for (const Purpose purpose : {Purpose::train, Purpose::validate}) {
      const Bitmap& issued = open.issued.at(purpose);
      for (std::int64_t i = issued.first_missing(); i < issued.size(); ++i) {
        if (issued.contains(i)) continue;
        if (in_flight++ >= plan_.window && holds(Rule::window)) return;
        issue(open, {step, purpose, static_cast<std::int32_t>(i)}, std::nullopt, nullptr);
      }
    }
  }
}

void Leader::issue(OpenStep& open, const MicrobatchId& id, std::optional<PeerId> to, PathRef path) {
  const PeerId peer = to ? *to : router_->choose(id);
  open.issued.at(id.purpose).insert(id.index);
  outbox_.send(peer, IssueMessage{id, now_s_, std::move(path)});
}

// ---- Seals

void Leader::seal_complete_steps() {
  for (auto& [step, open] : open_) {
    if (plan_.train_microbatches(step) == 0) continue;
    if (!open.facts) {
      if (!open.ledger.complete()) continue;
      open.facts = open.ledger.facts();
      open.ledger.set_facts(open.facts);
      open.sealed_at_s = now_s_;
    }
    SealMessage message{step, {}, step.value == 0 || !open.facts->flagged.empty(), open.facts};
    for (auto& [stage, sealed] : open.stages) {
      if (sealed.seal || !open.ledger.covered(stage) || reduced_by_all(open, stage)) continue;
      sealed.seal = SealId{Incarnation(commit_log_.state().incarnation), term_, next_seal_++};
      sealed.replicas = view_.replicas(stage);
      sealed.learners = view_.learners_of(stage);
      sealed.finished_chunk_senders.clear();
      sealed.reduced_at_s.reset();
      const std::vector<ChunkFact> facts = chunk_facts(stage, sealed);
      for (const ChunkFact& fact : facts) sealed.finished_chunk_senders.insert(fact.from);
      if (sealed.chunk_replicas == 0 || !holds(Rule::keep_the_cut)) {
        sealed.chunk_replicas = static_cast<std::int64_t>(sealed.replicas.size());
      }
      message.stages.push_back({stage, *sealed.seal, sealed.replicas, open.ledger.shares(stage),
                                sealed.chunk_replicas, facts, sealed.learners});
    }
    if (message.stages.empty()) continue;
    for (const auto& [peer, stages] : view_.members) {
      if (!stages.empty() || view_.learners.contains(peer)) outbox_.send(peer, message);
    }
  }
}

std::vector<ChunkFact> Leader::chunk_facts(StageId stage, const SealedStage& sealed) const {
  std::vector<ChunkFact> facts;
  if (!holds(Rule::chunks_are_facts)) return facts;
  for (const auto& [chunk, holders] : sealed.finished_chunk_holders) {
    ChunkFact fact{chunk, *holders.begin(), {}};
    for (const auto& peers : {sealed.replicas, view_.learners_of(stage)}) {
      for (const PeerId peer : peers) {
        if (!holders.contains(peer)) fact.to.push_back(peer);
      }
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

// ---- Commits

// In order of steps, and only when the state before is agreed on: so a checkpoint of that state can
// be asked for before anybody applies the next step.
void Leader::commit_reduced_steps() {
  while (!stopping() && (agreed_ == committed() || !holds(Rule::agree_first))) {
    const Step step = committed().next();
    const auto it = open_.find(step);
    if (it == open_.end() || !it->second.facts || !reduced_by_all(it->second)) return;
    commit(step, it->second);
    open_.erase(it);
  }
}

// A learner that the seal names has got the gradient like a replica: without this step its state
// would fall behind.
bool Leader::reduced_by_all(const OpenStep& open, StageId stage) const {
  const auto answers = open.reduced.find(stage);
  if (answers == open.reduced.end()) return false;
  const auto has = [&](PeerId peer) { return answers->second.contains(peer); };
  const std::vector<PeerId> replicas = view_.replicas(stage);
  const bool all = std::all_of(replicas.begin(), replicas.end(), has);
  if (holds(Rule::all_acknowledge) && !all) return false;
  for (const PeerId peer : open.stages.at(stage).learners) {
    if (learns(peer, stage) && !has(peer)) return false;
  }
  return true;
}

bool Leader::reduced_by_all(const OpenStep& open) const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    if (!reduced_by_all(open, StageId(s))) return false;
  }
  return true;
}

void Leader::commit(Step step, const OpenStep& open) {
  const CommitRef record = make_commit_record(step, open);
  commit_log_.add(record);
  if (record->skipped && step.value > 0) {
    std::string names;
    for (const std::int32_t id : record->flagged) names += " " + plan_.tensor_names.at(id);
    store_event("skip", step.value, 0, "infinite, NaN or overflowing gradients:" + names);
  }
  for (const FaultAt& fault : plan_.faults_at) {
    if (fault.event != FaultEvent::flip || fault.step != step.value) continue;
    store(EventRow{run_time_s(), step.value, "flip", fault.peer, -1, 0, "faults.at in the deck"});
  }
  await_agreement(record, now_s_ - open.sealed_at_s);
  send_all(CommitMessage{record, commit_log_.rows_written(), commit_log_.checkpointed()});
}

std::shared_ptr<const CommitRecord> Leader::make_commit_record(Step step,
                                                               const OpenStep& open) const {
  auto record = std::make_shared<CommitRecord>();
  const ResumeState& before = commit_log_.state();
  record->step = step;
  record->term = term_;
  record->time_s = run_time_s();
  record->hash_before = before.state_hash;
  record->tokens = plan_.tokens_per_step();
  record->loss = open.facts->loss_nats / static_cast<double>(record->tokens);
  if (const std::int64_t validation = plan_.validation_in(step); validation > 0) {
    record->validation_loss =
        open.facts->validation_nats / static_cast<double>(validation * plan_.tokens_per_microbatch);
  }
  record->flagged = open.facts->flagged;
  record->next_exponents = next_exponents(open.facts->measured, before.exponents.back());
  record->exponents_between.assign(before.exponents.begin() + 1, before.exponents.end());
  // The measuring step sets the exponents of all steps that no step before them can set.
  if (step.value == 0) {
    for (Exponents& between : record->exponents_between) between = record->next_exponents;
  }
  record->applied_updates = before.applied_updates;
  record->skipped = step.value == 0 || !open.facts->flagged.empty();
  if (record->skipped) {
    record->grad_norm = std::numeric_limits<double>::quiet_NaN();
    record->skips_in_a_row = step.value == 0 ? 0 : before.skips_in_a_row + 1;
    return record;
  }
  record->applied_updates += 1;
  record->grad_norm = gradient_norm(open);
  const double limit = plan_.train.clip;
  if (limit > 0 && record->grad_norm > limit) {
    record->clip = static_cast<float>(limit / record->grad_norm);
  }
  record->lr = learning_rate(plan_.train, record->applied_updates);
  record->correction1 = bias_correction(plan_.train.beta1, record->applied_updates);
  record->correction2 = bias_correction(plan_.train.beta2, record->applied_updates);
  return record;
}

double Leader::gradient_norm(const OpenStep& open) const {
  std::vector<double> squares(plan_.tensors());
  for (const auto& [stage, by_peer] : open.reduced) {
    const std::vector<double>& of_stage = by_peer.begin()->second;
    const auto& ids = plan_.stage_tensors.at(stage.value);
    SWARMPI_CHECK(of_stage.size() == ids.size(), "an acknowledgement names every tensor");
    for (std::size_t i = 0; i < ids.size(); ++i) squares[ids[i]] = of_stage[i];
  }
  double sum = 0;  // in tensor order: the same bits however the tensors are dealt to stages
  for (const double square : squares) sum += square;
  return std::sqrt(sum);
}

void Leader::finish_validation_passes() {
  for (auto it = open_.begin(); it != open_.end();) {
    const bool validates_only = plan_.train_microbatches(it->first) == 0;
    if (validates_only && it->second.ledger.complete()) {
      const std::int64_t tokens = plan_.validation_in(it->first) * plan_.tokens_per_microbatch;
      add_validation(it->first,
                     it->second.ledger.facts()->validation_nats / static_cast<double>(tokens));
      it = open_.erase(it);
    } else {
      ++it;
    }
  }
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members) outbox_.send(peer, body);
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
    const auto peers = static_cast<double>(std::max<std::int64_t>(serving_peers(), 1));
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
  const auto is_durable = [&](std::int64_t last_record) {
    return last_record <= records_durable_ || !holds(Rule::durable_rows);
  };
  while (!rows_stored_.empty() && is_durable(rows_stored_.front().first)) {
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
  record_progress();
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
  const auto parts = static_cast<std::int64_t>(checkpoint.files.size());
  if (holds(Rule::whole_checkpoints) && parts < plan_.stages()) return;
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
      if (!holds(Rule::ask_another)) continue;
      unwritten.emplace_back(step, stage);
    }
  }
  for (const auto& [step, stage] : unwritten) ask_for_part(step, stage);
}

// ---- The end of the run

void Leader::end_when_done() {
  const bool written = !holds(Rule::write_before_the_end) ||
                       (records_durable_ == records_stored_ && checkpoints_.empty());
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
  if (!storage_failed_) outbox_.act(StoreEnd{code, why});
  if (storage_failed_ || !holds(Rule::durable_completion)) announce_end();
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
  for (const auto& [peer, stages] : view_.members) {
    if (peer == self_) continue;
    if (!unreachable_.contains(peer)) end_unacknowledged_.insert(peer);
    outbox_.send(peer, EndMessage{ending_->code(), ending_->message()});
  }
}

void Leader::receive(const EndHeard&, PeerId from) { end_unacknowledged_.erase(from); }

bool Leader::over() const {
  const bool heard = end_unacknowledged_.empty() || !holds(Rule::all_hear_the_end);
  return end_announced_ && (heard || (gives_up_s_ && now_s_ >= *gives_up_s_));
}

void Leader::send_exit() {
  for (const auto& [peer, stages] : view_.members) {
    if (peer != self_) outbox_.send(peer, ExitMessage{});
  }
}

// ---- Table rounds
// After a death, and after each other change of the view, the leader asks all who live for their
// tables, and has done again what is missing in them, and nothing else. A new leader begins with
// such a round, and announces once more what its predecessor had committed.

void Leader::lost(PeerId peer, const std::string& how) {
  last_loss_s_ = now_s_;
  if (spawned_at_s_.erase(peer) > 0) delay_next_spawn();
  if (!view_.members.contains(peer)) return;
  view_.remove(peer);
  end_unacknowledged_.erase(peer);
  stop_notices_.erase(peer);
  departing_.erase(peer);
  if (ending_) return;
  if (!plan_.recovers) return end(ExitStatus::stopped, how);
  at_deadline_ = false;
  store_peer_event("kill", peer, {}, how);
  forget(peer, std::nullopt);
  if (!awaits_manifest_) publish_view();
}

void Leader::forget(PeerId peer, std::optional<StageId> stage) {
  const auto forget_in = [&](auto& answers) {
    for (auto& [of, by_peer] : answers) {
      if (!stage || of == *stage) by_peer.erase(peer);
    }
  };
  for (auto& [step, open] : open_) {
    if (holds(Rule::forget_the_dead)) open.ledger.forget(peer, stage);
    forget_in(open.reduced);
    for (auto& [of, sealed] : open.stages) {
      if (holds(Rule::forget_learners) && (!stage || of == *stage)) {
        std::erase(sealed.learners, peer);
      }
    }
  }
  for (auto& [step, unagreed] : unagreed_) forget_in(unagreed.hashes);
}

// What a peer has sent before it hears of the view is in the table with which it answers.
void Leader::publish_view() {
  if (tables_awaited_.empty() && view_.number.number > 0) repair_since_s_ = now_s_;
  keep_last_replicas();
  ++view_.number.number;
  outbox_.set_view(view_.number);
  router_->set_peers(view_.choices(StageId(0)));
  tables_.clear();
  tables_awaited_.clear();
  release_held_back();
  if (takes_over_ || view_.number.number > 1) {
    for (const auto& [peer, stages] : view_.members) tables_awaited_.insert(peer);
  }
  send_all(ViewMessage{view_, restart_});
}

void Leader::receive(const TableMessage& message, PeerId from) {
  if (ending_ || message.view != view_.number || tables_awaited_.erase(from) == 0) return;
  tables_[from] = message;
  // What the peer had learned may be of a stage that it has left since, and learns anew.
  std::erase_if(learned_, [&](const auto& known) {
    const auto& [peer, stage] = known.first;
    const auto says = [&](const LearnedMessage& row) { return row.stage == stage; };
    return peer == from && std::none_of(message.learned.begin(), message.learned.end(), says);
  });
  if (!holds(Rule::tables_of_all)) tables_awaited_.clear();
  if (tables_awaited_.empty() && !awaits_manifest_) finish_table_round();
}

bool Leader::came_after_table(PeerId from) const {
  return holds(Rule::plan_from_tables) && !tables_awaited_.empty() &&
         !tables_awaited_.contains(from);
}

void Leader::release_held_back() {
  for (const auto& [peer, message] : std::exchange(held_back_, {})) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
}

void Leader::receive(const UnableMessage& message, PeerId from) {
  if (came_after_table(from)) {
    held_back_.emplace_back(from, message);
    return;
  }
  const auto open = open_.find(message.work.microbatch.step);
  if (ending_ || open == open_.end() || !tables_awaited_.empty()) return;
  if (!open->second.ledger.finished(message.work.microbatch)) publish_view();
}

void Leader::finish_table_round() {
  for (const auto& [peer, table] : tables_) {
    if (table.end && holds(Rule::pass_on_the_end)) return end(table.end->code, table.end->why);
  }
  progress_s_ = now_s_;
  if (std::exchange(takes_over_, false)) adopt_commits();
  if (!repair_stages()) return;
  collect_hashes();
  open_begun_steps();
  collect_rows();
  std::int64_t resent = 0;
  for (auto& [step, open] : open_) {
    repair_seals(step, open);
    resent += repair_microbatches(open);
  }
  repair_checkpoints();
  const char* why = std::exchange(at_deadline_, false) ? "at a deadline: " : "";
  store_event("repair", committed().value, now_s_ - repair_since_s_,
              format("%s%lld microbatches sent again", why, static_cast<long long>(resent)));
  work_rows_.clear();
  tables_.clear();
  release_held_back();
}

void Leader::record_progress() {
  progress_s_ = now_s_;
  deadline_s_ = kDeadlineFactor * plan_.swarm.suspect_after_s;
}

bool Leader::plan_again_at_deadline() {
  const bool waits = plan_.recovers && (!tables_awaited_.empty() || !open_.empty());
  if (!waits || now_s_ - progress_s_ <= deadline_s_) return false;
  deadline_s_ *= 2;  // a microbatch may take longer
  at_deadline_ = true;
  publish_view();
  return true;
}

// ---- Repair: what a dead leader left

void Leader::adopt_commits() {
  std::map<Step, CommitRef> known;
  Step heard_by_all = committed();
  Step written = commit_log_.rows_written();
  for (const auto& [peer, table] : tables_) {
    for (const CommitRef& record : table.commits) known[record->step] = record;
    const Step heard = table.commits.empty() ? Step(-1) : table.commits.back()->step;
    heard_by_all = std::min(heard_by_all, heard);
    written = std::max(written, table.written);
    commit_log_.written(written, table.checkpointed);
  }
  for (const auto& [step, record] : known) {
    if (step > committed()) commit_log_.add(record);
    const CommitMessage again{record, written, commit_log_.checkpointed()};
    if (holds(Rule::announce_again) && step > heard_by_all) send_all(again);
  }
  time_offset_s_ = std::max(time_offset_s_, commit_log_.state().time_s - now_s_);
  next_to_open_ = std::max(next_to_open_, committed().next());
  last_checkpoint_ = commit_log_.checkpointed();
  for (Step step = last_checkpoint_.next(); step < committed(); step = step.next()) {
    checkpoint_owed_ = checkpoint_owed_ || plan_.checkpoint_due(step);
  }
  agreed_ = committed();
  if (known.empty() || !holds(Rule::write_again)) return;
  // The steps whose rows may not be durable are agreed on once more, and so is the last in any
  // case: whether its checkpoint was asked for is not known.
  agreed_ = std::min(written, Step(committed().value - 1));
  last_row_s_ = commit_log_.state().time_s;
  for (const auto& [step, record] : known) {
    if (step > agreed_) await_agreement(record, 0);
  }
}

void Leader::collect_hashes() {
  for (const auto& [peer, table] : tables_) {
    for (const HashFact& fact : table.hashes) {
      const auto unagreed = unagreed_.find(fact.step);
      if (unagreed != unagreed_.end()) unagreed->second.hashes[fact.stage][peer] = fact.tensors;
    }
  }
}

// A dead leader may have begun a step after a commit that nobody alive has heard of.
void Leader::open_begun_steps() {
  Step newest = committed();
  for (const auto& [peer, table] : tables_) {
    if (!table.works.empty()) newest = std::max(newest, table.works.back().work.microbatch.step);
  }
  for (; next_to_open_ <= newest; next_to_open_ = next_to_open_.next()) open(next_to_open_);
  open_steps();
}

void Leader::collect_rows() {
  const auto open_of = [&](Step step) {
    const auto found = open_.find(step);
    return found == open_.end() ? nullptr : &found->second;
  };
  for (const auto& [peer, table] : tables_) {
    for (const FactsRow& row : table.facts) {
      OpenStep* open = open_of(row.step);
      if (open == nullptr || open->facts || !holds(Rule::keep_facts)) continue;
      open->facts = row.facts;
      open->ledger.set_facts(row.facts);
      open->sealed_at_s = now_s_;
    }
    for (const LossFact& loss : table.losses) {
      if (OpenStep* open = open_of(loss.microbatch.step)) {
        open->ledger.add_loss(loss);
        open->issued.at(loss.microbatch.purpose).insert(loss.microbatch.index);
      }
    }
    for (const StageRow& row : table.stages) {
      if (OpenStep* open = open_of(row.step)) {
        open->ledger.add_stage_row(row, peer);
        open->issued.at(Purpose::train).merge(row.contributed);
      }
    }
    for (const ReducedMessage& reduced : table.reduced) receive(reduced, peer);
    for (const WorkRow& row : table.works) {
      if (OpenStep* open = open_of(row.work.microbatch.step)) {
        work_rows_[row.work].emplace_back(peer, &row);
        if (!holds(Rule::issue_once)) continue;
        open->issued.at(row.work.microbatch.purpose).insert(row.work.microbatch.index);
      }
    }
  }
}

// ---- Repair: seals

// Chunks that are finished stay so. For the others the share of a dead peer is needed again, if it
// had one: its microbatches are missing, and the accumulators of those who live take them again.
void Leader::repair_seals(Step step, OpenStep& open) {
  if (!open.facts) return;
  const bool skipped = step.value == 0 || !open.facts->flagged.empty();
  for (auto& [stage, sealed] : open.stages) {
    collect_finished_chunks(stage, step, sealed);
    const auto finished = static_cast<std::int64_t>(sealed.finished_chunk_holders.size());
    const bool reduced =
        sealed.chunk_replicas > 0 && finished == chunk_count(stage, sealed.chunk_replicas);
    open.ledger.set_settled(stage, skipped || reduced);
    const bool stays = seal_is_valid(stage, sealed) || !holds(Rule::void_seals_of_the_dead);
    if (sealed.seal && stays) continue;
    sealed.seal.reset();
    if (open.ledger.covered(stage) || !holds(Rule::reopen)) continue;
    for (const PeerId peer : view_.replicas(stage)) outbox_.send(peer, ReopenMessage{step, stage});
  }
}

bool Leader::seal_is_valid(StageId stage, const SealedStage& sealed) const {
  const std::vector<PeerId> replicas = view_.replicas(stage);
  const auto takes_part = [&](PeerId peer) {
    if (!holds(Rule::void_seals_of_the_left)) return view_.members.contains(peer);
    return view_.serves(peer, stage) || learns(peer, stage);
  };
  const auto named = [&](PeerId peer) {
    const auto in = [&](const std::vector<PeerId>& peers) {
      return std::find(peers.begin(), peers.end(), peer) != peers.end();
    };
    return in(sealed.replicas) || in(sealed.learners);
  };
  return std::all_of(sealed.replicas.begin(), sealed.replicas.end(), takes_part) &&
         std::all_of(sealed.finished_chunk_senders.begin(), sealed.finished_chunk_senders.end(),
                     takes_part) &&
         std::all_of(replicas.begin(), replicas.end(), named);
}

void Leader::collect_finished_chunks(StageId stage, Step step, SealedStage& sealed) const {
  sealed.finished_chunk_holders.clear();
  for (const auto& [peer, table] : tables_) {
    for (const StageRow& row : table.stages) {
      if (row.stage != stage || row.step != step || row.chunk_replicas == 0) continue;
      SWARMPI_CHECK(sealed.chunk_replicas == 0 || sealed.chunk_replicas == row.chunk_replicas,
                    "all seals of a stage cut the same chunks");
      sealed.chunk_replicas = row.chunk_replicas;
      for (const std::int32_t chunk : row.chunks) sealed.finished_chunk_holders[chunk].insert(peer);
    }
  }
}

std::int64_t Leader::chunk_count(StageId stage, std::int64_t chunk_replicas) const {
  const std::vector<Block> blocks = cut_into_blocks(plan_.elements_in(stage));
  return static_cast<std::int64_t>(
      cut_into_chunks(blocks, chunk_replicas, plan_.reduction_chunk_elements).size());
}

// ---- Repair: microbatches

std::int64_t Leader::repair_microbatches(OpenStep& open) {
  std::int64_t resent = 0;
  for (const auto& [purpose, issued] : open.issued) {
    for (std::int64_t i = 0; i < issued.size(); ++i) {
      const MicrobatchId id{open.ledger.step(), purpose, static_cast<std::int32_t>(i)};
      if (!issued.contains(i) || open.ledger.finished(id)) continue;
      const MicrobatchState state = microbatch_state(open, id);
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
  }
  return resent;
}

MicrobatchState Leader::microbatch_state(const OpenStep& open, const MicrobatchId& id) const {
  MicrobatchState state{id, {}, {}};
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const WorkId work{id, StageId(s)};
    const bool training = id.purpose == Purpose::train;
    std::optional<StageHolder> holder;
    if (training) {
      if (const auto peer = open.ledger.contributor(work)) {
        holder.emplace().peer = *peer;
        holder->contributed = true;
      }
    }
    state.settled.push_back(training && open.ledger.settled(work.stage));
    const auto rows = work_rows_.find(work);
    if (rows != work_rows_.end()) {
      for (const auto& [peer, row] : rows->second) {
        if (holder && holder->peer != peer) continue;
        // A peer that is through with it and has contributed nothing is of no use where the stage
        // still needs a contribution.
        const bool of_use =
            holder || !training || row->phase != Phase::over || state.settled.back();
        if (!of_use) continue;
        if (!holder) holder.emplace().peer = peer;
        holder->phase = row->phase;
        holder->sent_to = row->sent_to;
        holder->planned_in = row->planned_in;
        holder->last = row->last;
        holder->path_broken = row->path_broken;
        holder->keeps_output = row->keeps_output;
        holder->gives_gradient = row->gives_gradient;
      }
    }
    state.stages.push_back(std::move(holder));
  }
  return state;
}

// ---- Repair: a stage without replicas

bool Leader::repair_stages() {
  bool changed = false;
  for (const auto& [peer, table] : tables_) {
    if (table.incarnation.value != commit_log_.state().incarnation) {
      fall_back_to_checkpoint();
      return false;
    }
  }
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    if (!view_.replicas(stage).empty()) continue;
    for (const auto& [peer, table] : tables_) {
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
  awaits_manifest_ = true;
  tables_awaited_.clear();
  outbox_.act(LoadManifest{});
}

void Leader::loaded(const ManifestLoaded& manifest) {
  if (ending_ || !awaits_manifest_) return;
  awaits_manifest_ = false;
  auto restart = std::make_shared<RestartPoint>();
  if (manifest.checkpoint) *restart = *manifest.checkpoint;
  std::int64_t newest = commit_log_.state().incarnation;
  for (const auto& [peer, table] : tables_) newest = std::max(newest, table.incarnation.value);
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
  learned_.clear();
  drained_after_.clear();
  held_back_.clear();
  next_to_open_ = committed().next();
  agreed_ = committed();
  last_checkpoint_ = committed();
  checkpoint_owed_ = false;
  const std::string from = manifest.checkpoint ? format("the checkpoint of step %lld",
                                                        static_cast<long long>(committed().value))
                                               : "the start: there is no checkpoint";
  store(EventRow{run_time_s(), committed().value, "incarnation", -1, -1, now_s_ - repair_since_s_,
                 "a stage was lost with its last replica: all continue from " + from});
  outbox_.set_incarnation(Incarnation(commit_log_.state().incarnation));
  publish_view();
}

View Leader::redealt_view() const {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  std::vector<PeerId> departing;  // they serve only if nobody else can
  for (const auto& [peer, stages] : view_.members) {
    const bool goes = departing_.contains(peer);
    (goes ? departing : stages.empty() ? spares : workers).push_back(peer);
  }
  if (workers.empty() && spares.empty()) workers = std::exchange(departing, {});
  while (!spares.empty() && static_cast<std::int64_t>(workers.size()) < wanted_workers()) {
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
  if (view_.members.contains(message.peer) || !plan_.recovers) return;
  if (end_announced_) {
    outbox_.send(message.peer, EndMessage{ending_->code(), ending_->message()});
    outbox_.send(message.peer, ExitMessage{});
  }
  if (ending_ || awaits_manifest_ || stopping() || released_.contains(message.peer)) return;
  view_.members[message.peer];
  if (spawned_at_s_.erase(message.peer) > 0) failed_spawns_ = 0;
  store_peer_event("join", message.peer, {}, "");
  publish_view();
  // It may outlive all others, and lead: then it must store the rows that are not durable yet.
  for (const auto& [step, record] : commit_log_.commits()) {
    if (!holds(Rule::tell_newcomers)) break;
    outbox_.send(message.peer,
                 CommitMessage{record, commit_log_.rows_written(), commit_log_.checkpointed()});
  }
}

void Leader::receive(const LearnedMessage& message, PeerId from) {
  if (learns(from, message.stage)) learned_[{from, message.stage}] = message;
}

// Spares that are not needed in the place of the dead are shadows: they learn for good.
void Leader::assign_learners() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  std::int64_t busy = busy_peers();
  bool changed = false;
  for (const auto& [peer, stages] : view_.members) {
    if (!stages.empty() || view_.learners.contains(peer)) continue;
    if (departing_.contains(peer) || backs_off(peer)) continue;
    if (busy >= wanted_workers() + plan_.swarm.shadows) break;
    ++busy;
    if (!spare_ready(peer)) continue;
    view_.learners[peer] = {*neediest_stage()};
    changed = true;
  }
  if (changed) publish_view();
}

bool Leader::spare_ready(PeerId spare) {
  if (plan_.swarm.spare_delay_s <= 0 || spare > highest_id_at_start_) return true;
  return now_s_ >= ready_at_s_.try_emplace(spare, now_s_ + plan_.swarm.spare_delay_s).first->second;
}

// A stage that would be left without a peer goes before all others.
std::optional<StageId> Leader::neediest_stage() const {
  std::optional<StageId> neediest;
  double most = 0;
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    const std::size_t peers = staying(stage).size() + view_.learners_of(stage).size();
    const double load =
        peers == 0 ? std::numeric_limits<double>::infinity()
                   : plan_.stage_costs.at(static_cast<std::size_t>(s)) / static_cast<double>(peers);
    if (neediest && load <= most) continue;
    neediest = stage;
    most = load;
  }
  return neediest;
}

void Leader::promote_learned() {
  if (!tables_awaited_.empty() || agreed_ != committed()) return;
  std::vector<std::pair<PeerId, StageId>> ready, wrong;
  std::int64_t serving = serving_peers();
  for (const auto& [peer, stages] : view_.learners) {
    for (const StageId stage : stages) {
      const auto learned = learned_.find({peer, stage});
      if (learned == learned_.end()) continue;
      const bool of_last_step = learned->second.step == agreed_ && agreed_hashes_.contains(stage);
      if (of_last_step && learned->second.tensors != agreed_hashes_.at(stage)) {
        wrong.emplace_back(peer, stage);
        continue;
      }
      // Where nobody more is wanted it learns on, as a shadow.
      const bool wanted =
          serving < wanted_workers() || staying(stage).empty() || !view_.members.at(peer).empty();
      if (!wanted || (holds(Rule::learners_agree) && !of_last_step)) continue;
      ready.emplace_back(peer, stage);
      if (view_.members.at(peer).empty()) ++serving;
    }
  }
  for (const auto& [peer, stage] : ready) promote(peer, stage);
  for (const auto& [peer, stage] : wrong) {
    drop_learner(peer, stage,
                 "learner dropped: its state differs from the one that all replicas agreed on");
  }
  if (!ready.empty() || !wrong.empty()) publish_view();
}

void Leader::promote(PeerId peer, StageId stage) {
  view_.learners.at(peer).erase(stage);
  if (view_.learners.at(peer).empty()) view_.learners.erase(peer);
  view_.members.at(peer).insert(stage);
  learned_.erase({peer, stage});
  store_peer_event("migrate", peer, stage, "");
}

void Leader::drop_slow_learners() {
  if (!tables_awaited_.empty()) return;
  struct Late {
    PeerId peer;
    StageId stage;
    double waited_s;
  };
  std::vector<Late> late;
  for (auto& [step, open] : open_) {
    for (auto& [stage, sealed] : open.stages) {
      const auto reduced = open.reduced.find(stage);
      if (!sealed.seal || reduced == open.reduced.end()) continue;
      const auto has = [&](PeerId peer) { return reduced->second.contains(peer); };
      const std::vector<PeerId> replicas = view_.replicas(stage);
      if (!std::all_of(replicas.begin(), replicas.end(), has)) continue;
      if (!sealed.reduced_at_s) sealed.reduced_at_s = now_s_;
      const double waited_s = now_s_ - *sealed.reduced_at_s;
      if (waited_s < plan_.learner_patience_s) continue;
      for (const PeerId peer : sealed.learners) {
        if (learns(peer, stage) && !has(peer)) late.push_back({peer, stage, waited_s});
      }
    }
  }
  for (const auto& [peer, stage, waited_s] : late) {
    drop_learner(peer, stage, format("learner dropped: a commit waited %.3g s for it", waited_s));
  }
  if (!late.empty()) publish_view();
}

void Leader::drop_learner(PeerId peer, StageId stage, const std::string& why) {
  view_.take_from(peer, stage);
  forget(peer, stage);
  learned_.erase({peer, stage});
  LearnerBackoff& backoff = learner_backoffs_[peer];
  backoff.times = std::min(backoff.times + 1, kMaxBackoffDoublings);
  const double pause_s = plan_.learner_patience_s * static_cast<double>(1 << backoff.times);
  backoff.until_s = now_s_ + pause_s;
  store_peer_event("suspect", peer, stage, why + format("; it may begin again in %.3g s", pause_s));
}

bool Leader::backs_off(PeerId peer) const {
  const auto backoff = learner_backoffs_.find(peer);
  return backoff != learner_backoffs_.end() && now_s_ < backoff->second.until_s;
}

bool Leader::learns(PeerId peer, StageId stage) const {
  const auto learns = view_.learners.find(peer);
  return learns != view_.learners.end() && learns->second.contains(stage);
}

std::int64_t Leader::wanted_workers() const {
  return workers_ + std::count_if(view_.members.begin(), view_.members.end(),
                                  [&](const auto& m) { return m.first > highest_id_at_start_; });
}

std::int64_t Leader::serving_peers() const {
  return std::count_if(view_.members.begin(), view_.members.end(), [this](const auto& member) {
    return !member.second.empty() && !departing_.contains(member.first);
  });
}

std::int64_t Leader::busy_peers() const {
  return std::count_if(view_.members.begin(), view_.members.end(), [&](const auto& member) {
    const bool idle = member.second.empty() && !view_.learners.contains(member.first);
    return !idle && !departing_.contains(member.first);
  });
}

std::vector<PeerId> Leader::staying(StageId stage) const {
  std::vector<PeerId> peers = view_.staying(stage);
  std::erase_if(peers, [this](PeerId peer) { return departing_.contains(peer); });
  return peers;
}

// ---- Leaving
// A peer that was asked to leave hands over the stages that only it serves, gets no new work, and
// is released once what it has done is committed: no work is lost.

void Leader::receive(const NoticeMessage& message, PeerId from) {
  if (!plan_.recovers && !stop_requested_) stop_requested_ = message.why;
  stop_notices_.try_emplace(from, StopNotice{now_s_, message.why});
}

void Leader::process_notices() {
  if (stop_notices_.empty() || stop_requested_) return;
  const bool from_all =
      std::all_of(view_.members.begin(), view_.members.end(),
                  [this](const auto& member) { return stop_notices_.contains(member.first); });
  if (from_all) {
    stop_requested_ = stop_notices_.begin()->second.why;
    return;
  }
  for (const auto& [peer, notice] : stop_notices_) {
    if (now_s_ < notice.at_s + plan_.notices_together_s || !view_.members.contains(peer)) continue;
    if (!departing_.insert(peer).second) continue;
    store_peer_event("notice", peer, {}, notice.why);
  }
}

void Leader::process_departures() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  bool changed = hand_over_stages();
  changed |= remove_drained();
  changed |= release_drained();
  if (changed) publish_view();
}

bool Leader::hand_over_stages() {
  bool changed = false;
  for (const PeerId peer : departing_) {
    for (const StageId stage : view_.members.at(peer)) {
      if (!staying(stage).empty() || !holds(Rule::hand_over_first)) {
        changed |= mark_leaving(peer, stage);
      } else {
        changed |= choose_successor(stage);
      }
    }
  }
  return changed;
}

bool Leader::choose_successor(StageId stage) {
  const auto departs = [this](PeerId peer) { return departing_.contains(peer); };
  const std::vector<PeerId> learners = view_.learners_of(stage);
  if (!std::all_of(learners.begin(), learners.end(), departs)) return false;
  for (const PeerId replica : view_.replicas(stage)) {
    if (!departs(replica)) return cancel_leaving(replica, stage);  // it was about to move
  }
  std::optional<PeerId> successor;
  for (const auto& [peer, stages] : view_.members) {
    if (departs(peer) || backs_off(peer) || (stages.empty() && !spare_ready(peer))) continue;
    if (!successor || stages.size() < view_.members.at(*successor).size()) successor = peer;
  }
  if (successor) view_.learners[*successor].insert(stage);
  return successor.has_value();
}

bool Leader::mark_leaving(PeerId peer, StageId stage) {
  return view_.leaving[peer].insert(stage).second;
}

bool Leader::cancel_leaving(PeerId peer, StageId stage) {
  drained_after_.erase({peer, stage});
  const auto leaves = view_.leaving.find(peer);
  if (leaves == view_.leaving.end() || leaves->second.erase(stage) == 0) return false;
  if (leaves->second.empty()) view_.leaving.erase(leaves);
  return true;
}

void Leader::keep_last_replicas() {
  if (!holds(Rule::hand_over_first)) return;
  std::vector<std::pair<PeerId, StageId>> needed;
  for (const auto& [peer, stages] : view_.leaving) {
    for (const StageId stage : stages) {
      if (view_.staying(stage).empty()) needed.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : needed) cancel_leaving(peer, stage);
}

// Its last microbatches are of the steps that were open when it was first seen to leave.
bool Leader::is_drained(PeerId peer, StageId stage) {
  if (!holds(Rule::drain_first)) return true;
  const Step newest(next_to_open_.value - 1);
  const Step last = drained_after_.try_emplace({peer, stage}, newest).first->second;
  if (committed() < last || agreed_ != committed()) return false;
  return std::none_of(checkpoints_.begin(), checkpoints_.end(), [&](const auto& pending) {
    const auto asked = pending.second.asked.find(stage);
    return asked != pending.second.asked.end() && asked->second == peer &&
           !pending.second.files.contains(stage);
  });
}

bool Leader::remove_drained() {
  std::vector<std::pair<PeerId, StageId>> drained;
  for (const auto& [peer, stages] : view_.leaving) {
    for (const StageId stage : stages) {
      if (is_drained(peer, stage)) drained.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : drained) {
    view_.take_from(peer, stage);
    drained_after_.erase({peer, stage});
    forget(peer, stage);
    store_peer_event("migrate", peer, stage, "no longer serves the stage");
  }
  return !drained.empty();
}

bool Leader::release_drained() {
  std::vector<PeerId> gone;
  for (const PeerId peer : departing_) {
    if (!view_.members.at(peer).empty()) continue;
    if (peer != self_) {
      gone.push_back(peer);
    } else if (records_durable_ == records_stored_ && checkpoints_.empty()) {
      has_left_ = true;
    }
  }
  for (const PeerId peer : gone) {
    view_.remove(peer);
    departing_.erase(peer);
    stop_notices_.erase(peer);
    released_.insert(peer);
    outbox_.send(peer, ReleaseMessage{});
    store_peer_event("leave", peer, {}, "");
  }
  return !gone.empty();
}

// ---- Moving
// A peer learns the new stage while it serves the old one, and then leaves that as above.

void Leader::move_peers() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  bool changed = false;
  for (std::size_t i = 0; i < plan_.moves.size(); ++i) {
    const Move& move = plan_.moves[i];
    if (moves_done_.contains(i) || committed() < move.after || superseded(i)) continue;
    const auto member = view_.members.find(move.peer);
    const bool can =
        member != view_.members.end() && !member->second.empty() && !departing_.contains(move.peer);
    if (!can || member->second.contains(move.to)) {
      moves_done_.insert(i);
      if (can) changed |= cancel_leaving(move.peer, move.to);
      for (const StageId stage : can ? member->second : std::set<StageId>()) {
        const std::vector<PeerId> others = staying(stage);
        const bool needed = others.size() == 1 && others.front() == move.peer;
        if (stage != move.to && !needed) changed |= mark_leaving(move.peer, stage);
      }
    } else if (!learns(move.peer, move.to) && !backs_off(move.peer)) {
      view_.learners[move.peer].insert(move.to);
      changed = true;
    }
  }
  if (changed) publish_view();
}

// A new leader finds moves due that a leader before it has made.
bool Leader::superseded(std::size_t move) const {
  for (std::size_t i = move + 1; i < plan_.moves.size(); ++i) {
    const Move& later = plan_.moves[i];
    if (later.peer == plan_.moves[move].peer && later.after <= committed()) return true;
  }
  return false;
}

// ---- Newcomers
// Processes are spawned in the place of peers that are gone, one at a time. Nobody waits for them.

void Leader::spawn_newcomer() {
  const auto late = [this](const auto& one) {
    return now_s_ > one.second + kPatienceForNewcomersS;
  };
  if (std::erase_if(spawned_at_s_, late) > 0) delay_next_spawn();
  const bool calm = now_s_ >= std::max(last_loss_s_ + kQuietAfterLossS, next_spawn_s_);
  if (!needs_newcomer() || spawning_ || !calm) return;
  spawning_ = true;
  outbox_.act(SpawnPeer{});
}

bool Leader::needs_newcomer() const {
  if (!plan_.swarm.spawn || !plan_.recovers || stopping() || !tables_awaited_.empty()) return false;
  // A process that is spawned cannot reach a peer that has joined later than the start.
  if (self_ > highest_id_at_start_ || departing_.contains(self_)) return false;
  const auto leaves = [this](const auto& member) { return departing_.contains(member.first); };
  const auto staying = static_cast<std::int64_t>(view_.members.size()) -
                       std::count_if(view_.members.begin(), view_.members.end(), leaves);
  return staying + static_cast<std::int64_t>(spawned_at_s_.size()) < peers_at_start_;
}

void Leader::receive(const PeerSpawned& spawned) {
  spawning_ = false;
  spawned_at_s_[spawned.peer] = now_s_;
  store(EventRow{run_time_s(), committed().value, "spawn", spawned.peer.value, -1, spawned.took_s,
                 ""});
}

void Leader::receive(const SpawnFailed& failed) {
  spawning_ = false;
  delay_next_spawn();
  store_event("spawn", committed().value, 0, failed.why);
}

void Leader::delay_next_spawn() {
  failed_spawns_ = std::min(failed_spawns_ + 1, kMaxSpawnDelayDoublings);
  next_spawn_s_ = now_s_ + static_cast<double>(1 << failed_spawns_);
}

}  // namespace swarmpi
