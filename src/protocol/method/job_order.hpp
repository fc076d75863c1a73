#pragma once
// Which passes of a peer wait for others, by swarm.method. In all methods a backward pass goes
// before a forward pass, and an older step before a newer one; what is here is what a method adds.

#include <memory>

#include "core/ids.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// "swarm" and "data_parallel": no pass waits for another. Begins with a history of the run, and
/// ends with it.
class JobOrder {
 public:
  virtual ~JobOrder() = default;
  /// The peer's part of a pipeline. Only the first call counts: the pipelines stay what they are
  /// until the run goes back.
  virtual void set_share(const PipelineShare&) {}
  virtual bool may_begin_forward(const WorkId&) const { return true; }
  virtual bool may_begin_backward(const WorkId&) const { return true; }
  virtual void forward_done(const WorkId&) {}
  virtual void backward_done(const WorkId&) {}
  /// All microbatches up to this step are done with.
  virtual void committed(Step) {}
};

/// `plan` outlives it.
std::unique_ptr<JobOrder> make_job_order(const RunPlan& plan);

}  // namespace swarmpi
