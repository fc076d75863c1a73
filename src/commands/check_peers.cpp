#include "commands/check_peers.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "config/rules.hpp"
#include "core/text.hpp"
#include "model/cost.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi {
namespace {

using Numbers = std::set<std::int64_t>;

constexpr std::size_t kMostShown = 16;

std::string bytes(std::int64_t value) { return readable_bytes(static_cast<double>(value)); }

/// Peers by the stages that they serve, which are the same for many.
std::map<Numbers, Numbers> group_by_stages(const View& view) {
  std::map<Numbers, Numbers> groups;
  for (const auto& [peer, served] : view.members) {
    Numbers stages;
    for (const StageId stage : served) stages.insert(stage.value);
    groups[stages].insert(peer.value);
  }
  return groups;
}

std::string named(const std::string& noun, const Numbers& numbers) {
  Numbers shown = numbers;
  while (shown.size() > kMostShown) shown.erase(std::prev(shown.end()));
  const bool all = shown.size() == numbers.size();
  return noun + (numbers.size() == 1 ? " " : "s ") + number_list(shown) +
         (all ? "" : ",... (" + std::to_string(numbers.size()) + " in all)");
}

struct LargestPeer {
  std::int64_t peer = 0;
  Numbers stages;
  PeerMemory memory;
  std::int64_t slots = 0;
  std::int64_t boundaries_bytes = 0;
  std::int64_t gradient_bytes = 0;  // reduced, of the stages that have other replicas

  std::int64_t total_bytes() const {
    return memory.fixed_bytes + slots * memory.activation_slot_bytes + boundaries_bytes +
           gradient_bytes;
  }
};

/// What a peer holds of boundaries, where the replicas of each stage share its microbatches evenly:
/// inputs that wait for their backward pass, and what was sent and is kept for repairs.
std::int64_t boundaries_bytes(const Config& config, const View& view, const Numbers& served,
                              std::int64_t workers) {
  const std::int64_t open = config.train.microbatches * config.train.delay();
  const std::int64_t in_flight = std::min(window(config, workers), open);
  const bool keeps = view.members.size() > 1 && config.swarm.recovery == "lineage";
  std::int64_t waiting = 0, kept = 0;  // boundaries
  for (const std::int64_t stage : served) {
    const auto replicas =
        static_cast<std::int64_t>(view.replicas(StageId(static_cast<std::int32_t>(stage))).size());
    const bool first = stage == 0, last = stage == config.swarm.stages - 1;
    if (!first) waiting += (in_flight + replicas - 1) / replicas;
    if (keeps) kept += ((first ? 0 : open) + (last ? 0 : open) + replicas - 1) / replicas;
  }
  const auto each = static_cast<std::int64_t>(boundary_bytes(config));
  return waiting * each + std::min(kept * each, kept_for_repairs_bytes(config));
}

LargestPeer largest_peer(const Config& config, const std::vector<StageSpec>& stages,
                         kernels::Backend& backend, const View& view, std::int64_t workers) {
  LargestPeer largest;
  for (const auto& [served, peers] : group_by_stages(view)) {
    if (served.empty()) continue;
    std::vector<StageSpec> own;
    LargestPeer one;
    for (const std::int64_t stage : served) {
      own.push_back(stages.at(static_cast<std::size_t>(stage)));
      const auto id = StageId(static_cast<std::int32_t>(stage));
      if (view.replicas(id).size() > 1) {
        one.gradient_bytes += stage_memory(config, own.back(), backend).gradient_bytes;
      }
    }
    one.peer = *peers.begin();
    one.stages = served;
    one.memory = peer_memory(config, own, backend);
    one.slots = activation_slots(config, own, backend, workers, config.swarm.peers);
    one.boundaries_bytes = boundaries_bytes(config, view, served, workers);
    if (one.total_bytes() > largest.total_bytes()) largest = one;
  }
  return largest;
}

void describe_memory(const Config& config, const LargestPeer& largest,
                     std::vector<std::string>& lines) {
  lines.push_back("largest peer       peer " + std::to_string(largest.peer) + " with " +
                  named("stage", largest.stages) + ": " + bytes(largest.total_bytes()) + ", " +
                  bytes(largest.memory.kernels_bytes) + " of it scratch of the kernels, " +
                  bytes(largest.boundaries_bytes) +
                  " boundaries between stages; the process itself adds about 35 MiB, "
                  "44 under mpirun");
  lines.push_back("recomputation      " + config.compute.recompute + ": " +
                  (largest.memory.activation_slot_bytes == 0 ? "the last stage needs none"
                   : largest.slots == 0
                       ? "every forward pass is done again before its backward pass"
                       : "activations of up to " + std::to_string(largest.slots) +
                             " microbatches are kept, more are recomputed"));
}

}  // namespace

void describe_peers(const Config& config, const std::vector<StageSpec>& stages,
                    kernels::Backend& backend, std::vector<std::string>& lines) {
  const std::int64_t ranks = config.swarm.peers;
  if (const Status status = check_ranks(config, ranks); !status.ok()) {
    lines.push_back("peers              not on swarm.peers = " + std::to_string(ranks) + ": " +
                    status.message());
    return;
  }
  std::vector<double> costs;
  costs.reserve(stages.size());
  for (const StageSpec& stage : stages) costs.push_back(stage.flops_per_token);
  const View view = first_view(config, ranks, costs);
  const auto groups = group_by_stages(view);
  const std::int64_t workers = ranks - config.swarm.spares;
  for (const auto& [served, peers] : groups) {
    if (served.empty()) continue;
    lines.push_back(format("%-18s ", ("serving " + named("stage", served)).c_str()) +
                    named("peer", peers));
  }
  if (const auto spares = groups.find({}); spares != groups.end()) {
    lines.push_back("waiting as spares  " + named("peer", spares->second));
  }
  const std::int64_t in_flight = window(config, workers);
  lines.push_back("window             " + std::to_string(in_flight) + " microbatches in flight" +
                  (config.swarm.window > 0 ? "" : ", by default"));
  describe_memory(config, largest_peer(config, stages, backend, view, workers), lines);
  if (ranks > 1) {
    lines.push_back("for repairs        a peer keeps at most " +
                    bytes(kept_for_repairs_bytes(config)) + " of what it sent (recovery = \"" +
                    config.swarm.recovery + "\")");
  }
}

}  // namespace swarmpi
