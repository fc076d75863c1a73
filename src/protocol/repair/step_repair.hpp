#pragma once
// The repair of open steps: what deaths have broken in them is planned from the tables of all who
// live, and nothing else is done again.

#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/repair/table_round.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/open_steps.hpp"

namespace swarmpi {

struct StepRepairs {
  std::int64_t reopened = 0;                           ///< stages whose seal was broken
  std::int64_t resent = 0;                             ///< microbatches
  std::vector<std::pair<PeerId, MessageBody>> orders;  ///< to be sent in this order

  bool needed() const { return reopened > 0 || resent > 0; }
};

/// The newest step that a table has work of, or `committed`: a dead leader may have begun it after
/// a commit that nobody alive has heard of.
Step newest_begun(const Tables& tables, Step committed);

/// Enters what the tables say of the open steps, and plans their repair. Seals that a death or a
/// departure has broken are void: the stage is sealed again, from re-opened accumulators where
/// contributions are missing. Unfinished microbatches are sent again where they are stuck.
/// REQUIRES: all steps up to newest_begun() are open.
StepRepairs repair_steps(OpenSteps& steps, const Tables& tables, const View& view,
                         const RunPlan& plan, double now_s);

}  // namespace swarmpi
