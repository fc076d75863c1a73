#pragma once
// A plan for tests: stages of one tensor each.

#include <string>

#include "protocol/run_plan.hpp"

namespace swarmpi::testing {

inline RunPlan tiny_plan(std::int64_t stages, std::int64_t steps) {
  RunPlan plan;
  plan.train.steps = steps;
  plan.train.microbatches = 5;
  plan.train.clip = 1.0;
  plan.tokens_per_microbatch = 32;
  plan.window = 2 * stages;
  for (std::int32_t s = 0; s < stages; ++s) {
    plan.tensor_names.push_back("tensor." + std::to_string(s));
    plan.tensor_elements.push_back(1);
    plan.stage_tensors.push_back({s});
    plan.stage_costs.push_back(1);
  }
  return plan;
}

}  // namespace swarmpi::testing
