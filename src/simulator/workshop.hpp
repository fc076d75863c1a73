#pragma once
// Makes the computes of a run's peers, and keeps what they save for those that resume.

#include <memory>

#include "simulator/made_up_compute.hpp"
#include "simulator/models.hpp"
#include "swarm/peer.hpp"

namespace swarmpi {

class Workshop {
 public:
  virtual ~Workshop() = default;
  /// The compute of one peer. The plan outlives it, as the workshop does.
  virtual std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan,
                                               const Roster& roster, const ResumeState& resume) = 0;
};

class MadeUpWorkshop : public Workshop {
 public:
  explicit MadeUpWorkshop(const MadeUpModel& model) : model_(model) {}
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan, const Roster&,
                                       const ResumeState& resume) override {
    return std::make_unique<MadeUpCompute>(self, plan, model_, resume, archive_);
  }

 protected:
  MadeUpModel model_;
  MadeUpArchive archive_;
};

}  // namespace swarmpi
