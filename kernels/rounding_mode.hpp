#pragma once
// The state of a thread's floating-point unit on which equal bits rest: round to nearest, denormals
// kept, nothing trapped. A library loaded with fast-math, or a caller, may have changed it.

namespace swarmpi::kernels {

void set_rounding_mode();
/// Checked before and after each job.
bool rounding_mode_is_default();

}  // namespace swarmpi::kernels
