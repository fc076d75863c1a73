#pragma once
// How a peer comes by a stage that it did not serve at the start: it copies the state tensor by
// tensor from the replicas, while training goes on.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

/// A stage's state on its way here. The tensors that are here take part in every update; after an
/// update without the step's reduced gradient they count as not here.
class Learning {
 public:
  explicit Learning(std::size_t tensors) : here_(tensors), hashes_(tensors) {}

  // Memory for the stage is allocated by a job, once; it may be refused.
  bool to_be_allocated() const { return memory_ == Memory::none; }
  void allocating() { memory_ = Memory::being_allocated; }
  void allocated() { memory_ = Memory::ready; }
  bool ready() const { return memory_ == Memory::ready; }
  /// There is no room for it.
  void refuse() { memory_ = Memory::refused; }
  bool refused() const { return memory_ == Memory::refused; }

  bool complete() const { return std::find(here_.begin(), here_.end(), false) == here_.end(); }
  /// For tests.
  const std::vector<bool>& here() const { return here_; }
  /// Of the tensors that are here.
  const std::vector<std::uint64_t>& hashes() const { return hashes_; }

  /// Tensors to ask for now, a few at a time: each learner begins with another donor, and asks them
  /// in turn.
  std::vector<std::pair<PeerId, std::int32_t>> ask(PeerId self, const std::vector<PeerId>& donors);
  /// What those that do not serve the stage any more were asked for is asked of others.
  void forget_donors(const View& view, StageId stage);
  const std::map<std::int32_t, PeerId>& asked() const { return asked_; }
  /// A tensor has come; one that is older than the updates `applied` here is of no use.
  void receive(const TensorMessage& message, Step applied);
  /// A tensor of the state after `applied` that is to be written; null if there is none.
  const TensorMessage* next_to_write(Step applied) const;
  void written(const WriteResult& result);

  /// The tensors that an update is to be applied to: none if it comes without the step's gradient,
  /// for then none keeps up.
  std::vector<bool> begin_update(bool has_gradient);
  void updated(const ApplyResult& result);

 private:
  enum class Memory : std::uint8_t { none, being_allocated, ready, refused };

  Memory memory_ = Memory::none;
  std::vector<bool> here_;
  std::vector<std::uint64_t> hashes_;
  std::vector<bool> updating_;                      // those that the running update is of
  std::map<std::int32_t, PeerId> asked_;            // for those that are not here
  std::map<std::int32_t, TensorMessage> to_write_;  // came; of the last applied step, or ahead
};

/// The other side: learners that ask this peer for tensors.
class TensorRequests {
 public:
  void receive(const FetchMessage& message, PeerId learner) { due_.emplace_back(learner, message); }
  /// The first read of a stage that `readable_step` gives a step for, if that is late enough; one
  /// runs at a time.
  template <class StepOfStage>
  std::optional<ReadJob> next(const StepOfStage& readable_step) {
    for (auto it = due_.begin(); it != due_.end(); ++it) {
      const auto& [learner, fetch] = *it;
      const std::optional<Step> step = readable_step(fetch.stage);
      if (!step || *step < fetch.at_least) continue;
      reading_ = {learner, *step};
      const ReadJob job{fetch.stage, fetch.tensor};
      due_.erase(it);
      return job;
    }
    return std::nullopt;
  }
  /// What was read, and for whom.
  std::pair<PeerId, TensorMessage> read(const ReadResult& result) const {
    return {reading_.learner, {result.stage, result.tensor, reading_.step, result.state}};
  }
  template <class Left>
  void drop(const Left& left) {
    std::erase_if(due_, [&](const auto& row) { return left(row.second.stage); });
  }
  template <class Left>
  bool has(const Left& left) const {
    return std::any_of(due_.begin(), due_.end(),
                       [&](const auto& row) { return left(row.second.stage); });
  }

 private:
  std::vector<std::pair<PeerId, FetchMessage>> due_;
  struct Reading {
    PeerId learner;
    Step step;  // of the state
  };
  Reading reading_;  // last begun
};

}  // namespace swarmpi
