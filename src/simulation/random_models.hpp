#pragma once
// Links, machines and disks with random times, drawn from a seed.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

/// Log-uniform in [least, most): every order of magnitude is equally likely. REQUIRES: 0 < least.
double log_uniform(RandomStream& stream, double least, double most);

/// Which messages share a line of `bytes_per_s`: each has its own, or those between two peers in
/// one direction, or all of their sender.
enum class Queue : std::uint8_t { none, pair, uplink };

struct RandomLinksPlan {
  double least_s = 1e-5;               ///< shortest delay between two peers
  double most_s = 1e-3;                ///< longest one
  double jitter = 0.5;                 ///< largest random part of a message's delay, relative to it
  double spike_chance = 0;             ///< of a message that takes ten times as long
  double duplicate_chance = 0;         ///< of a message that arrives twice
  double bytes_per_s = 1e9;            ///< of each pair of peers
  Queue queue = Queue::none;           ///< where messages wait for those that were sent before
  double bytes_per_payload_byte = 1;   ///< that are carried: a large state of few real bytes
  double piece_s = 0;                  ///< that a piece of state takes more: it is large
  bool delays_to_self = false;         ///< whether messages of a peer to itself are delayed, too
  double loss_known_most_s = 0;        ///< longest time until another peer hears of a death
  double kill_delivery_most_s = 1e-3;  ///< longest time from the order to kill a peer to its death
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
  std::map<std::pair<PeerId, PeerId>, double> base_delay_s_;
  std::map<std::pair<PeerId, PeerId>, double> line_free_s_;  // of a pair, or of an uplink

  /// The line that a message to another peer waits in.
  std::pair<PeerId, PeerId> line(PeerId from, PeerId to) const;
  /// When the last byte has left the sender, from now on; its own bytes take `own_s`.
  double carried_s(PeerId from, PeerId to, double own_s, double now_s);
  /// The same for what overtakes().
  double overtaking_s(PeerId from, PeerId to, double now_s) const;
};

struct RandomCostsPlan {
  double second_per_pass = 1e-3;  ///< a forward pass of the cheapest stage on the fastest peer
  double noise = 0.2;             ///< largest random part of a job's time, relative to it
  double speed_ratio = 1;         ///< how many times as long the slowest peer takes
};

class RandomCosts final : public CostModel {
 public:
  RandomCosts(std::uint64_t seed, const RandomCostsPlan& plan, const RunPlan& run);
  double seconds(PeerId peer, const Job& job) override;

 private:
  RandomCostsPlan plan_;
  std::vector<double> stages_;  // cost of a forward pass, in that of the cheapest stage
  RandomStream speed_stream_;
  RandomStream noise_stream_;
  std::map<PeerId, double> slowness_;
};

struct RandomDisksPlan {
  double most_s = 0;                  ///< longest time that a write takes
  double outlives_writer_chance = 0;  ///< of a write that is completed though its writer dies
  std::optional<std::int64_t> writes_until_full = {};  ///< of all peers; then writes fail
  std::optional<PeerId> failing_peer = {};  ///< only its writes fail then; none: those of all peers
  std::optional<std::int64_t> lost_part = {};  ///< number of the manifest that lacks a part
  /// Number of the going back that finds the newest checkpoint damaged, and how it is.
  std::optional<std::int64_t> damaged = {};
  DiskModel::Damage damage = DiskModel::Damage::cut_off;
};

class RandomDisks : public DiskModel {
 public:
  RandomDisks(std::uint64_t seed, const RandomDisksPlan& plan)
      : plan_(plan),
        write_time_stream_(seed, Stream::simulation, 5),
        writer_death_stream_(seed, Stream::simulation, 9) {}
  WriteAnswer write(PeerId peer, const Action& action) override;
  bool loses_part() override { return plan_.lost_part == ++manifests_; }
  Damage damages_newest() override {
    return plan_.damaged == ++loads_ ? plan_.damage : Damage::none;
  }

 private:
  RandomDisksPlan plan_;
  std::int64_t written_ = 0, manifests_ = 0, loads_ = 0;
  RandomStream write_time_stream_;
  RandomStream writer_death_stream_;
};

struct RandomCollectivesPlan {
  double making_most_s = 1e-3;  ///< longest time that an id, or a collective at one member, takes
  double adding_most_s = 1e-3;  ///< longest part of adding up
  double deadline_s = 1;        ///< after which it fails where somebody does not enter
  double trouble = 0.3;         ///< chance of what does not end well
};

class RandomCollectives final : public CollectiveModel {
 public:
  RandomCollectives(std::uint64_t seed, const RandomCollectivesPlan& plan)
      : plan_(plan), stream_(seed, Stream::simulation, 46) {}
  std::optional<double> making_s() override;
  bool fails_to_make() override { return stream_.chance(0.1 * plan_.trouble); }
  CollectiveFate fate() override;
  double within_s(double longest_s) override { return stream_.uniform(0, longest_s); }
  bool tells_after_abort() override { return stream_.chance(0.5); }

 private:
  RandomCollectivesPlan plan_;
  RandomStream stream_;
};

}  // namespace swarmpi
