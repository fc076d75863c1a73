#include "model/job_costs.hpp"

#include <algorithm>

#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "hardware/device.hpp"
#include "model/cost.hpp"
#include "protocol/messages/all_jobs.hpp"

namespace swarmpi {
namespace {

std::vector<std::int64_t> first_elements(const StageSpec& spec) {
  std::vector<std::int64_t> sizes, firsts = {0};
  for (const TensorInfo& tensor : spec.tensors) sizes.push_back(tensor.count());
  for (const Block& block : cut_into_blocks(sizes)) firsts.push_back(firsts.back() + block.count);
  return firsts;
}

}  // namespace

JobCosts::JobCosts(const Config& config, const std::vector<StageSpec>& specs)
    : config_(config), specs_(specs) {
  for (const StageSpec& spec : specs) first_elements_.push_back(first_elements(spec));
}

std::int64_t JobCosts::elements_in(StageId stage) const {
  return first_elements_.at(static_cast<std::size_t>(stage.value)).back();
}

double JobCosts::elements(StageId stage, const BlockRange& blocks) const {
  const std::vector<std::int64_t>& firsts =
      first_elements_.at(static_cast<std::size_t>(stage.value));
  const auto first = static_cast<std::size_t>(blocks.first);
  const auto end = static_cast<std::size_t>(blocks.end);
  return as_double(firsts.at(std::max(first, end)) - firsts.at(first));
}

double JobCosts::seconds(const DeviceConfig& device, const Job& job,
                         const JobResult& result) const {
  const bool forward = holds_alternative<ForwardJob>(job);
  if (!forward && !holds_alternative<BackwardJob>(job)) {
    return device.memory_gb_per_s > 0 ? memory_s(device, bytes(job)) : 0;
  }
  const StageId stage = stage_of(job);
  const StageSpec& spec = specs_.at(static_cast<std::size_t>(stage.value));
  return device_s(device, job_flops(config_, spec, job, result), config_.model.width) +
         memory_s(device, kCodecBytes * coded_values(stage, !forward));
}

double JobCosts::coded_values(StageId stage, bool backward) const {
  const SwarmConfig& swarm = config_.swarm;
  const StageSpec& spec = specs_.at(static_cast<std::size_t>(stage.value));
  const Codec incoming = backward ? swarm.compress_gradients : swarm.compress_activations;
  const int cuts = (spec.has_embedding ? 0 : 1) + (spec.has_head ? 0 : 1);
  if (incoming == Codec::none || cuts == 0) return 0;
  return as_double(cuts * config_.train.microbatch_size * config_.model.context *
                   swarm.boundary_width(config_.model.width));
}

double JobCosts::bytes(const Job& job) const {
  const auto copied = [this](const auto& j) { return kCopyBytes * elements(j.stage, j.blocks); };
  const auto summed = [this](const auto& j) {
    const auto addends = static_cast<double>(j.addends.size());
    return (kSumBytes + addends * kAddendBytes) * elements(j.stage, j.blocks);
  };
  const double state_values = as_double(config_.train.delay() + 2);
  return visit(
      Overloaded{[&](const ShareJob& j) { return summed(j); },
                 [&](const ReduceJob& j) { return summed(j); },
                 [&](const PlaceJob& j) { return copied(j); },
                 [&](const GatherJob& j) { return copied(j); },
                 [&](const PlaceWeightsJob& j) { return copied(j); },
                 [&](const CopyWeightsJob& j) { return copied(j); },
                 [&](const ReadJob& j) { return state_values * copied(j); },
                 [&](const WriteJob& j) { return state_values * copied(j); },
                 [&](const UpdateJob& j) { return kUpdateBytes * elements(j.stage, j.blocks); },
                 [&](const ApplyJob& j) {
                   const bool updates = j.record && !j.record->skipped;
                   if (!updates || config_.swarm.has_owners()) return 0.0;
                   if (!j.partial) return kUpdateBytes * as_double(elements_in(j.stage));
                   double here = 0;
                   for (const BlockRange& range : j.partial->here) here += elements(j.stage, range);
                   return kUpdateBytes * here;
                 },
                 [](const auto&) { return 0.0; }},
      job);
}

}  // namespace swarmpi
