#pragma once
// The decision that a commit is: what every peer needs to apply the step.

#include "protocol/step/open_step.hpp"

namespace swarmpi {

/// Losses, norm, clip, exponents, learning rate: from the step's facts and reduced gradients, and
/// the state before it. REQUIRES: open.facts(), and all replicas hold the reduced gradients.
CommitRecord make_commit_record(const RunPlan& plan, const OpenStep& open,
                                const ResumeState& before, Term term, double run_time_s);

}  // namespace swarmpi
