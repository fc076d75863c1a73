#include "commands/machines_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "hardware/device.hpp"
#include "model/boundary.hpp"
#include "model/cost.hpp"
#include "model/job_costs.hpp"
#include "protocol/membership/beat_period.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/method/layout.hpp"

namespace swarmpi {
namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();
// Of a sum on the wire, packed to the bits in use, and of what it is rounded to.
constexpr double kPackedBytes = 6;
constexpr double kRoundedBytes = 4;

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

// What a peer has of the deck; nothing of a kind where it runs as its machine does.
struct PeerMachine {
  std::optional<DeviceConfig> device;
  std::optional<LinkConfig> link;
  std::string site;

  PeerMachine(const Config& config, PeerId peer)
      : device(device_of(config, peer)), link(link_of(config, peer)) {
    if (const PeersConfig* row = row_of(config, peer)) site = row->site;
  }
  bool described() const { return device || link; }
  std::string name() const {
    std::string name = device ? device->name : "as it is";
    if (link) name += ", " + link->name;
    if (!site.empty()) name += ", " + site;
    return name;
  }
  double memory(double bytes) const { return device ? memory_s(*device, bytes) : 0; }
  double up_s(double bytes) const { return link ? carried_s(link->up_mbps, bytes) : 0; }
  double down_s(double bytes) const { return link ? carried_s(link->down_mbps, bytes) : 0; }
  double latency_s() const { return link ? link->latency_s : 0; }

 private:
  static double carried_s(double mbps, double bytes) { return mbps > 0 ? 8e-6 * bytes / mbps : 0; }
};

// What one peer takes for a microbatch in a stage.
struct PassTimes {
  double forward_s = 0, backward_s = 0;
  double sends_s = 0, receives_s = 0;
  double distance_s = 0;  // to the stages before and behind, forth and back

  double compute_s() const { return forward_s + backward_s; }
  double slowest_s() const { return std::max({compute_s(), sends_s, receives_s}); }
  PassTimes& operator+=(const PassTimes& other) {
    forward_s += other.forward_s;
    backward_s += other.backward_s;
    sends_s += other.sends_s;
    receives_s += other.receives_s;
    distance_s += other.distance_s;
    return *this;
  }
};

// Passes need none, and JobCosts lists all blocks of them: of the widest models gigabytes.
std::vector<StageSpec> without_tensors(std::vector<StageSpec> specs) {
  for (StageSpec& spec : specs) spec.tensors.clear();
  return specs;
}

class Report {
 public:
  Report(const Config& config, const std::vector<StageSpec>& specs, const View& view,
         std::int64_t workers, double between_deaths_s)
      : config_(config),
        specs_(specs),
        view_(view),
        workers_(workers),
        between_deaths_s_(between_deaths_s),
        costs_(config, without_tensors(specs)),
        crossing_(boundary_bytes(config)) {}

  std::vector<std::string> lines() {
    std::vector<std::string> lines;
    std::map<std::string, std::set<std::int64_t>> classes;
    for (const auto& [peer, served] : view_.members()) {
      const PeerMachine machine(config_, peer);
      if (machine.described() && !served.empty()) classes[machine.name()].insert(peer.value);
    }
    if (classes.empty()) return lines;
    lines.push_back(
        "machines           what work takes, by formula: a microbatch in the costliest stage that "
        "such a peer serves, a reduction, the download of that stage's state");
    for (const auto& [name, peers] : classes) lines.push_back(class_line(name, peers));
    lines.push_back(hold_up_line());
    if (const auto late = late_signs_line()) lines.push_back(*late);
    if (const auto deaths = deaths_line()) lines.push_back(*deaths);
    if (std::string price = price_line(); !price.empty()) lines.push_back(price);
    return lines;
  }

 private:
  const StageSpec& spec(StageId stage) const {
    return specs_.at(static_cast<std::size_t>(stage.value));
  }

  double elements_in(StageId stage) const {
    double elements = 0;
    for (const TensorInfo& tensor : spec(stage).tensors) elements += as_double(tensor.count());
    return elements;
  }

  /// Of the microbatches that cross to this stage, the share that the peer exchanges with others;
  /// 0 where there is no such stage.
  double share_of_others(PeerId peer, StageId stage) const {
    if (stage.value < 0 || stage.value >= std::ssize(specs_)) return 0;
    const double own = view_.serves(peer, stage) ? 1 : 0;
    return 1 - own / as_double(std::ssize(view_.replicas(stage)));
  }

  PassTimes passes(const PeerMachine& machine, PeerId peer, StageId stage) const {
    PassTimes passes;
    if (machine.device) {
      const bool again =
          config_.compute.recompute == Recompute::always || config_.swarm.method == Method::gpipe;
      BackwardJob backward;
      backward.work.stage = stage;
      ForwardJob forward;
      forward.work.stage = stage;
      BackwardResult result;
      result.with_forward = again;
      // The last stage makes both in one job.
      if (!spec(stage).has_head) {
        passes.forward_s = costs_.seconds(*machine.device, forward, ForwardResult{});
      }
      passes.backward_s = costs_.seconds(*machine.device, backward, result);
    }
    const double before = share_of_others(peer, StageId(stage.value - 1));
    const double behind = share_of_others(peer, stage.next());
    const double gradients = as_double(crossing_.gradients);
    const double activations = as_double(crossing_.activations);
    passes.sends_s = machine.up_s(before * gradients + behind * activations);
    passes.receives_s = machine.down_s(before * activations + behind * gradients);
    passes.distance_s = 2 * (before + behind) * machine.latency_s();
    return passes;
  }

  /// Each of the R replicas has a part of 1/R of the stage, and gets the others' sums of it; the
  /// rounded part goes to all.
  double reduction_s(const PeerMachine& machine, StageId stage) const {
    const double replicas = as_double(static_cast<std::int64_t>(view_.replicas(stage).size()));
    const double elements = elements_in(stage);
    const double others = (replicas - 1) / replicas;
    const double bytes = elements * others * (kPackedBytes + kRoundedBytes);
    const double in_memory = elements * (kSumBytes + others * (kAddendBytes + kCopyBytes));
    return std::max(machine.up_s(bytes), machine.down_s(bytes)) + machine.memory(in_memory) +
           2 * latencies_s(machine, stage);
  }
  bool reduces_by_ring(StageId stage) const {
    const std::int64_t replicas = std::ssize(view_.replicas(stage));
    return reduction_pattern(replicas, replicas) == ReductionPattern::ring;
  }
  /// What distance adds to each half of a reduction: once round the ring, or to the owner.
  double latencies_s(const PeerMachine& machine, StageId stage) const {
    const std::int64_t others = std::ssize(view_.replicas(stage)) - 1;
    const std::int64_t hops = reduces_by_ring(stage) ? others : std::min<std::int64_t>(others, 1);
    return as_double(hops) * 2 * machine.latency_s();
  }
  double update_s(const PeerMachine& machine, StageId stage) const {
    return machine.memory(kUpdateBytes * elements_in(stage));
  }

  double download_s(const PeerMachine& machine, StageId stage) const {
    const double values = as_double(config_.train.delay() + 2);
    const double bytes = values * kRoundedBytes * elements_in(stage);
    return std::max(machine.down_s(bytes), machine.up_s(bytes)) + 4 * machine.latency_s();
  }

  std::string class_line(const std::string& name, const std::set<std::int64_t>& peers) const {
    std::optional<StageId> costliest;
    PeerId peer;  // serves it
    for (const std::int64_t id : peers) {
      const PeerId one(static_cast<std::int32_t>(id));
      for (const StageId stage : served_by(one)) {
        if (!costliest || spec(stage).flops_per_token > spec(*costliest).flops_per_token) {
          costliest = stage;
          peer = one;
        }
      }
    }
    const PeerMachine machine(config_, peer);
    const PassTimes each = passes(machine, peer, *costliest);
    std::string line =
        fmt::format("  {:16} {}, stage {}:", name,
                    counted(static_cast<std::int64_t>(peers.size()), "peer"), costliest->value);
    if (machine.device) {
      line += spec(*costliest).has_head ? " both passes " + seconds_text(each.backward_s)
                                        : " forward " + seconds_text(each.forward_s) +
                                              ", backward " + seconds_text(each.backward_s);
    } else {
      line += " passes as this machine makes them";
    }
    if (machine.link) {
      if (config_.swarm.stages > 1) {
        line += "; boundaries " + seconds_text(each.sends_s) + " up, " +
                seconds_text(each.receives_s) + " down";
      }
      line += "; round trip to such a peer " + seconds_text(4 * machine.latency_s());
    }
    const double reduction = reduction_s(machine, *costliest);
    if (reduction > 0) line += "; reduction " + seconds_text(reduction);
    const double update = update_s(machine, *costliest);
    if (update > 0) line += ", update " + seconds_text(update);
    if (machine.link) line += "; download " + seconds_text(download_s(machine, *costliest));
    return line;
  }

  std::vector<StageId> served_by(PeerId peer) const {
    const auto& served = view_.members().at(peer);
    return {served.begin(), served.end()};
  }

  // A stage does so many microbatches a second as its peers do together, each in the time that is
  // its longest: at work, sending, or receiving.
  struct Rate {
    double per_s = 0;
    double computing_per_s = 0;  // were there no links
    bool by_link = false;        // at most of its peers
    double flight_s = 0;         // of a microbatch, forth and back, the mean of its peers
  };
  Rate rate(StageId stage) const {
    Rate rate;
    std::int64_t by_link = 0;
    const std::vector<PeerId>& replicas = view_.replicas(stage);
    const double share = 1 / as_double(static_cast<std::int64_t>(replicas.size()));
    for (const PeerId peer : replicas) {
      const PeerMachine machine(config_, peer);
      PassTimes all;
      for (const StageId served : served_by(peer)) all += passes(machine, peer, served);
      rate.per_s += all.slowest_s() > 0 ? 1 / all.slowest_s() : kForEver;
      rate.computing_per_s += all.compute_s() > 0 ? 1 / all.compute_s() : kForEver;
      by_link += all.slowest_s() > all.compute_s() ? 1 : 0;
      const PassTimes here = passes(machine, peer, stage);
      rate.flight_s +=
          share * (here.compute_s() + std::max(here.sends_s, here.receives_s) + here.distance_s);
    }
    rate.by_link = 2 * by_link > static_cast<std::int64_t>(replicas.size());
    return rate;
  }

  std::string hold_up_line() const {
    std::vector<std::pair<double, StageId>> order;
    double flight_s = 0, after_s = 0;
    for (const StageSpec& of : specs_) {
      const StageId stage(of.stage);
      const Rate its = rate(stage);
      order.emplace_back(its.per_s, stage);
      flight_s += its.flight_s;
      for (const PeerId peer : view_.replicas(stage)) {
        const PeerMachine machine(config_, peer);
        after_s = std::max(after_s, reduction_s(machine, stage) + update_s(machine, stage));
      }
    }
    std::sort(order.begin(), order.end());
    const StageId slowest = order.front().second;
    const Rate its = rate(slowest);
    if (its.per_s == kForEver) {
      return "held up by         nobody: no device or link of the deck bounds a stage";
    }
    const auto in_flight =
        as_double(std::min(source_window(config_.swarm, workers_), config_.train.microbatches));
    const double let_through = flight_s > 0 ? in_flight / flight_s : kForEver;
    const double per_s = std::min(its.per_s, let_through);
    std::string line;
    if (let_through < its.per_s) {
      line = fmt::format(
          "held up by         what is in flight: a microbatch is under way for {}, so that {:.0f} "
          "at a time make {:.3g} a second; stage {}, the slowest, could do {:.3g}",
          seconds_text(flight_s), in_flight, let_through, slowest.value, its.per_s);
    } else {
      line = fmt::format("held up by         stage {}: {:.3g} microbatches a second", slowest.value,
                         its.per_s);
      if (its.by_link) {
        line += fmt::format(", for its links ({} by its devices alone)",
                            its.computing_per_s == kForEver
                                ? std::string("no bound")
                                : fmt::format("{:.3g}", its.computing_per_s));
      }
      if (order.size() > 1 && order[1].first != kForEver) {
        line +=
            fmt::format("; the next, stage {}, does {:.3g}", order[1].second.value, order[1].first);
      }
    }
    const double step_s = as_double(config_.train.microbatches) / per_s + after_s;
    return line + fmt::format("; a step takes {} at least, {} of it for reduction and update",
                              seconds_text(step_s), seconds_text(after_s));
  }

  /// How long a ping among replicas of the stage and its answer are under way while all send their
  /// sums: each waits behind what MPI has taken of its pair, on lines that all pairs share.
  double slowest_answer_s(StageId stage) const {
    const std::vector<PeerId>& replicas = view_.replicas(stage);
    const double others = as_double(std::ssize(replicas)) - 1;
    const double sums = elements_in(stage) * kPackedBytes / (others + 1);
    double slowest_s = 0;
    for (const PeerId peer : replicas) {
      const PeerMachine machine(config_, peer);
      const auto line_s = [&](double bytes_a_pair) {
        return std::max(machine.up_s(others * bytes_a_pair), machine.down_s(others * bytes_a_pair));
      };
      const double ahead_s = std::max(kAhead.most_s, line_s(kAhead.least_bytes));
      slowest_s = std::max(slowest_s, std::min(ahead_s, line_s(std::min(kAhead.most_bytes, sums))));
    }
    return 2 * slowest_s;
  }

  /// A warning, where live replicas will be taken for cut off.
  std::optional<std::string> late_signs_line() const {
    constexpr double kMargin = 1.3;  // of what is advised: other messages come between
    const double patience = kLongerThanTheLeader * config_.swarm.suspect_after_s;
    for (const StageSpec& of : specs_) {
      const StageId stage(of.stage);
      const double answer_s = slowest_answer_s(stage);
      if (config_.swarm.recovery == Recovery::off || answer_s <= patience) continue;
      return fmt::format(
          "WARNING            among the {} replicas of stage {} a ping and its answer take up to "
          "{} while sums are reduced; after {} live peers are killed: set swarm.suspect_after_s to "
          "{:.0f} at least, or have fewer replicas a stage",
          view_.replicas(stage).size(), stage.value, seconds_text(answer_s), seconds_text(patience),
          std::ceil(kMargin * answer_s / kLongerThanTheLeader));
    }
    return std::nullopt;
  }

  /// How often a reduction is begun anew, in the stage where that is worst: the sums go round a
  /// ring, and a death before they are back, when no chunk is finished, voids them all.
  std::optional<std::string> deaths_line() const {
    if (between_deaths_s_ <= 0 || config_.swarm.recovery == Recovery::off) return std::nullopt;
    StageId worst(0);
    double begun_anew = 0, its_sums_s = 0, its_between_s = 0;
    for (const StageSpec& of : specs_) {
      const StageId stage(of.stage);
      if (!reduces_by_ring(stage)) continue;
      const double sums_s = sums_round_the_ring_s(stage);
      const double between_s =
          between_deaths_s_ * as_double(workers_) / as_double(std::ssize(view_.replicas(stage)));
      const double times = std::expm1(sums_s / between_s);  // deaths are a Poisson process
      if (times <= begun_anew) continue;
      worst = stage, begun_anew = times, its_sums_s = sums_s, its_between_s = between_s;
    }
    if (begun_anew == 0) return std::nullopt;
    const bool too_often = begun_anew > 1;
    return fmt::format(
        "{:19}of the {} replicas of stage {} one dies each {}; a reduction that has finished no "
        "chunk, in its first {}, is then begun anew: {:.2g} times on average{}",
        too_often ? "WARNING" : "deaths", view_.replicas(worst).size(), worst.value,
        seconds_text(its_between_s), seconds_text(its_sums_s), begun_anew,
        too_often ? ", so that most of the time is lost: have fewer replicas a stage, for instance "
                    "by more stages"
                  : "");
  }
  double sums_round_the_ring_s(StageId stage) const {
    const double bytes = elements_in(stage) * kPackedBytes;
    double slowest_s = 0;
    for (const PeerId peer : view_.replicas(stage)) {
      const PeerMachine machine(config_, peer);
      slowest_s = std::max(slowest_s, std::max(machine.up_s(bytes), machine.down_s(bytes)) +
                                          latencies_s(machine, stage));
    }
    return slowest_s;
  }

  std::string price_line() const {
    double price = 0;
    for (const auto& [peer, served] : view_.members()) {
      const PeerMachine machine(config_, peer);
      price += machine.device ? machine.device->price_per_hour : 0;
    }
    return price > 0 ? fmt::format("price              {:.4g} an hour for all peers", price) : "";
  }

  const Config& config_;
  const std::vector<StageSpec>& specs_;
  const View& view_;
  std::int64_t workers_;
  double between_deaths_s_;
  JobCosts costs_;
  BoundaryBytes crossing_;
};

}  // namespace

std::vector<std::string> machines_report(const Config& config, const std::vector<StageSpec>& specs,
                                         const View& view, std::int64_t workers,
                                         double between_deaths_s) {
  return Report(config, specs, view, workers, between_deaths_s).lines();
}

}  // namespace swarmpi
