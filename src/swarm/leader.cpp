#include "swarm/leader.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {
Leader::OpenStep::OpenStep(const RunPlan& plan, Step step) : ledger(plan, step) {
  issued[Purpose::train] = Bitmap(plan.train_microbatches(step));
  issued[Purpose::validate] = Bitmap(plan.validation_in(step));
  for (std::int32_t s = 0; s < plan.stages(); ++s) stages[StageId(s)];
}

Leader::Leader(PeerId self, const RunPlan& plan, const Chronicle& chronicle, Succession succession,
               const Outbox& outbox, double now_s)
    : self_(self),
      plan_(plan),
      outbox_(outbox.beside()),
      term_(succession.term),
      view_(std::move(succession.view)),
      takes_over_(succession.takes_over),
      chronicle_(chronicle),
      time_offset_s_(chronicle.state().time_s - (takes_over_ ? now_s : 0)),
      now_s_(now_s),
      workers_(succession.workers),
      newest_at_start_(succession.newest_at_start),
      peers_at_start_(succession.peers),
      restart_(std::move(succession.restart)),
      last_loss_s_(now_s),
      calls_again_s_(succession.from_a_silent_one ? now_s + kPatienceForNewcomersS : 0),
      repair_since_s_(succession.since_s),
      next_to_open_(committed().next()),
      agreed_(committed()),
      last_row_s_(chronicle.state().time_s),
      last_checkpoint_(chronicle.checkpointed()) {
  view_.number = {term_, 0};
  note_progress();
  router_ = make_router(plan.swarm.wiring, plan.swarm.seed, self, StageId(0));
}

void Leader::begin(const std::map<PeerId, Gone>& gone) {
  publish_view();
  const auto step = static_cast<long long>(committed().value);
  if (committed().value >= 0 && !takes_over_) {
    event("resume", step, 0, format("from step %lld", step));
  }
  for (const auto& [peer, how] : gone) {
    const char* kind = how == Gone::left ? "leave" : "kill";
    store(EventRow{run_time_s(), step, kind, peer.value, -1, 0, "another leads"});
  }
  event("leader", step, 0, format("term %lld", static_cast<long long>(term_.value)));
}

// ---- What the others say

void Leader::receive(const ForwardDone& message, PeerId from) {
  router_->measured(from, message.compute_s);
}

void Leader::receive(const ReportMessage& message, PeerId from) {
  note_progress();
  if (awaits_others(from)) {
    early_.emplace_back(from, message);
    return;
  }
  const auto open_of = [&](Step step) { return open_.find(step); };
  for (const ContributionFact& fact : message.contributions) {
    if (!view_.serves(from, fact.work.stage)) continue;  // it has left the stage meanwhile
    if (const auto it = open_of(fact.work.microbatch.step); it != open_.end()) {
      it->second.ledger.note(fact, from);
    }
  }
  for (const LossFact& fact : message.losses) {
    if (const auto it = open_of(fact.microbatch.step); it != open_.end()) {
      it->second.ledger.note(fact);
    }
  }
  for (const HashFact& fact : message.hashes) {
    if (const auto it = unagreed_.find(fact.step); it != unagreed_.end()) {
      it->second.hashes[fact.stage][from] = fact.tensors;
    }
  }
  for (const UseFact& fact : message.uses) {
    if (const auto it = unagreed_.find(Step(fact.row.step)); it != unagreed_.end()) {
      it->second.uses.push_back(fact.row);
    }
  }
}

void Leader::receive(const SealRefused& message, PeerId from) {
  const auto open = open_.find(message.step);
  if (open == open_.end() || open->second.stages.at(message.stage).seal != message.seal) return;
  end(ExitStatus::no, format("peer %d carries microbatches %s in stage %d of step %lld, which is "
                             "not what was sealed",
                             from.value, message.carried.text().c_str(), message.stage.value,
                             static_cast<long long>(message.step.value)));
}

void Leader::receive(const ReducedMessage& message, PeerId from) {
  note_progress();
  if (awaits_others(from)) {
    early_.emplace_back(from, message);
    return;
  }
  if (!view_.serves(from, message.stage) && !learns(from, message.stage)) return;
  const auto open = open_.find(message.step);
  if (open != open_.end()) open->second.reduced[message.stage][from] = message.squares;
}

void Leader::receive(const StageStoredMessage& message, PeerId from) {
  note_progress();
  const auto it = checkpoints_.find(message.step);
  if (it == checkpoints_.end()) return;
  PendingCheckpoint& checkpoint = it->second;
  if (!message.stored) {
    if (checkpoint.files.contains(message.stage)) return;
    checkpoint_owed_ = true;
    last_checkpoint_ = chronicle_.checkpointed();
    checkpoints_.erase(it);
    return;
  }
  // Memory may fail between the update, which made the agreed hash, and the writing.
  const auto agreed = checkpoint.hashes.find(message.stage);
  if (agreed != checkpoint.hashes.end() && agreed->second != message.tensor_hashes) {
    return end(ExitStatus::no,
               format("peer %d has written another state of stage %d after step %lld than all had "
                      "agreed on:",
                      from.value, message.stage.value, static_cast<long long>(message.step.value)) +
                   unequal_tensors(message.stage, {message.tensor_hashes, agreed->second}));
  }
  if (!checkpoint.files.try_emplace(message.stage, message.file).second) return;  // sent twice
  const auto parts = static_cast<std::int64_t>(checkpoint.files.size());
  if (holds(Rule::whole_checkpoints) && parts < plan_.stages()) return;
  StoreManifest manifest{checkpoint.state, {}};
  for (const auto& [stage, file] : checkpoint.files) manifest.files.push_back(file);
  outbox_.act(std::move(manifest));
}

void Leader::receive(const FailureMessage& message, PeerId) { end(message.code, message.why); }

void Leader::receive(const EndHeard&, PeerId from) { end_unheard_.erase(from); }

void Leader::durable(const RecordDurable& record) {
  records_durable_ = record.number;
  const auto counts = [&](std::int64_t last_record) {
    return last_record <= records_durable_ || !holds(Rule::durable_rows);
  };
  while (!rows_stored_.empty() && counts(rows_stored_.front().first)) {
    chronicle_.written(rows_stored_.front().second, chronicle_.checkpointed());
    rows_stored_.pop_front();
  }
}

void Leader::durable(const CheckpointDurable& checkpoint) {
  const auto pending = checkpoints_.find(checkpoint.step);
  if (pending == checkpoints_.end()) return;  // of a history that was left
  event("checkpoint", checkpoint.step.value, now_s_ - pending->second.asked_s, "");
  chronicle_.written(chronicle_.rows_written(), checkpoint.step);
  checkpoints_.erase(pending);
}

void Leader::durable(const EndDurable&) { tell_the_end(); }

void Leader::storage_failed(const StorageFailed& failure) {
  storage_failed_ = true;
  if (!ending_) return end(failure.status.code(), failure.status.message());
  if (end_told_) return;
  if (ending_->ok()) ending_ = failure.status;  // it does not count as complete
  tell_the_end();
}

void Leader::unreachable(PeerId peer) {
  unreachable_.insert(peer);
  end_unheard_.erase(peer);
  end(ExitStatus::stopped, format("peer %d does not answer, and cannot be killed", peer.value));
}

// ---- What the leader decides

// What a death has changed is known when all tables are here: until then nothing is sealed,
// committed or planned, but those whom it does not concern go on with what they have.
void Leader::lead() {
  if (ending_) return;
  if (goes_back_ || plan_again_at_deadline()) return;
  if (holds(Rule::tables_first) && !tables_awaited_.empty()) return;
  weigh_notices();
  agree_on_hashes();
  commit_reduced_steps();
  finish_passes();
  write_validations();
  note_written();
  seal_complete_steps();
  open_steps();
  issue();
  end_when_done();
  if (ending_) return;
  promote_learned();
  drop_laggards();
  assign_learners();
  call_newcomers();
  move_peers();
  let_go();
}

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

// The source: one window bounds the microbatches in flight; an older step goes before a newer one.
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

void Leader::finish_passes() {
  for (auto it = open_.begin(); it != open_.end();) {
    const bool pass = plan_.train_microbatches(it->first) == 0;
    if (pass && it->second.ledger.complete()) {
      const std::int64_t tokens = plan_.validation_in(it->first) * plan_.tokens_per_microbatch;
      note_validation(it->first,
                      it->second.ledger.facts()->validation_nats / static_cast<double>(tokens));
      it = open_.erase(it);
    } else {
      ++it;
    }
  }
}

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

void Leader::end_when_done() {
  const bool written = !holds(Rule::write_before_the_end) ||
                       (records_durable_ == records_stored_ && checkpoints_.empty());
  if (stopping()) {
    if (agreed_ != committed()) return;
    const bool saved = committed() <= last_checkpoint_;
    if (stop_requested_ && !saved) return ask_for_checkpoint(chronicle_.state());
    if (!written) return;
    if (stop_requested_) return end(ExitStatus::stopped, *stop_requested_);
    return end(ExitStatus::no,
               format("%lld steps in a row had infinite, NaN or overflowing gradients "
                      "(the last one is step %lld): the training has diverged",
                      static_cast<long long>(chronicle_.state().skips_in_a_row),
                      static_cast<long long>(committed().value)));
  }
  const bool trained = next_to_open_.value > plan_.last_pass() && open_.empty() &&
                       unagreed_.empty() && validations_.empty();
  if (!trained || !written) return;
  if (checkpoint_owed_) return ask_for_checkpoint(chronicle_.state());
  end(ExitStatus::good, "");
}

// Nobody hears of it before it is durable: whoever should lead after that finds it, and ends.
void Leader::end(ExitStatus code, const std::string& why) {
  if (ending_) return;
  ending_ = code == ExitStatus::good ? Status() : Status::error(code, why);
  if (!storage_failed_) outbox_.act(StoreEnd{code, why});
  if (storage_failed_ || !holds(Rule::durable_completion)) tell_the_end();
}

void Leader::tell_the_end() {
  if (std::exchange(end_told_, true)) return;
  if (!plan_.recovers) gives_up_s_ = now_s_ + kPatienceAtTheEndS;
  for (const auto& [peer, stages] : view_.members) {
    if (peer == self_) continue;
    if (!unreachable_.contains(peer)) end_unheard_.insert(peer);
    outbox_.send(peer, EndMessage{ending_->code(), ending_->message()});
  }
}

bool Leader::over() const {
  const bool heard = end_unheard_.empty() || !holds(Rule::all_hear_the_end);
  return end_told_ && (heard || (gives_up_s_ && now_s_ >= *gives_up_s_));
}

void Leader::dismiss() {
  for (const auto& [peer, stages] : view_.members) {
    if (peer != self_) outbox_.send(peer, LeaveMessage{});
  }
}

// ---- Writing down

void Leader::store(decltype(StoreRecord::row) row) {
  outbox_.act(StoreRecord{++records_stored_, std::move(row)});
}

void Leader::event(std::string kind, std::int64_t step, double cost_s, std::string detail) {
  store(EventRow{run_time_s(), step, std::move(kind), self_.value, -1, cost_s, std::move(detail)});
}

void Leader::note_validation(Step step, double loss) {
  validations_[step] = {plan_.validated_step(step), loss, run_time_s()};
}

// In order of steps; a row that rode on a step is as good as the state that the step ran on.
void Leader::write_validations() {
  while (!validations_.empty()) {
    const auto& [step, row] = *validations_.begin();
    const bool agreed = std::min(step.value, plan_.train.steps) <= agreed_.value;
    if (!agreed || (!open_.empty() && open_.begin()->first < step)) return;
    store(row);
    validations_.erase(validations_.begin());
  }
}

// What the last agreed step was made from need not be kept once all of this is durable.
void Leader::note_written() {
  const Step known = rows_stored_.empty() ? chronicle_.rows_written() : rows_stored_.back().second;
  if (agreed_ > known) rows_stored_.emplace_back(records_stored_, agreed_);
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members) outbox_.send(peer, body);
}

std::int64_t Leader::serving_peers() const {
  return std::count_if(view_.members.begin(), view_.members.end(), [this](const auto& member) {
    return !member.second.empty() && !departing_.contains(member.first);
  });
}

std::string Leader::waiting_for() const {
  if (end_told_) return format("%zu peers to hear the end", end_unheard_.size());
  if (ending_) return "the mark of the run's end";
  if (!tables_awaited_.empty()) {
    std::string text = "the tables of peers";
    for (const PeerId peer : tables_awaited_) text += format(" %d", peer.value);
    return text;
  }
  if (goes_back_) return "the newest checkpoint";
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
  if (records_durable_ < records_stored_) return "the journal";
  return "nothing";
}

}  // namespace swarmpi
