#pragma once
// Real kernels in virtual time, on tiny models and tokens drawn from the seed.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "core/payload.hpp"
#include "kernels/backend.hpp"
#include "model/stage_model.hpp"
#include "simulation/compute_factory.hpp"

namespace swarmpi {

/// A flipped bit, for tests: one of a peer's weights, once it has applied this step.
struct FlipAfter {
  PeerId peer;
  Step step;
};

/// Weights (d versions, newest first) and moments of tensors, by step and tensor.
using RealArchive = std::map<Step, std::map<std::int32_t, std::vector<std::vector<float>>>>;

class RealComputeFactory final : public ComputeFactory {
 public:
  explicit RealComputeFactory(const Config& config, std::optional<FlipAfter> flip = std::nullopt);
  ~RealComputeFactory() override;
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan,
                                       const InitialMembership& membership,
                                       const ResumeState& resume) override;

 private:
  Config config_;
  std::optional<FlipAfter> flip_;
  std::unique_ptr<kernels::Backend> backend_;
  PayloadPool payloads_;
  RealArchive archive_;
};

/// Puts the model's tensors into the plan, cut into so many stages.
void lay_out(RunPlan& plan, const ModelConfig& model, std::int64_t stages);

}  // namespace swarmpi
