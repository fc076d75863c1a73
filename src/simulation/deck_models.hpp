#pragma once
// The machines of a deck in a virtual world: what jobs, messages and writes take there, by the
// models in hardware/.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "hardware/network.hpp"
#include "model/job_costs.hpp"
#include "model/tensors.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

/// Jobs on the devices that [[peers]] names.
class DeviceCosts final : public CostModel {
 public:
  /// `specs`: of all stages. REQUIRES: `config` outlives it; each peer that will run jobs has a
  /// device.
  DeviceCosts(const Config& config, const std::vector<StageSpec>& specs)
      : config_(config), costs_(config, specs), stages_(specs.size()) {}
  double seconds(PeerId peer, const Job& job) override;

 private:
  /// What passes take in each stage, by kind; < 0: not asked for yet.
  struct Device {
    DeviceConfig config;
    std::vector<double> seconds;
  };
  Device& device_of_peer(PeerId peer);

  const Config& config_;
  JobCosts costs_;
  std::size_t stages_;
  std::vector<Device> devices_;
  std::vector<std::int32_t> of_peer_;  // index in devices_, by peer; < 0: not looked up yet
};

/// Messages on the deck's links. Two peers that have none are on an ideal one.
class NetworkLinks final : public LinkModel {
 public:
  explicit NetworkLinks(const Config& config);
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override;
  double takes_s(PeerId from, PeerId to, const Message& message, const Delivery& delivery,
                 double now_s) override;
  DeathPropagation death_propagation(PeerId, PeerId) override;
  /// Between different peers, so far.
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  bool is_ideal(PeerId from, PeerId to) const {
    return !network_.concerns(from) && !network_.concerns(to);
  }

  Network network_;
  std::int64_t sent_bytes_ = 0;
};

/// A file system that all peers share and that never fails.
class PlainDisk final : public DiskModel {
 public:
  WriteAnswer write(PeerId peer, const Action& action) override;
};

}  // namespace swarmpi
