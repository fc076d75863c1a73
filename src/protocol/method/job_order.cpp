#include "protocol/method/job_order.hpp"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace swarmpi {
namespace {

/// GPipe (Huang et al. 2019): all forward passes of a step before its backward passes, in each
/// stage by itself. In the last stage both are one job, and nothing waits. Validation is neither
/// waited for nor counted.
class AllForwardsFirst final : public JobOrder {
 public:
  explicit AllForwardsFirst(const RunPlan& plan) : plan_(plan) {}

  void set_share(const PipelineShare& share) override {
    if (!share_) share_ = share;
  }
  bool may_begin_backward(const WorkId& work) const override {
    if (work.stage.value + 1 == plan_.stages()) return true;
    const Step step = work.microbatch.step;
    const auto done = forwards_done_.find({step, work.stage});
    const std::int64_t all = share_.value_or(PipelineShare{}).of(plan_.train_microbatches(step));
    return done != forwards_done_.end() && done->second >= all;
  }
  void forward_done(const WorkId& work) override {
    if (work.microbatch.purpose != Purpose::train) return;
    ++forwards_done_[{work.microbatch.step, work.stage}];
  }
  void committed(Step step) override {
    std::erase_if(forwards_done_, [step](const auto& of) { return of.first.first <= step; });
  }

 private:
  const RunPlan& plan_;
  std::optional<PipelineShare> share_;
  std::map<std::pair<Step, StageId>, std::int64_t> forwards_done_;
};

/// 1F1B (PipeDream, Narayanan et al. 2019): in a pipeline at most as many training microbatches are
/// open as it has stages. A stage may have as many between its forward and its backward pass as
/// there are stages from it on: with these it waits for nobody, and one more forward pass would
/// only delay a backward pass that others wait for (measured: 90 % instead of 99 % of the ideal in
/// eight stages).
class OneForwardOneBackward final : public JobOrder {
 public:
  explicit OneForwardOneBackward(const RunPlan& plan) : plan_(plan) {}

  bool may_begin_forward(const WorkId& work) const override {
    if (work.microbatch.purpose != Purpose::train) return true;
    const auto open = open_.find(work.stage);
    const std::int64_t count =
        open == open_.end() ? 0 : static_cast<std::int64_t>(open->second.size());
    return count < plan_.stages() - work.stage.value;
  }
  void forward_done(const WorkId& work) override {
    if (work.microbatch.purpose == Purpose::train) open_[work.stage].insert(work.microbatch);
  }
  void backward_done(const WorkId& work) override { open_[work.stage].erase(work.microbatch); }

 private:
  const RunPlan& plan_;
  std::map<StageId, std::set<MicrobatchId>> open_;
};

}  // namespace

std::unique_ptr<JobOrder> make_job_order(const RunPlan& plan) {
  if (plan.swarm.method == Method::gpipe) return std::make_unique<AllForwardsFirst>(plan);
  if (plan.swarm.method == Method::one_f_one_b) {
    return std::make_unique<OneForwardOneBackward>(plan);
  }
  return std::make_unique<JobOrder>();
}

}  // namespace swarmpi
