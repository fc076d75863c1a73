#pragma once
// Links, machines and disks drawn from a seed: slow and fast ones, steady and moody ones.

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

/// Every order of magnitude alike. REQUIRES: 0 < least.
double log_uniform(RandomStream& stream, double least, double most);

struct RandomLinksPlan {
  double least_s = 1e-5;               ///< shortest way between two peers
  double most_s = 1e-3;                ///< longest one
  double jitter = 0.5;                 ///< of each message, as part of the way
  double spike_chance = 0;             ///< of a message that takes ten times as long
  double twice_chance = 0;             ///< of a message that arrives twice
  double bytes_per_s = 1e9;            ///< of each pair
  bool delays_itself = false;          ///< what a peer sends itself is on its way too
  double loss_known_most_s = 0;        ///< until a death is heard of
  double kill_delivery_most_s = 1e-3;  ///< until a peer that another kills is dead
};

class RandomLinks : public LinkModel {
 public:
  RandomLinks(std::uint64_t seed, const RandomLinksPlan& plan)
      : plan_(plan),
        link_base_stream_(seed, Stream::simulation, 1),
        link_delay_stream_(seed, Stream::simulation, 2),
        death_stream_(seed, Stream::simulation, 8) {}
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override;
  DeathPropagation death_propagation(PeerId dead, PeerId to) override;
  double kill_delivery_s(PeerId by, PeerId victim) override;

 private:
  RandomLinksPlan plan_;
  RandomStream link_base_stream_;
  RandomStream link_delay_stream_;
  RandomStream death_stream_;
  std::map<std::pair<PeerId, PeerId>, double> way_s_;
};

struct RandomCostsPlan {
  double second_per_pass = 1e-3;  ///< a forward pass of the cheapest stage on the fastest peer
  double noise = 0.2;             ///< of each job
  double speed_ratio = 1;         ///< the slowest peer needs so many times as long
};

class RandomCosts final : public CostModel {
 public:
  RandomCosts(std::uint64_t seed, const RandomCostsPlan& plan, const RunPlan& run);
  double seconds(PeerId peer, const Job& job) override;

 private:
  RandomCostsPlan plan_;
  std::vector<double> stages_;  // what a forward pass takes, in that of the cheapest stage
  RandomStream speeds_;
  RandomStream noise_;
  std::map<PeerId, double> slowness_;
};

struct RandomDisksPlan {
  double most_s = 0;                      ///< until something is written
  double without_writer = 0;              ///< chance of a write whose writer dies meanwhile
  std::optional<std::int64_t> room = {};  ///< writes of all peers, until no more will do
  std::optional<PeerId> breaks = {};      ///< only this peer's; none: the disk that all share
};

class RandomDisks : public DiskModel {
 public:
  RandomDisks(std::uint64_t seed, const RandomDisksPlan& plan)
      : plan_(plan),
        times_(seed, Stream::simulation, 5),
        writer_death_stream_(seed, Stream::simulation, 9) {}
  WriteAnswer write(PeerId peer, const Action& action) override;

 private:
  RandomDisksPlan plan_;
  std::int64_t written_ = 0;
  RandomStream times_;
  RandomStream writer_death_stream_;
};

/// Bytes of payload that a message carries.
std::int64_t payload_bytes(const Message& message);

}  // namespace swarmpi
