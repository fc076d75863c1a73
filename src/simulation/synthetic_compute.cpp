#include "simulation/synthetic_compute.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/hash.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"
#include "simulation/event_trace.hpp"

namespace swarmpi {
namespace {

PayloadRef words_payload(const std::vector<std::uint64_t>& values) {
  const std::size_t size_bytes = values.size() * sizeof(std::uint64_t);
  auto payload = std::make_shared<Payload>(size_bytes);
  std::memcpy(payload->data(), values.data(), size_bytes);
  return payload;
}

bool holds(const PayloadRef& payload, std::int64_t values) {
  return payload &&
         payload->size_bytes() == static_cast<std::size_t>(values) * sizeof(std::uint64_t);
}

/// What crosses a boundary: the same word over and over.
PayloadRef boundary_of(std::uint64_t word, std::int64_t words) {
  return words_payload(std::vector<std::uint64_t>(static_cast<std::size_t>(words), word));
}

bool holds_only(const PayloadRef& payload, std::int64_t words, std::uint64_t expected) {
  if (!holds(payload, words)) return false;
  const auto* const first = payload->as<std::uint64_t>();
  return std::all_of(first, first + words, [&](std::uint64_t word) { return word == expected; });
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

SyntheticCompute::SyntheticCompute(PeerId self, const RunPlan& plan, const SyntheticModel& model,
                                   const ResumeState& resume, SyntheticArchive& archive,
                                   SyntheticMishaps* mishaps, const Ownership& ownership)
    : self_(self),
      plan_(plan),
      model_(model),
      resume_(resume),
      archive_(archive),
      mishaps_(mishaps),
      ownership_(ownership) {}

bool SyntheticCompute::has_room(StageId) {
  return mishaps_ == nullptr || !mishaps_->refused_stage.is_next();
}

Status SyntheticCompute::error(const std::string& what) const {
  return Status::failed(fmt::format("compute of peer {}: {}", self_.value, what));
}

SyntheticCompute::Stage& SyntheticCompute::stage(StageId id) {
  const auto [found, fresh] = stages_.try_emplace(id);
  if (fresh) found->second = stage_of(id, resume_, ownership_);
  return found->second;
}

SyntheticCompute::Stage SyntheticCompute::stage_of(StageId id, const ResumeState& state,
                                                   const Ownership& ownership) const {
  Stage stage;
  stage.applied = state.step;
  stage.tensors = plan_.stage_tensors.at(as_size(id.value));
  stage.blocks = cut_into_blocks(plan_.elements_in(id));
  for (const Block& block : stage.blocks) {
    const bool first = block.first == 0;
    stage.index_in_tensor.push_back(first ? 0 : stage.index_in_tensor.back() + 1);
  }
  stage.owned = owned_ranges(stage.blocks, ownership.owners).at(as_size(ownership.place));
  stage.weights.assign(stage.blocks.size(), Step(state.step));
  stage.gradient.resize(stage.blocks.size());
  stage.present.assign(stage.blocks.size(), true);
  for (std::size_t b = 0; b < stage.blocks.size(); ++b) {
    const std::int32_t tensor = tensor_of(stage, b);
    const std::int64_t index = stage.index_in_tensor[b];
    stage.state.push_back(state.step < 0
                              ? model_.initial_state(tensor, index, plan_.delay())
                              : archive_.at(Step(state.step)).at(tensor).at(as_size(index)));
    // Moments of others' blocks are not here.
    if (!owns(stage, b)) std::fill(stage.state[b].end() - 2, stage.state[b].end(), 0);
  }
  for (std::size_t i = 0; i < state.exponents.size(); ++i) {
    stage.exponents[Step(state.step + 1 + static_cast<std::int64_t>(i))] =
        std::make_shared<const Exponents>(state.exponents[i]);
  }
  if (state.step < 0) {
    stage.exponents[Step(0)] = std::make_shared<const Exponents>(
        static_cast<std::size_t>(plan_.tensors()), kernels::kNoExponent);
  }
  return stage;
}

Status SyntheticCompute::load(StageId id, const ResumeState& state, const Ownership& ownership) {
  stages_[id] = stage_of(id, state, ownership);
  return {};
}

bool SyntheticCompute::flip(StageId id) {
  const auto found = stages_.find(id);
  if (found == stages_.end() || found->second.state.empty()) return false;
  found->second.state.front().front() ^= 1;
  return true;
}

Result<StageStored> SyntheticCompute::save(Step step, StageId id) {
  Stage& from = stage(id);
  if (from.applied != step.value) {
    return error(fmt::format("stage {} is to be saved as of step {} and stands at {}", id.value,
                             step.value, from.applied));
  }
  if (Status status = check_present(from, id); !status.ok()) return status;
  StoredFile file{fmt::format("stage-{}", id.value), 0, 8};
  auto& saved = archive_[step];
  for (std::size_t b = 0; b < from.blocks.size(); ++b) {
    auto& blocks = saved[tensor_of(from, b)];
    const std::size_t index = as_size(from.index_in_tensor[b]);
    if (blocks.size() <= index) blocks.resize(index + 1);
    if (owns(from, b)) blocks[index] = from.state[b];
  }
  std::vector<std::uint64_t> hashes = tensor_hashes(from);
  for (const std::uint64_t hash : hashes) file.hash += hash;
  return StageStored{step, id, std::move(file), std::move(hashes)};
}

std::int32_t SyntheticCompute::tensor_of(const Stage& own, std::size_t block) const {
  return own.tensors[as_size(own.blocks[block].tensor)];
}

// Of a tensor that is not here as a whole: 0.
std::vector<std::uint64_t> SyntheticCompute::tensor_hashes(const Stage& own) const {
  std::vector<std::uint64_t> hashes(own.tensors.size());
  std::vector<bool> whole(own.tensors.size(), true);
  for (std::size_t b = 0; b < own.blocks.size(); ++b) {
    const std::size_t tensor = as_size(own.blocks[b].tensor);
    if (!own.present[b]) whole[tensor] = false;
    if (!owns(own, b)) continue;
    hashes[tensor] +=
        SyntheticModel::hash(own.state[b], own.tensors[tensor], own.index_in_tensor[b]);
  }
  for (std::size_t t = 0; t < hashes.size(); ++t) {
    if (!whole[t]) hashes[t] = 0;
  }
  return hashes;
}

StateHash SyntheticCompute::state_hash(const Stage& own) const {
  StateHash hash{tensor_hashes(own), {}};
  if (!has_owners()) return hash;
  hash.weights.resize(own.tensors.size());
  for (std::size_t b = 0; b < own.blocks.size(); ++b) {
    hash.weights[as_size(own.blocks[b].tensor)] +=
        SyntheticModel::weight_hash(own.state[b], tensor_of(own, b), own.index_in_tensor[b]);
  }
  return hash;
}

Result<JobResult> SyntheticCompute::execute(const Job& job) {
  return visit([this](const auto& j) { return run(j); }, job);
}

// ---- Passes

Status SyntheticCompute::check_present(const Stage& own, StageId id) const {
  for (std::size_t i = 0; i < own.present.size(); ++i) {
    if (own.present[i]) continue;
    return error(fmt::format("stage {} was used before its block {} was there", id.value, i));
  }
  return {};
}

// Step t computes on the weights after step t - d, which are overwritten by those after step t.
Status SyntheticCompute::check_weights(const WorkId& work) {
  if (Status s = check_present(stage(work.stage), work.stage); !s.ok()) return s;
  const Step step = work.microbatch.step;
  const std::int64_t applied = stage(work.stage).applied;
  if (applied >= plan_.starts_after(step) && applied < step.value) return {};
  return error(fmt::format("{} was begun with step {} applied", describe(work), applied));
}

// A learner does not know the exponents of the steps that were open when it began.
Status SyntheticCompute::check_exponents(Stage& own, Step step, const Exponents& exponents) const {
  const auto committed = own.exponents.find(step);
  if (committed == own.exponents.end() && own.is_learner) {
    own.exponents[step] = std::make_shared<const Exponents>(exponents);
    return {};
  }
  if (committed != own.exponents.end() && *committed->second == exponents) return {};
  return error(
      fmt::format("the exponents of step {} are not those that were committed", step.value));
}

Status SyntheticCompute::check_activations(const WorkId& work, const PayloadRef& input) const {
  if (holds_only(input, model_.activation_words, model_.activations(work))) return {};
  return error(describe(work) + " was given the input of another");
}

Status SyntheticCompute::check_gradient(const WorkId& work,
                                        const PayloadRef& output_gradient) const {
  if (holds_only(output_gradient, model_.gradient_words, model_.output_gradient(work))) return {};
  return error(describe(work) + " was given the gradient of another");
}

Result<JobResult> SyntheticCompute::run(const ForwardJob& job) {
  const WorkId& work = job.work;
  if (Status status = check_weights(work); !status.ok()) return status;
  if (work.stage.value > 0) {
    if (Status s = check_activations(work, job.input); !s.ok()) return s;
  }
  if (work.stage.value + 1 == plan_.stages()) {
    return JobResult(ForwardResult{work, nullptr, model_.loss_nats(work.microbatch)});
  }
  const WorkId onward{work.microbatch, work.stage.next()};
  return JobResult(
      ForwardResult{work, boundary_of(model_.activations(onward), model_.activation_words), 0});
}

Result<JobResult> SyntheticCompute::run(const BackwardJob& job) {
  const WorkId& work = job.work;
  const Step step = work.microbatch.step;
  const bool last = work.stage.value + 1 == plan_.stages();
  if (Status status = check_weights(work); !status.ok()) return status;
  if (work.stage.value > 0) {
    if (Status s = check_activations(work, job.input); !s.ok()) return s;
  }
  if (!last) {
    if (Status s = check_gradient(work, job.output_gradient); !s.ok()) return s;
  }
  BackwardResult result{work, nullptr, last ? model_.loss_nats(work.microbatch) : 0, {}};
  if (job.add) {
    Stage& own = stage(work.stage);
    if (Status s = check_exponents(own, step, *job.exponents); !s.ok()) return s;
    result.contributions = add(own, work, *job.exponents);
  }
  if (work.stage.value > 0) {
    const WorkId back{work.microbatch, StageId(work.stage.value - 1)};
    result.input_gradient = boundary_of(model_.output_gradient(back), model_.gradient_words);
  }
  return JobResult(std::move(result));
}

std::vector<kernels::Contribution> SyntheticCompute::add(Stage& own, const WorkId& work,
                                                         const Exponents& exponents) const {
  std::vector<kernels::Contribution> contributions;
  for (const std::int32_t tensor : own.tensors) {
    const std::int16_t exponent = exponents.at(as_size(tensor));
    contributions.push_back(model_.contribution(work.microbatch, tensor, exponent));
  }
  auto& sums = own.sums[work.microbatch.step];
  sums.resize(own.blocks.size());
  const auto times = static_cast<std::uint64_t>(times_added(work));
  for (std::uint64_t i = 0; i < times; ++i) own.covers[work.microbatch.step].add(work.microbatch);
  for (std::size_t b = 0; b < sums.size(); ++b) {
    const auto index = as_size(own.blocks[b].tensor);
    if (contributions[index].flagged()) continue;
    const std::int32_t tensor = own.tensors[index];
    const std::int16_t exponent = exponents[as_size(tensor)];
    sums[b] += times * model_.term(work.microbatch, tensor, own.index_in_tensor[b], exponent);
  }
  return contributions;
}

// ---- Reduction

Result<SyntheticCompute::Added> SyntheticCompute::add_up(
    Stage& own, Step step, const BlockRange& blocks,
    const std::vector<PartialSums>& addends) const {
  auto& sums = own.sums[step];
  sums.resize(own.blocks.size());
  Added added{{sums.begin() + blocks.first, sums.begin() + blocks.end},
              with_addends(own.covers[step], addends)};
  for (const PartialSums& share : addends) {
    if (!holds(share.sums, blocks.end - blocks.first)) return error("sums of other blocks arrived");
    for (std::size_t b = 0; b < added.sums.size(); ++b) {
      added.sums[b] += share.sums->as<std::uint64_t>()[b];
    }
  }
  return added;
}

CollectiveSums SyntheticCompute::sums_for_collective(StageId id, Step step) {
  Stage& own = stage(id);
  CollectiveSums sums{own.sums[step], own.covers[step]};
  sums.sums.resize(own.blocks.size());
  return sums;
}

void SyntheticCompute::set_out(StageId id, const ViewNumber& view, const CollectiveSums& sums) {
  outs_[{id, view}] = sums;
}

Result<SyntheticCompute::Added> SyntheticCompute::added_by_collective(const Stage& own,
                                                                      const ReduceJob& job) const {
  const auto out = outs_.find({job.stage, *job.collective});
  if (out == outs_.end() || out->second.sums.size() != own.blocks.size()) {
    return error(
        fmt::format("chunk {} of stage {} was to be taken from a collective that has added "
                    "up nothing",
                    job.chunk, job.stage.value));
  }
  const auto first = out->second.sums.begin();
  // What the sums are over was compared when the collective was done.
  return Added{{first + job.blocks.first, first + job.blocks.end},
               Cover::of_step(job.step, plan_.train_microbatches(job.step))};
}

std::uint64_t SyntheticCompute::expected_sum(const Stage& own, Step step,
                                             std::int64_t block) const {
  const std::int32_t tensor = own.tensors[as_size(own.blocks[as_size(block)].tensor)];
  const std::int16_t exponent = own.exponents.at(step)->at(as_size(tensor));
  return model_.sum(step, tensor, own.index_in_tensor[as_size(block)], exponent);
}

Status SyntheticCompute::wrong_sum_error(const Stage& own, StageId id, Step step,
                                         std::int64_t block, std::uint64_t sum) const {
  const std::int32_t tensor = own.tensors[as_size(own.blocks[as_size(block)].tensor)];
  const std::int16_t exponent = own.exponents.at(step)->at(as_size(tensor));
  const std::uint64_t excess = sum - expected_sum(own, step, block);
  std::string why = "more than one microbatch is wrong";
  for (std::int32_t m = 0; m < plan_.train.microbatches; ++m) {
    const std::uint64_t term = model_.term({step, Purpose::train, m}, tensor,
                                           own.index_in_tensor[as_size(block)], exponent);
    if (excess == term) why = fmt::format("microbatch {} counts twice", m);
    if (excess == -term) why = fmt::format("microbatch {} is missing", m);
  }
  return error(fmt::format("the sum of step {}, stage {}, {}, block {} is wrong: {}", step.value,
                           id.value, plan_.tensor_names.at(as_size(tensor)), block, why));
}

Result<JobResult> SyntheticCompute::run(const ShareJob& job) {
  Result<Added> added = add_up(stage(job.stage), job.step, job.blocks, job.addends);
  if (!added.ok()) return added.status();
  return JobResult(ShareResult{
      job.seal, job.stage, job.chunk, {words_payload(added.value().sums), added.value().cover}});
}

Result<JobResult> SyntheticCompute::run(const ReduceJob& job) {
  Stage& own = stage(job.stage);
  if (Status s = check_exponents(own, job.step, *job.exponents); !s.ok()) return s;
  if (own.applied + 1 != job.step.value) {
    return error(fmt::format("step {} was reduced over a gradient that was not applied yet",
                             job.step.value));
  }
  Result<Added> added = job.collective ? added_by_collective(own, job)
                                       : add_up(own, job.step, job.blocks, job.addends);
  if (!added.ok()) return added.status();
  const auto& [sums, cover] = added.value();
  ReduceResult result{job.seal, job.stage, job.chunk, cover, {}, nullptr, 0};
  // What is miscounted by its cover the protocol must find.
  const bool counted = cover == Cover::of_step(job.step, plan_.train_microbatches(job.step));
  std::vector<std::uint64_t> reduced;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t b = job.blocks.first + static_cast<std::int64_t>(i);
    if (counted && sums[i] != expected_sum(own, job.step, b)) {
      return wrong_sum_error(own, job.stage, job.step, b, sums[i]);
    }
    reduced.push_back(SyntheticModel::rounded(sums[i], job.tokens));
    own.gradient[as_size(b)] = {job.step, reduced.back()};
    result.squares.push_back(SyntheticModel::square(reduced.back()));
  }
  if (job.collective && mishaps_ != nullptr && mishaps_->damaged_sum.is_next()) {
    reduced.front() ^= 1;
    own.gradient[as_size(job.blocks.first)].value ^= 1;
  }
  if (!job.pass_on && !job.collective) return JobResult(std::move(result));
  if (job.pass_on) result.gradient = words_payload(reduced);
  result.hash = hash_bytes(reduced.data(), reduced.size() * sizeof(reduced[0]));
  return JobResult(std::move(result));
}

Result<JobResult> SyntheticCompute::run(const PlaceJob& job) {
  Stage& own = stage(job.stage);
  if (own.applied + 1 != job.step.value) {
    return error(
        fmt::format("step {} was placed over a gradient that was not applied yet", job.step.value));
  }
  if (!holds(job.gradient, job.blocks.end - job.blocks.first)) {
    return error("a reduced gradient of other blocks arrived");
  }
  const auto* const came = job.gradient->as<std::uint64_t>();
  std::vector<std::uint64_t> placed(came, came + (job.blocks.end - job.blocks.first));
  if (mishaps_ != nullptr && mishaps_->damaged_chunk.is_next()) placed.front() ^= 1;
  for (std::int64_t b = job.blocks.first; b < job.blocks.end; ++b) {
    own.gradient[as_size(b)] = {job.step, placed[as_size(b - job.blocks.first)]};
  }
  return JobResult(PlaceResult{job.seal, job.stage, job.chunk,
                               hash_bytes(placed.data(), placed.size() * sizeof(placed[0]))});
}

Result<JobResult> SyntheticCompute::run(const GatherJob& job) {
  const Stage& own = stage(job.stage);
  std::vector<std::uint64_t> values;
  for (std::int64_t b = job.blocks.first; b < job.blocks.end; ++b) {
    const ReducedBlock& block = own.gradient.at(as_size(b));
    if (block.step != job.step) {
      return error(fmt::format("block {} of step {}, stage {}, was asked for and is not there", b,
                               job.step.value, job.stage.value));
    }
    values.push_back(block.value);
  }
  return JobResult(GatherResult{job.seal, job.stage, job.chunk, words_payload(values),
                                hash_bytes(values.data(), values.size() * sizeof(values[0]))});
}

Status SyntheticCompute::check_reduced(const Stage& own, const CommitRecord& record, StageId id,
                                       const BlockRange& blocks) const {
  const bool knows = own.exponents.contains(record.step);
  for (std::int64_t block = blocks.first; block < blocks.end; ++block) {
    const std::size_t b = as_size(block);
    if (!own.present[b]) continue;
    const bool right = own.gradient[b].step == record.step &&
                       (!knows || own.gradient[b].value ==
                                      SyntheticModel::rounded(expected_sum(own, record.step, block),
                                                              record.tokens));
    if (right) continue;
    return error(fmt::format("step {} was applied to stage {} without the sum of block {}",
                             record.step.value, id.value, block));
  }
  return {};
}

// ---- Where each replica owns a range

Result<JobResult> SyntheticCompute::run(const UpdateJob& job) {
  Stage& own = stage(job.stage);
  const CommitRecord& record = *job.record;
  if (record.skipped || own.applied + 1 != record.step.value) {
    return error(
        fmt::format("chunk {} of stage {}, which stands at step {}, was updated by step {}",
                    job.chunk, job.stage.value, own.applied, record.step.value));
  }
  if (Status s = check_reduced(own, record, job.stage, job.blocks); !s.ok()) return s;
  for (auto b = as_size(job.blocks.first); b < as_size(job.blocks.end); ++b) {
    if (!owns(own, b) || own.weights[b] == record.step) {
      return error(fmt::format("block {} was updated twice, or not by its owner", b));
    }
    SyntheticModel::update_moments(own.state[b], own.gradient[b].value);
    SyntheticModel::update_weights(own.state[b], record, 1);
    own.weights[b] = record.step;
  }
  return weights_of(job.stage, record.step, job.chunk, job.blocks);
}

Result<JobResult> SyntheticCompute::run(const CopyWeightsJob& job) {
  return weights_of(job.stage, job.step, job.chunk, job.blocks);
}

Result<JobResult> SyntheticCompute::weights_of(StageId id, Step step, std::int32_t chunk,
                                               const BlockRange& blocks) {
  const Stage& own = stage(id);
  std::vector<std::uint64_t> weights;
  for (auto b = as_size(blocks.first); b < as_size(blocks.end); ++b) {
    if (own.weights.at(b) != step) {
      return error(
          fmt::format("the weights of block {} after step {} were asked for, and are not "
                      "there",
                      b, step.value));
    }
    weights.push_back(own.state[b].front());
  }
  return JobResult(WeightsResult{step, id, chunk, words_payload(weights),
                                 hash_bytes(weights.data(), weights.size() * sizeof(weights[0]))});
}

Result<JobResult> SyntheticCompute::run(const PlaceWeightsJob& job) {
  Stage& own = stage(job.stage);
  if (own.applied + 1 != job.step.value || !holds(job.weights, job.blocks.end - job.blocks.first)) {
    return error(fmt::format("weights of other blocks, or of another step than {}, were placed",
                             job.step.value));
  }
  const auto* const came = job.weights->as<std::uint64_t>();
  std::vector<std::uint64_t> placed(came, came + (job.blocks.end - job.blocks.first));
  if (mishaps_ != nullptr && mishaps_->damaged_chunk.is_next()) placed.front() ^= 1;
  for (auto b = as_size(job.blocks.first); b < as_size(job.blocks.end); ++b) {
    if (owns(own, b)) return error(fmt::format("own block {} was placed", b));
    own.state[b].front() = placed[b - as_size(job.blocks.first)];
    own.weights[b] = job.step;
  }
  return JobResult(
      PlaceWeightsResult{job.step, job.stage, job.chunk,
                         hash_bytes(placed.data(), placed.size() * sizeof(placed[0]))});
}

Status SyntheticCompute::check_gathered(const Stage& own, const CommitRecord& record,
                                        StageId id) const {
  for (std::size_t b = 0; b < own.weights.size(); ++b) {
    if (own.weights[b] == record.step) continue;
    return error(fmt::format("step {} was applied to stage {} without the weights of block {}",
                             record.step.value, id.value, b));
  }
  return {};
}

Result<JobResult> SyntheticCompute::run(const ApplyJob& job) {
  Stage& own = stage(job.stage);
  const CommitRecord& record = *job.record;
  if (own.applied + 1 != record.step.value) {
    return error(fmt::format("step {} was applied to stage {}, which stands at step {}",
                             record.step.value, job.stage.value, own.applied));
  }
  ApplyResult result{record.step, job.stage, {}, {}, {}};
  if (job.partial) {
    // A learner that lacks the step's gradient drops what it has.
    std::vector<bool> updated(own.present.size(), false);
    for (const BlockRange& range : job.partial->here) {
      for (std::int64_t b = range.first; b < range.end; ++b) updated.at(as_size(b)) = true;
    }
    for (std::size_t b = 0; b < updated.size(); ++b) {
      if (!updated[b] || own.present[b]) continue;
      return error(fmt::format("step {} was applied to block {} of stage {}, which is not there",
                               record.step.value, b, job.stage.value));
    }
    own.present = updated;
    for (const BlockRange& piece : job.partial->under_way) {
      const Result<PayloadRef> gradient = gradient_of(own, record, piece);
      if (!gradient.ok()) return gradient.status();
      result.gradients.push_back(gradient.value());
    }
  } else if (Status status = check_present(own, job.stage); !status.ok()) {
    return status;
  }
  if (record.skipped) {
    for (auto& state : own.state) SyntheticModel::pass_on_weights(state);
  } else if (has_owners()) {
    if (Status status = check_gathered(own, record, job.stage); !status.ok()) return status;
  } else {
    const BlockRange all{0, std::ssize(own.blocks)};
    if (Status status = check_reduced(own, record, job.stage, all); !status.ok()) return status;
    result.ratios = update(own, record, job.partial ? job.partial->ratios : std::vector<float>());
  }
  own.applied = record.step.value;
  const std::shared_ptr<const Exponents> next(job.record, &record.next_exponents);
  own.exponents[Step(record.step.value + plan_.delay())] = next;
  if (record.step.value == 0) own.exponents[Step(1)] = next;
  own.sums.erase(own.sums.begin(), own.sums.upper_bound(record.step));
  own.covers.erase(own.covers.begin(), own.covers.upper_bound(record.step));
  own.exponents.erase(own.exponents.begin(), own.exponents.upper_bound(record.step));
  result.hash = state_hash(own);
  return JobResult(std::move(result));
}

std::vector<float> SyntheticCompute::update(Stage& own, const CommitRecord& record,
                                            const std::vector<float>& given) const {
  const bool has_ratios = plan_.train.optimizer == Optimizer::lamb;
  std::vector<std::uint64_t> parts(own.tensors.size());
  std::vector<bool> whole(own.tensors.size(), true);
  for (std::size_t b = 0; b < own.blocks.size(); ++b) {
    const std::size_t tensor = as_size(own.blocks[b].tensor);
    if (!own.present[b]) {
      whole[tensor] = false;
      continue;
    }
    SyntheticModel::update_moments(own.state[b], own.gradient[b].value);
    parts[tensor] += SyntheticModel::ratio_part(own.state[b], own.index_in_tensor[b]);
  }
  std::vector<float> ratios(own.tensors.size(), 1);
  for (std::size_t t = 0; t < ratios.size() && has_ratios; ++t) {
    if (whole[t]) ratios[t] = SyntheticModel::ratio(parts[t]);
    if (!whole[t] && t < given.size()) ratios[t] = given[t];
  }
  for (std::size_t b = 0; b < own.blocks.size(); ++b) {
    const std::size_t tensor = as_size(own.blocks[b].tensor);
    if (own.present[b]) SyntheticModel::update_weights(own.state[b], record, ratios[tensor]);
  }
  return has_ratios ? ratios : std::vector<float>();
}

Result<PayloadRef> SyntheticCompute::gradient_of(const Stage& own, const CommitRecord& record,
                                                 const BlockRange& blocks) const {
  if (record.skipped) return PayloadRef();
  std::vector<std::uint64_t> values;
  for (std::int64_t b = blocks.first; b < blocks.end; ++b) {
    const ReducedBlock& block = own.gradient.at(as_size(b));
    if (block.step != record.step) {
      return error(fmt::format("the gradient of step {} is to be kept without that of block {}",
                               record.step.value, b));
    }
    values.push_back(block.value);
  }
  return words_payload(values);
}

// ---- Learning

Result<JobResult> SyntheticCompute::run(const PrepareJob& job) {
  const auto before = stages_.find(job.stage);
  if (before != stages_.end() && check_present(before->second, job.stage).ok()) {
    return error(fmt::format("stage {} was to be learned where it is served", job.stage.value));
  }
  if (!has_room(job.stage)) return JobResult(PrepareResult{job.stage, false});
  Stage own = stage_of(job.stage, {}, {});
  own.is_learner = true;
  own.applied = job.step.value;
  own.present.assign(own.blocks.size(), false);
  for (auto& state : own.state) state.assign(state.size(), 0);
  own.exponents.clear();
  stages_[job.stage] = std::move(own);
  return JobResult(PrepareResult{job.stage});
}

std::uint64_t SyntheticCompute::hash_of(const Stage& own, const BlockRange& blocks) const {
  std::uint64_t sum = 0;
  for (auto b = as_size(blocks.first); b < as_size(blocks.end); ++b) {
    sum += SyntheticModel::hash(own.state.at(b), tensor_of(own, b), own.index_in_tensor[b]);
  }
  return sum;
}

Result<JobResult> SyntheticCompute::run(const ReadJob& job) {
  const Stage& own = stage(job.stage);
  if (Status status = check_present(own, job.stage); !status.ok()) return status;
  std::vector<std::uint64_t> words;
  for (auto b = as_size(job.blocks.first); b < as_size(job.blocks.end); ++b) {
    words.insert(words.end(), own.state.at(b).begin(), own.state[b].end());
  }
  return JobResult(
      ReadResult{job.stage, job.blocks, hash_of(own, job.blocks), words_payload(words)});
}

Result<JobResult> SyntheticCompute::run(const WriteJob& job) {
  Stage& own = stage(job.stage);
  const std::int64_t words = plan_.delay() + 2;
  if (own.applied != job.step.value + std::ssize(job.missed) ||
      !holds(job.state, words * (job.blocks.end - job.blocks.first))) {
    return error(
        fmt::format("stage {} stands at step {} and was given a piece as of step {} with "
                    "{} updates",
                    job.stage.value, own.applied, job.step.value, job.missed.size()));
  }
  const auto* came = job.state->as<std::uint64_t>();
  for (auto b = as_size(job.blocks.first); b < as_size(job.blocks.end); ++b, came += words) {
    if (own.present.at(b)) return error(fmt::format("block {} was given twice", b));
    own.state[b].assign(came, came + words);
  }
  if (mishaps_ != nullptr && mishaps_->damaged_piece.is_next()) {
    own.state[as_size(job.blocks.first)].back() ^= 1;
  }
  WriteResult result{job.stage, job.blocks, hash_of(own, job.blocks) == job.hash, {}, {}};
  if (!result.intact) return JobResult(result);
  std::int64_t step = job.step.value;
  for (const MissedUpdate& missed : job.missed) {
    if (missed.record->step.value != ++step) return error("a missed update is not the next one");
    if (Status status = catch_up(own, job.blocks, missed); !status.ok()) return status;
  }
  for (auto b = as_size(job.blocks.first); b < as_size(job.blocks.end); ++b) {
    own.present[b] = true;
  }
  const std::vector<std::uint64_t> hashes = tensor_hashes(own);
  result.completed = job.completes;
  for (const std::int32_t tensor : job.completes) {
    result.tensor_hashes.push_back(hashes.at(as_size(tensor)));
  }
  return JobResult(std::move(result));
}

Status SyntheticCompute::catch_up(Stage& own, const BlockRange& blocks,
                                  const MissedUpdate& missed) const {
  const CommitRecord& record = *missed.record;
  if (record.skipped) {
    for (auto b = as_size(blocks.first); b < as_size(blocks.end); ++b) {
      SyntheticModel::pass_on_weights(own.state[b]);
    }
    return {};
  }
  if (!holds(missed.gradient, blocks.end - blocks.first)) {
    return error("a missed update has the gradient of other blocks");
  }
  const bool has_ratios = plan_.train.optimizer == Optimizer::lamb;
  if (has_ratios && missed.ratios.size() != own.tensors.size()) {
    return error("a missed update lacks the ratios");
  }
  const auto* gradient = missed.gradient->as<std::uint64_t>();
  for (auto b = as_size(blocks.first); b < as_size(blocks.end); ++b, ++gradient) {
    const std::size_t tensor = as_size(own.blocks[b].tensor);
    SyntheticModel::update_moments(own.state[b], *gradient);
    SyntheticModel::update_weights(own.state[b], record, has_ratios ? missed.ratios[tensor] : 1);
  }
  return {};
}

Result<JobResult> SyntheticCompute::run(const TryJob& job) {
  return JobResult(TryResult{job.stage});
}

Result<JobResult> SyntheticCompute::run(const DropJob& job) {
  stages_.erase(job.stage);  // absent if it was served but had no work yet
  return JobResult(DropResult{job.stage});
}

std::unique_ptr<VirtualCompute> SyntheticComputeFactory::make(PeerId self, const RunPlan& plan,
                                                              const InitialMembership& membership,
                                                              const ResumeState& resume) {
  const Ownership ownership = ownership_at_start(plan, membership, self);
  return std::make_unique<SyntheticCompute>(self, plan, model_, resume, archive_, &mishaps_,
                                            ownership);
}

}  // namespace swarmpi
