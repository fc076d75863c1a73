#pragma once
// Real kernels in virtual time, for tiny models; the tokens are drawn from the seed.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/payload.hpp"
#include "kernels/backend.hpp"
#include "model/stage_model.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

/// For tests: a bit of one of a peer's weights flips once it has applied this step.
struct FlipAfter {
  PeerId peer;
  Step step;
};

/// Weights (d versions, newest first) and moments of tensors, by step and tensor.
using RealArchive = std::map<Step, std::map<std::string, std::vector<std::vector<float>>>>;

class RealComputeFactory final : public ComputeFactory {
 public:
  /// `backend`: null takes the deck's.
  explicit RealComputeFactory(const Config& config, std::optional<FlipAfter> flip = std::nullopt,
                              std::unique_ptr<kernels::Backend> backend = nullptr);
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

/// Writes the tensors of the deck's model into the plan, divided into its stages.
void set_stages(RunPlan& plan, const Config& config);

}  // namespace swarmpi
