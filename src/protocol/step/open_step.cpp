#include "protocol/step/open_step.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/check.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

OpenStep::OpenStep(const RunPlan& plan, Step step, double opened_at_s)
    : plan_(plan), ledger_(plan, step), opened_at_s_(opened_at_s) {
  issued_[Purpose::train] = Bitmap(plan.train_microbatches(step));
  issued_[Purpose::validate] = Bitmap(plan.validation_in(step));
  for (std::int32_t s = 0; s < plan.stages(); ++s) stages_[StageId(s)];
}

// ---- Issue

std::int64_t OpenStep::issued_count() const {
  return issued_.at(Purpose::train).count() + issued_.at(Purpose::validate).count();
}

std::optional<MicrobatchId> OpenStep::next_to_issue(Purpose purpose) const {
  const Bitmap& issued = issued_.at(purpose);
  const std::int64_t index = issued.first_missing();
  if (index == issued.size()) return std::nullopt;
  return MicrobatchId{step(), purpose, static_cast<std::int32_t>(index)};
}

// ---- What peers report

void OpenStep::enter(const ReducedMessage& message, const View& view, PeerId from) {
  begin_attempt(message.stage, message.attempt);
  if (message.attempt < stages_.at(message.stage).attempt) return;
  reduced_.enter(view, message.stage, from, message.gradient);
}

void OpenStep::forget(PeerId peer, std::optional<StageId> stage) {
  ledger_.forget(peer, stage);
  reduced_.forget(peer, stage);
  for (auto& [of, sealed] : stages_) {
    if (!stage || of == *stage) std::erase(sealed.learners, peer);
  }
}

// ---- Seal and reduction

bool OpenStep::skipped() const { return step().value == 0 || !facts_->flagged.empty(); }

std::optional<StepSeal> OpenStep::seal(const View& view, SealId& next, double now_s,
                                       const CollectiveBallot& collectives) {
  if (!facts_) {
    if (!ledger_.complete()) return std::nullopt;
    facts_ = ledger_.facts();
    ledger_.set_facts(facts_);
    sealed_at_s_ = now_s;
  }
  StepSeal seal(step(), skipped(), facts_);
  for (auto& [stage, sealed] : stages_) {
    if (sealed.seal || !ledger_.covered(stage) || reduced_by_all(view, stage)) continue;
    sealed.seal = next;
    ++next.number;
    sealed.replicas = view.replicas(stage);
    sealed.learners = view.learners_of(stage);
    sealed.finished_chunk_senders.clear();
    sealed.reduced_at_s.reset();
    std::vector<PeerId> wanted_by = sealed.replicas;
    wanted_by.insert(wanted_by.end(), sealed.learners.begin(), sealed.learners.end());
    std::vector<ChunkFact> finished = deal_out(sealed.finished_chunk_holders, wanted_by);
    for (const ChunkFact& fact : finished) {
      if (!fact.to.empty()) sealed.finished_chunk_senders.insert(fact.from);
    }
    // Whatever went wrong under an earlier seal: what follows it goes point to point.
    const bool is_first = sealed.attempt == 0 && sealed.chunk_replicas == 0;
    sealed.by_collective = is_first && !skipped() && collectives.all_ready(stage, sealed.replicas);
    if (sealed.chunk_replicas == 0) {
      // What a lone replica sends to learners is cut as well: no message is as large as a stage.
      const std::int64_t least = sealed.learners.empty() ? 1 : 2;
      sealed.chunk_replicas = std::max(least, static_cast<std::int64_t>(sealed.replicas.size()));
    }
    const std::int64_t chunks = finished.empty() ? 0 : chunk_count(stage, sealed.chunk_replicas);
    seal.add({stage, *sealed.seal, sealed.replicas, sealed.learners, ledger_.shares(stage),
              sealed.chunk_replicas, chunks, std::move(finished), sealed.attempt,
              sealed.by_collective ? std::optional(view.number) : std::nullopt});
  }
  if (seal.empty()) return std::nullopt;
  return seal;
}

// A learner that the seal names has got the gradient like a replica: without this step its state
// would fall behind.
bool OpenStep::reduced_by_all(const View& view, StageId stage) const {
  if (!reduced_.from_all(view, stage)) return false;
  const auto& learners = stages_.at(stage).learners;
  return std::none_of(learners.begin(), learners.end(), [&](PeerId peer) {
    return view.learns(peer, stage) && !reduced_.has(stage, peer);
  });
}

bool OpenStep::reduced_by_all(const View& view) const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [&](const auto& stage) { return reduced_by_all(view, stage.first); });
}

double OpenStep::gradient_norm() const {
  std::vector<double> squares(plan_.tensors());
  for (const auto& [stage, sealed] : stages_) {
    const std::vector<double>& of_stage = reduced_.of(stage).begin()->second.squares;
    const auto& ids = plan_.stage_tensors.at(stage.value);
    SWARMPI_CHECK(of_stage.size() == ids.size(), "an acknowledgement names every tensor");
    for (std::size_t i = 0; i < ids.size(); ++i) squares[ids[i]] = of_stage[i];
  }
  double sum = 0;  // in tensor order: the same bits however the tensors are dealt to stages
  for (const double square : squares) sum += square;
  return std::sqrt(sum);
}

// A peer that has nobody to pass a chunk on to knows no hash.
std::optional<OpenStep::Doubt> OpenStep::disagreement() const {
  for (const auto& [stage, sealed] : stages_) {
    const auto& by_peer = reduced_.of(stage);
    const auto known = [](const auto& entry) { return entry.second.hash != 0; };
    const auto first = std::find_if(by_peer.begin(), by_peer.end(), known);
    for (auto other = first; other != by_peer.end(); ++other) {
      if (!known(*other) || other->second == first->second) continue;
      const auto& own = first->second.chunk_hashes;
      const auto& others = other->second.chunk_hashes;
      std::string chunks;
      for (std::size_t c = 0; c < std::min(own.size(), others.size()); ++c) {
        if (own[c] != others[c]) chunks += fmt::format(" {}", c);
      }
      return Doubt{stage, fmt::format("the reduced gradients of peers {} and {} differ{}{}",
                                      first->first.value, other->first.value,
                                      chunks.empty() ? "" : " in chunk", chunks)};
    }
  }
  return std::nullopt;
}

bool OpenStep::reduce_again(StageId stage) {
  const std::int64_t attempt = stages_.at(stage).attempt + 1;
  // A collective that has come to nothing says nothing of the sums.
  const std::int64_t most = plan_.swarm.has_collectives() ? 2 : 1;
  if (attempt > most) return false;
  begin_attempt(stage, attempt);
  ledger_.set_settled(stage, skipped());
  return true;
}

void OpenStep::begin_attempt(StageId stage, std::int64_t attempt) {
  StageSealing& sealed = stages_.at(stage);
  if (attempt <= sealed.attempt) return;
  sealed.attempt = attempt;
  sealed.seal.reset();
  sealed.finished_chunk_holders.clear();
  reduced_.forget(stage);
}

std::vector<OpenStep::LateLearner> OpenStep::late_learners(const View& view, double now_s,
                                                           double least_patience_s) {
  std::vector<LateLearner> late;
  for (auto& [stage, sealed] : stages_) {
    if (!sealed.seal || !reduced_.from_all(view, stage)) continue;
    if (!sealed.reduced_at_s) sealed.reduced_at_s = now_s;
    const double patience_s = std::max(least_patience_s, *sealed.reduced_at_s - opened_at_s_);
    const double waited_s = now_s - *sealed.reduced_at_s;
    if (waited_s < patience_s) continue;
    for (const PeerId peer : sealed.learners) {
      const bool waited_for = view.learns(peer, stage) && !reduced_.has(stage, peer);
      if (waited_for) late.push_back({peer, stage, waited_s, patience_s});
    }
  }
  return late;
}

// ---- Repair, from tables

void OpenStep::enter_table(const TableMessage& table, PeerId from, double now_s) {
  for (const FactsRow& row : table.facts) {
    if (row.step != step() || facts_) continue;
    facts_ = row.facts;
    ledger_.set_facts(facts_);
    sealed_at_s_ = now_s;
  }
  for (const LossFact& loss : table.losses) {
    if (loss.microbatch.step != step()) continue;
    ledger_.add_loss(loss);
    set_issued(loss.microbatch);
  }
  for (const StageRow& row : table.stages) {
    if (row.step != step()) continue;
    ledger_.add_stage_row(row, from);
    issued_.at(Purpose::train).merge(row.contributed);
  }
  for (const WorkRow& row : table.works) {
    if (row.work.microbatch.step != step()) continue;
    set_issued(row.work.microbatch);
  }
}

// Chunks that are finished stay so. For the others the share of a dead peer is needed again, if it
// had one: its microbatches are missing, and the accumulators of those who live take them again.
std::vector<StageId> OpenStep::void_broken_seals(const View& view, const Tables& tables) {
  std::vector<StageId> reopened;
  if (!facts_) return reopened;
  for (auto& [stage, sealed] : stages_) {
    collect_finished_chunks(stage, sealed, tables);
    const auto finished = static_cast<std::int64_t>(sealed.finished_chunk_holders.size());
    const bool reduced =
        sealed.chunk_replicas > 0 && finished == chunk_count(stage, sealed.chunk_replicas);
    ledger_.set_settled(stage, skipped() || reduced);
    // A collective ends with its view.
    const bool stands = !sealed.by_collective && seal_is_valid(view, stage, sealed);
    if (sealed.seal && stands) continue;
    sealed.seal.reset();
    if (ledger_.covered(stage)) continue;
    reopened.push_back(stage);
  }
  return reopened;
}

// Chunks of a reduction that is not trusted are none.
void OpenStep::collect_finished_chunks(StageId stage, StageSealing& sealed, const Tables& tables) {
  sealed.finished_chunk_holders.clear();
  const auto for_each_row = [&](const auto& visit) {
    for (const auto& [peer, table] : tables) {
      for (const StageRow& row : table.stages) {
        const bool reduced = row.stage == stage && row.step == step() && row.chunk_replicas > 0;
        if (reduced) visit(peer, row);
      }
    }
  };
  for_each_row([&](PeerId, const StageRow& row) { begin_attempt(stage, row.attempt); });
  for_each_row([&](PeerId peer, const StageRow& row) {
    SWARMPI_CHECK(sealed.chunk_replicas == 0 || sealed.chunk_replicas == row.chunk_replicas,
                  "all seals of a stage cut the same chunks");
    sealed.chunk_replicas = row.chunk_replicas;
    if (row.attempt < sealed.attempt) return;
    for (const std::int32_t chunk : row.chunks) sealed.finished_chunk_holders[chunk].insert(peer);
  });
}

bool OpenStep::seal_is_valid(const View& view, StageId stage, const StageSealing& sealed) {
  const auto takes_part = [&](PeerId peer) {
    return view.serves(peer, stage) || view.learns(peer, stage);
  };
  const auto named = [&](PeerId peer) {
    const auto in = [&](const std::vector<PeerId>& peers) {
      return std::find(peers.begin(), peers.end(), peer) != peers.end();
    };
    return in(sealed.replicas) || in(sealed.learners);
  };
  const std::vector<PeerId>& replicas = view.replicas(stage);
  return std::all_of(sealed.replicas.begin(), sealed.replicas.end(), takes_part) &&
         std::all_of(sealed.finished_chunk_senders.begin(), sealed.finished_chunk_senders.end(),
                     takes_part) &&
         std::all_of(replicas.begin(), replicas.end(), named);
}

std::int64_t OpenStep::chunk_count(StageId stage, std::int64_t chunk_replicas) const {
  const std::shared_ptr<const std::vector<Block>> shared = plan_.blocks_of(stage);
  const std::vector<Block>& blocks = *shared;
  return std::ssize(plan_.cut_for(chunk_replicas, blocks).chunks);
}

std::vector<MicrobatchId> OpenStep::unfinished() const {
  std::vector<MicrobatchId> ids;
  for (const auto& [purpose, issued] : issued_) {
    for (std::int64_t i = 0; i < issued.size(); ++i) {
      const MicrobatchId id{step(), purpose, static_cast<std::int32_t>(i)};
      if (issued.contains(i) && !ledger_.finished(id)) ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace swarmpi
