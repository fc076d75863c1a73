#pragma once
// Learners that ask this peer for pieces of the state.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class PieceRequests {
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
      const ReadJob job{fetch.stage, fetch.blocks};
      due_.erase(it);
      return job;
    }
    return std::nullopt;
  }
  /// What was read, and for whom.
  std::pair<PeerId, PieceMessage> read(const ReadResult& result) const {
    return {reading_.learner,
            {result.stage, result.blocks, reading_.step, result.hash, result.state}};
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
