#pragma once
// Jobs: the passes of a microbatch.

#include <memory>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/reduction/contribution.hpp"

namespace swarmpi {

/// y = stage(x) for a microbatch. In stage 0 the input is the microbatch's tokens, which compute
/// makes itself. In the last stage only validation is a ForwardJob: its answer is the loss.
struct ForwardJob {
  WorkId work;
  PayloadRef input;  // (B, T, C), null in stage 0
};
SWARMPI_FIELDS(ForwardJob, work, input);

/// Backward pass of a microbatch: adds its gradients to the step's sums, or makes only the gradient
/// of its input again. A forward pass need not precede it. In the last stage this is forward, loss
/// and backward in one, with no output gradient.
struct BackwardJob {
  WorkId work;
  PayloadRef input;            // (B, T, C), null in stage 0
  PayloadRef output_gradient;  // (B, T, C), null in the last stage
  std::shared_ptr<const Exponents> exponents;
  bool add = true;  // false: the sums have it already, only the input's gradient is wanted
};
SWARMPI_FIELDS(BackwardJob, work, input, output_gradient, exponents, add);

struct ForwardResult {
  WorkId work;
  PayloadRef output;     // (B, T, C), null in the last stage
  double loss_nats = 0;  // sum over tokens, last stage only
};
SWARMPI_FIELDS(ForwardResult, work, output, loss_nats);

struct BackwardResult {
  WorkId work;
  PayloadRef input_gradient;                         // (B, T, C), null in stage 0
  double loss_nats = 0;                              // sum over tokens, last stage only
  std::vector<kernels::Contribution> contributions;  // one a tensor of the stage, in tensor order;
                                                     // none where nothing was added
  bool with_forward = false;  // the forward pass was done in it, for its activations were not kept
};
SWARMPI_FIELDS(BackwardResult, work, input_gradient, loss_nats, contributions, with_forward);

}  // namespace swarmpi
