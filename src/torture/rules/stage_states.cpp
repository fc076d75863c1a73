#include "torture/rules/stage_states.hpp"

#include <fmt/core.h>

#include <optional>
#include <vector>

#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {
namespace {

std::string name(StageId stage, Step step) {
  return fmt::format("stage {}, step {}", stage.value, step.value);
}

/// The step whose update changes the state, if the job does.
std::optional<Step> changes_to(const Job& job) {
  if (const auto* apply = get_if<ApplyJob>(&job)) return apply->record->step;
  if (const auto* update = get_if<UpdateJob>(&job)) return update->record->step;
  if (const auto* place = get_if<PlaceWeightsJob>(&job)) return place->step;
  return std::nullopt;
}

/// What all replicas have alike.
const std::vector<std::uint64_t>& compared(const StateHash& hash) {
  return hash.weights.empty() ? hash.tensors : hash.weights;
}

// A hash of 0 is that of a tensor that a learner does not have yet.
bool agree(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != 0 && b[i] != 0 && a[i] != b[i]) return false;
  }
  return a.size() == b.size();
}

}  // namespace

Step StageStates::step_of(PeerId peer, StageId stage) const {
  const auto found = applied_.find({peer, stage});
  return found == applied_.end() ? resumed_from_ : found->second;
}

std::string StageStates::starts(PeerId peer, const Job& job) {
  if (const auto* prepare = get_if<PrepareJob>(&job)) {
    applied_[{peer, prepare->stage}] = prepare->step;
  }
  const std::optional<Step> step = changes_to(job);
  if (!step) return "";
  const Held held{peer, stage_of(job)};
  applying_.insert(held);
  if (!storing_.contains(held)) return "";
  return "nothing is applied to a state that is being written: " + name(held.second, *step);
}

std::string StageStates::applied(PeerId peer, const ApplyResult& result) {
  const Held held{peer, result.stage};
  applying_.erase(held);
  const Step before = step_of(peer, result.stage);
  applied_[held] = result.step;
  const auto [first, fresh] = states_.try_emplace({result.step, result.stage}, result.hash);
  if (before.next() != result.step) {
    return "updates are applied in order: " + name(result.stage, result.step);
  }
  if (fresh || ignores_differences_) return "";
  if (agree(compared(first->second), compared(result.hash))) return "";
  return "replicas agree on the state: " + name(result.stage, result.step);
}

std::string StageStates::written(PeerId peer, const WriteResult& result) const {
  const Step step = step_of(peer, result.stage);
  const auto known = states_.find({step, result.stage});
  if (known == states_.end() || ignores_differences_) return "";
  for (std::size_t i = 0; i < result.completed.size(); ++i) {
    const std::uint64_t expected =
        known->second.tensors.at(static_cast<std::size_t>(result.completed[i]));
    if (expected == 0 || result.tensor_hashes.at(i) == expected) continue;
    return fmt::format("a learner holds what the others hold: tensor {} of {}", result.completed[i],
                       name(result.stage, step));
  }
  return "";
}

std::string StageStates::stores(PeerId peer, const StoreStage& store) {
  const Held held{peer, store.stage};
  storing_.insert(held);
  if (step_of(peer, store.stage) == store.step && !applying_.contains(held)) return "";
  return "a checkpoint holds the state of its step: " + name(store.stage, store.step);
}

void StageStates::loads(PeerId peer, const LoadStage& load) {
  const Held held{peer, load.stage};
  loading_[held] = applied_[held] = load.step;
}

void StageStates::loaded(PeerId peer, StageId stage) {
  const Held held{peer, stage};
  applied_[held] = loading_[held];
  applying_.erase(held);
}

void StageStates::died(PeerId peer) {
  const auto of_peer = [peer](const Held& held) { return held.first == peer; };
  std::erase_if(applying_, of_peer);
  std::erase_if(storing_, of_peer);
}

}  // namespace swarmpi
