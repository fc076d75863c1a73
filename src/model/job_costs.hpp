#pragma once
// What jobs take on device classes of the deck, from sizes alone: for emulation, simulation and
// `swarmpi check`.

#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "model/tensors.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

class JobCosts {
 public:
  /// `specs`: of all stages.
  JobCosts(const Config& config, const std::vector<StageSpec>& specs);

  /// Seconds that a job takes: a pass its FLOPs, the device's overhead and what its boundaries take
  /// to code and decode; of other jobs what passes over the device's memory. `result` says whether
  /// a backward pass has made the forward pass, too.
  double seconds(const DeviceConfig& device, const Job& job, const JobResult& result) const;

  std::int64_t elements_in(StageId stage) const;

 private:
  /// Values of boundaries that a pass codes or decodes.
  double coded_values(StageId stage, bool backward) const;
  /// That pass over memory in a job which makes no pass.
  double bytes(const Job& job) const;
  double elements(StageId stage, const BlockRange& blocks) const;

  Config config_;
  std::vector<StageSpec> specs_;
  std::vector<std::vector<std::int64_t>> first_elements_;  // of each block and behind the last
};

}  // namespace swarmpi
