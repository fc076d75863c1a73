#pragma once
// Makes the computes of a run's peers, and keeps what they save for those that resume.

#include <memory>

#include "protocol/peer.hpp"
#include "simulation/models.hpp"
#include "simulation/synthetic_compute.hpp"

namespace swarmpi {

class ComputeFactory {
 public:
  virtual ~ComputeFactory() = default;
  /// The compute of one peer. The plan outlives it, as the workshop does.
  virtual std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan,
                                               const InitialMembership& membership,
                                               const ResumeState& resume) = 0;
};

class SyntheticComputeFactory : public ComputeFactory {
 public:
  explicit SyntheticComputeFactory(const SyntheticModel& model) : model_(model) {}
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan, const InitialMembership&,
                                       const ResumeState& resume) override {
    return std::make_unique<SyntheticCompute>(self, plan, model_, resume, archive_);
  }

 protected:
  SyntheticModel model_;
  SyntheticArchive archive_;
};

}  // namespace swarmpi
