#pragma once
// What a leader knows of one incarnation of the run: what is committed, which steps are open, on
// which states all agree, and which checkpoints are being written. Where all go back to a
// checkpoint, another history begins.

#include <memory>
#include <optional>
#include <utility>

#include "protocol/run_plan.hpp"
#include "protocol/step/agreement.hpp"
#include "protocol/step/checkpoint_rounds.hpp"
#include "protocol/step/commit_log.hpp"
#include "protocol/step/open_steps.hpp"

namespace swarmpi {

struct RunHistory {
  /// Goes on after the last step of `log`; issues through `router`, and numbers seals from
  /// `first_seal` on.
  RunHistory(const RunPlan& plan, const CommitLog& log, std::unique_ptr<Router> router,
             const SealId& first_seal)
      : commit_log(log),
        steps(plan, std::move(router), log.committed(), first_seal),
        agreement(plan, log.committed()),
        checkpoint_rounds(plan) {}

  Step committed() const { return commit_log.committed(); }
  /// What the peer has contributed to this stage, or to all, is gone with it.
  void forget(PeerId peer, std::optional<StageId> stage) {
    steps.forget(peer, stage);
    agreement.forget(peer, stage);
  }

  CommitLog commit_log;  // ahead of the peer's own, which the CommitMessage reaches later
  OpenSteps steps;
  Agreement agreement;  // on state hashes
  CheckpointRounds checkpoint_rounds;
};

}  // namespace swarmpi
