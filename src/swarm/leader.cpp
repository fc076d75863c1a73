#include "swarm/leader.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

// How long a peer that was told to end may keep the leader waiting: it may be dead.
constexpr double kPatienceAtTheEndS = 5;

}  // namespace

Leader::Leader(PeerId self, const RunPlan& plan, const ResumeState& resume, Term term, View view,
               Outbox& outbox)
    : self_(self),
      plan_(plan),
      outbox_(outbox),
      term_(term),
      view_(std::move(view)),
      resume_(resume),
      time_offset_s_(resume.time_s),
      next_to_open_(resume.step + 1),
      committed_(resume.step),
      agreed_(resume.step),
      last_row_s_(resume.time_s),
      last_checkpoint_(resume.step) {
  router_ = make_router(plan.swarm.wiring, plan.swarm.seed, self, StageId(0));
  router_->set_peers(view_.replicas(StageId(0)));
  if (resume.step < 0) {
    resume_.exponents.assign(plan.delay(), Exponents(plan.tensors(), kernels::kNoExponent));
  }
}

void Leader::begin() {
  send_all(ViewMessage{view_});
  if (committed_ >= 0) {
    event("resume", committed_, 0, format("from step %lld", static_cast<long long>(committed_)));
  }
  event("leader", committed_, 0, format("term %lld", static_cast<long long>(term_.value)));
}

// ---- What the others say

void Leader::receive(const ForwardDone& message, PeerId from) {
  router_->measured(from, message.compute_s);
}

void Leader::receive(const ReportMessage& message, PeerId from) {
  const auto open_of = [&](Step step) { return open_.find(step); };
  for (const ContributionFact& fact : message.contributions) {
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

void Leader::receive(const SealAnswer& message, PeerId from) {
  for (auto& [step, open] : open_) {
    if (open.seal != message.seal) continue;
    if (!message.frozen) {
      end(ExitStatus::no,
          format("peer %d carries microbatches %s in stage %d of step %lld, which is "
                 "not what was sealed",
                 from.value, message.carried.text().c_str(), message.stage.value,
                 static_cast<long long>(step.value)));
      return;
    }
    open.frozen[message.stage][from] = true;
  }
}

void Leader::receive(const ReducedMessage& message, PeerId from) {
  for (auto& [step, open] : open_) {
    if (open.seal == message.seal) open.reduced[message.stage][from] = message.squares;
  }
}

void Leader::receive(const StageStoredMessage& message, PeerId from) {
  const auto it = checkpoints_.find(message.step);
  if (it == checkpoints_.end()) return;
  PendingCheckpoint& checkpoint = it->second;
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
  if (static_cast<std::int64_t>(checkpoint.files.size()) < plan_.stages()) return;
  StoreManifest manifest{checkpoint.state, {}};
  for (const auto& [stage, file] : checkpoint.files) manifest.files.push_back(file);
  outbox_.act(std::move(manifest));
}

void Leader::receive(const NoticeMessage& message, PeerId) {
  if (!stop_requested_) stop_requested_ = message.why;
}

void Leader::receive(const FailureMessage& message, PeerId) { end(message.code, message.why); }

void Leader::receive(const EndHeard&, PeerId from) { end_unheard_.erase(from); }

void Leader::lost(PeerId peer, const std::string& how) {
  view_.members.erase(peer);
  end_unheard_.erase(peer);
  end(ExitStatus::stopped, how);
}

void Leader::durable(const RecordDurable& record) { records_durable_ = record.number; }

void Leader::durable(const CheckpointDurable& checkpoint) {
  const auto pending = checkpoints_.find(checkpoint.step);
  SWARMPI_CHECK(pending != checkpoints_.end(), "a checkpoint that is written was asked for");
  event("checkpoint", checkpoint.step.value, now_s_ - pending->second.asked_s, "");
  checkpoints_.erase(pending);
}

void Leader::durable(const CompletionDurable&) { end(ExitStatus::good, ""); }

void Leader::storage_failed(const StorageFailed& failure) {
  end(failure.status.code(), failure.status.message());
}

// ---- What the leader decides

void Leader::lead() {
  if (ending_) return;
  agree_on_hashes();
  commit_reduced_steps();
  finish_passes();
  write_validations();
  seal_complete_steps();
  open_steps();
  issue();
  end_when_done();
}

void Leader::open_steps() {
  for (; !stopping() && next_to_open_.value <= plan_.last_pass();
       next_to_open_ = next_to_open_.next()) {
    if (committed_ < plan_.starts_after(next_to_open_)) return;
    const bool empty =
        plan_.train_microbatches(next_to_open_) + plan_.validation_in(next_to_open_) == 0;
    if (empty) continue;
    if (open_.empty()) router_->all_idle();
    open_.try_emplace(next_to_open_, plan_, next_to_open_);
  }
}

// The source: one window bounds the microbatches in flight; an older step goes before a newer one.
void Leader::issue() {
  if (stopping()) return;
  std::int64_t in_flight = 0;
  for (const auto& [step, open] : open_) in_flight += open.issued - open.ledger.finished_count();

  for (auto& [step, open] : open_) {
    const std::int64_t training = plan_.train_microbatches(step);
    const std::int64_t all = training + plan_.validation_in(step);
    for (; open.issued < all && in_flight < plan_.window; ++open.issued, ++in_flight) {
      const bool train = open.issued < training;
      const MicrobatchId id{
          step, train ? Purpose::train : Purpose::validate,
          static_cast<std::int32_t>(train ? open.issued : open.issued - training)};
      outbox_.send(router_->choose(id), IssueMessage{id, now_s_});
    }
  }
}

void Leader::seal_complete_steps() {
  for (auto& [step, open] : open_) {
    if (open.seal || plan_.train_microbatches(step) == 0 || !open.ledger.complete()) continue;
    open.seal = SealId{Incarnation(resume_.incarnation), term_, next_seal_++};
    open.sealed_at_s = now_s_;
    const bool skipped = step.value == 0 || open.ledger.flagged();
    const SealMessage seal{*open.seal, step, open.ledger.shares(), skipped};
    for (const auto& [peer, stages] : view_.members) {
      if (!stages.empty()) outbox_.send(peer, seal);
    }
  }
}

void Leader::finish_passes() {
  for (auto it = open_.begin(); it != open_.end();) {
    const bool pass = plan_.train_microbatches(it->first) == 0;
    if (pass && it->second.ledger.complete()) {
      note_validation(it->first, it->second.ledger);
      it = open_.erase(it);
    } else {
      ++it;
    }
  }
}

void Leader::ask_for_checkpoint(const ResumeState& state) {
  const Step step(state.step);
  last_checkpoint_ = state.step;
  checkpoints_[step] = {state, agreed_hashes_, now_s_, {}};
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    outbox_.send(view_.replicas(StageId(s)).front(), CheckpointMessage{step, StageId(s)});
  }
}

void Leader::end_when_done() {
  const bool written = records_durable_ == records_stored_ && checkpoints_.empty();
  if (completing_) return;  // too late to stop: the mark is on its way
  if (stopping()) {
    if (agreed_ != committed_) return;
    if (stop_requested_ && committed_ > last_checkpoint_) return ask_for_checkpoint(resume_);
    if (!written) return;
    if (stop_requested_) return end(ExitStatus::stopped, *stop_requested_);
    return end(
        ExitStatus::no,
        format("%lld steps in a row had infinite, NaN or overflowing gradients "
               "(the last one is step %lld): the training has diverged",
               static_cast<long long>(resume_.skips_in_a_row), static_cast<long long>(committed_)));
  }
  const bool trained = next_to_open_.value > plan_.last_pass() && open_.empty() &&
                       unagreed_.empty() && validations_.empty();
  if (!trained || !written) return;
  completing_ = true;
  outbox_.act(StoreCompletion{});
}

void Leader::end(ExitStatus code, const std::string& why) {
  if (ending_) return;
  ending_ = code == ExitStatus::good ? Status() : Status::error(code, why);
  gives_up_s_ = now_s_ + kPatienceAtTheEndS;
  for (const auto& [peer, stages] : view_.members) {
    if (peer == self_) continue;
    end_unheard_.insert(peer);
    outbox_.send(peer, EndMessage{code, why});
  }
}

bool Leader::over() const { return ending_ && (end_unheard_.empty() || now_s_ >= *gives_up_s_); }

// ---- Writing down

void Leader::store(decltype(StoreRecord::row) row) {
  outbox_.act(StoreRecord{++records_stored_, std::move(row)});
}

void Leader::event(std::string kind, std::int64_t step, double cost_s, std::string detail) {
  store(EventRow{run_time_s(), step, std::move(kind), self_.value, -1, cost_s, std::move(detail)});
}

void Leader::note_validation(Step step, const Ledger& ledger) {
  const std::int64_t microbatches = plan_.validation_in(step);
  if (microbatches == 0) return;
  const double tokens = static_cast<double>(microbatches * plan_.tokens_per_microbatch);
  validations_[step] = {plan_.validated_step(step), ledger.loss_nats(Purpose::validate) / tokens,
                        run_time_s()};
}

// In order of steps; a row that rode on a step is as good as the state that the step ran on.
void Leader::write_validations() {
  while (!validations_.empty()) {
    const auto& [step, row] = *validations_.begin();
    const bool agreed = std::min(step.value, plan_.train.steps) <= agreed_;
    if (!agreed || (!open_.empty() && open_.begin()->first < step)) return;
    store(row);
    validations_.erase(validations_.begin());
  }
}

void Leader::send_all(const MessageBody& body) {
  for (const auto& [peer, stages] : view_.members) outbox_.send(peer, body);
}

std::int64_t Leader::serving_peers() const {
  return std::count_if(view_.members.begin(), view_.members.end(),
                       [](const auto& member) { return !member.second.empty(); });
}

std::string Leader::waiting_for() const {
  if (ending_) return format("%zu peers to hear the end", end_unheard_.size());
  for (const auto& [step, open] : open_) {
    const auto number = static_cast<long long>(step.value);
    if (!open.ledger.complete()) {
      return format("microbatches of step %lld: %lld issued, %lld finished", number,
                    static_cast<long long>(open.issued),
                    static_cast<long long>(open.ledger.finished_count()));
    }
    if (open.seal) return format("the reduced gradients of step %lld", number);
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
  return completing_ ? "the completion mark" : "nothing";
}

}  // namespace swarmpi
