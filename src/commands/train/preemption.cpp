#include "commands/train/preemption.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "commands/train/fault_trace.hpp"
#include "core/random.hpp"
#include "emulation/peer_placement.hpp"

namespace swarmpi {
namespace {

// Thirty years: longer than any run, and within what the clocks can count.
constexpr double kLatestS = 1e9;
// Of virtual peers, which are found by their ids.
constexpr std::int64_t kHighestId = 1 << 24;

// Why this run cannot do an event; "" if it can.
std::string refusal(const TraceEvent& event, const FaultsConfig& faults, std::int64_t ranks,
                    bool is_known) {
  const bool emulated = faults.mode == FaultsMode::emulated;
  const bool known = event.event == FaultEvent::kill || event.event == FaultEvent::notice ||
                     (emulated && event.event != FaultEvent::flip);
  if (!known) {
    return fmt::format(
        "faults.mode = \"{}\" supports {}, not {} (at {:g} s)", name_of(faults.mode),
        emulated ? "kill, notice, join, stop, continue, cut and heal" : "kill and notice",
        name_of(event.event), event.time_s);
  }
  if (event.time_s > kLatestS) {
    return fmt::format("{} at {:g} s: later than {:g} s, the latest time", name_of(event.event),
                       event.time_s, kLatestS);
  }
  if (!is_known) {
    return fmt::format("there is no peer {} among {} ranks ({} at {:g} s)", event.peer, ranks,
                       name_of(event.event), event.time_s);
  }
  return "";
}

// Of a resumed run, which may have fewer ranks, what came before counts no more.
Result<std::vector<TraceEvent>> read_trace(const FaultsConfig& faults, std::int64_t ranks,
                                           double run_time_s) {
  if (faults.trace.empty()) return std::vector<TraceEvent>();
  const Result<FaultTrace> trace = FaultTrace::read(faults.trace);
  if (!trace.ok()) return Status::bad_input("faults.trace: " + trace.status().message());
  const std::vector<TraceEvent>& events = trace.value().events();
  std::set<std::int64_t> newcomers;
  for (const TraceEvent& event : events) {
    if (event.event == FaultEvent::join) newcomers.insert(event.peer);
    const bool known =
        event.time_s < run_time_s || event.peer < ranks || newcomers.contains(event.peer);
    const std::string why = refusal(event, faults, ranks, known);
    if (!why.empty()) return Status::bad_input("faults.trace: " + faults.trace + ": " + why);
  }
  // At a resume who was dead is replaced.
  const Status order = run_time_s == 0 ? trace.value().check_order() : Status();
  if (!order.ok()) return Status::bad_input("faults.trace: " + order.message());
  return events;
}

// Draws when a peer that has run since `from_s` fails. After a resume (another first term) the draw
// is another, as the machines are.
TraceEvent draw_failure(const FaultsConfig& faults, std::int64_t peer, double from_s,
                        std::int64_t first_term) {
  const auto term = static_cast<std::uint64_t>(first_term);
  const auto id = static_cast<std::uint32_t>(peer);
  const double after_s =
      -faults.mtbf_s * std::log(uniform(philox(faults.seed, Stream::faults, id, term)[0]));
  return {from_s + std::min(after_s, kLatestS), FaultEvent::kill, peer};
}

// Of events at one time, a notice comes before its kill, and a kill before the join that takes the
// rank.
std::pair<double, int> order_of(const TraceEvent& event) {
  constexpr std::array kOrder = {FaultEvent::notice, FaultEvent::kill, FaultEvent::join};
  const auto* const found = std::find(kOrder.begin(), kOrder.end(), event.event);
  return {event.time_s, static_cast<int>(found - kOrder.begin())};
}

// Whether it leaves the peer alive, and changes no view.
bool is_silent(FaultEvent event) {
  return event == FaultEvent::stop || event == FaultEvent::go_on || event == FaultEvent::cut ||
         event == FaultEvent::heal;
}

double deaths_per_s(const std::vector<TraceEvent>& trace) {
  double last_s = 0;
  double deaths = 0;
  for (const TraceEvent& event : trace) {
    if (event.event != FaultEvent::kill) continue;
    last_s = std::max(last_s, event.time_s);
    ++deaths;
  }
  return last_s > 0 ? deaths / last_s : 0;
}

void add_notices(std::vector<TraceEvent>& events, double notice_s, double not_before_s) {
  if (notice_s <= 0) return;
  for (std::size_t i = events.size(); i-- > 0;) {
    if (events[i].event != FaultEvent::kill) continue;
    events.push_back(
        {std::max(not_before_s, events[i].time_s - notice_s), FaultEvent::notice, events[i].peer});
  }
}

void sort_events(std::vector<TraceEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return order_of(a) < order_of(b);
  });
}

}  // namespace

double between_deaths_s(const Preemption& preemption, const FaultsConfig& faults,
                        std::int64_t serving) {
  double per_s = preemption.trace_deaths_per_s;
  if (faults.mtbf_s > 0) per_s += static_cast<double>(serving) / faults.mtbf_s;
  return per_s > 0 ? 1 / per_s : 0;
}

Result<Preemption> preemption_of(const Config& config, int rank, const RunPart& part) {
  const FaultsConfig& faults = config.faults;
  Result<std::vector<TraceEvent>> read = read_trace(faults, part.ranks, part.run_time_s);
  if (!read.ok()) return read.status();
  std::vector<TraceEvent>& trace = read.value();
  const double trace_deaths_per_s = deaths_per_s(trace);
  std::erase_if(trace, [&](const TraceEvent& e) { return e.time_s < part.run_time_s; });
  PeerPlacement placement = place_peers(trace, part.ranks);
  // A resumed run has a peer at each rank again, so some joins of the trace find no free rank: they
  // are left out.
  if (!placement.refused.empty() && part.run_time_s == 0) {
    return Status::bad_input("faults.trace: " + faults.trace + ": " + placement.refused);
  }
  Preemption preemption{{}, std::move(placement.ranks), {}, {}, trace_deaths_per_s};
  std::copy_if(trace.begin(), trace.end(), std::back_inserter(preemption.silent_faults),
               [](const TraceEvent& event) { return is_silent(event.event); });
  const auto is_here = [&](std::int64_t peer) {
    const auto found = preemption.placement.find(peer);
    return found != preemption.placement.end() && found->second == rank;
  };
  std::vector<TraceEvent>& local = preemption.local_events;
  if (faults.mtbf_s > 0) {
    local.push_back(draw_failure(faults, rank, part.run_time_s, part.first_term));
  }
  for (const TraceEvent& event : trace) {
    const bool joins = event.event == FaultEvent::join;
    if (joins && preemption.placement.contains(event.peer)) preemption.joins.push_back(event);
    if (!is_here(event.peer)) continue;
    local.push_back(event);
    if (!joins || faults.mtbf_s == 0) continue;
    local.push_back(draw_failure(faults, event.peer, event.time_s, part.first_term));
  }
  add_notices(local, config.swarm.notice_s, part.run_time_s);
  sort_events(local);
  return preemption;
}

Result<std::vector<TraceEvent>> preemption_of_all(const Config& config, std::int64_t peers) {
  FaultsConfig faults = config.faults;
  // Nothing but virtual peers can die.
  if (faults.mode == FaultsMode::kill) faults.mode = FaultsMode::emulated;
  Result<std::vector<TraceEvent>> read = read_trace(faults, peers, 0);
  if (!read.ok()) return read;
  std::vector<TraceEvent>& events = read.value();
  const auto refuse = [&](const TraceEvent& event, const std::string& why) {
    return Status::bad_input(fmt::format("faults.trace: {}: {} of peer {} at {:g} s: {}",
                                         faults.trace, name_of(event.event), event.peer,
                                         event.time_s, why));
  };
  std::set<std::int64_t> known;
  for (std::int64_t peer = 0; peer < peers; ++peer) known.insert(peer);
  std::vector<TraceEvent> drawn;
  if (faults.mtbf_s > 0) {
    for (const std::int64_t peer : known) drawn.push_back(draw_failure(faults, peer, 0, 1));
  }
  for (const TraceEvent& event : events) {
    const bool joins = event.event == FaultEvent::join;
    if (!joins) continue;
    if (event.peer >= kHighestId) return refuse(event, "the id is too high");
    if (!known.insert(event.peer).second) return refuse(event, "the id was used before");
    if (faults.mtbf_s > 0) drawn.push_back(draw_failure(faults, event.peer, event.time_s, 1));
  }
  events.insert(events.end(), drawn.begin(), drawn.end());
  add_notices(events, config.swarm.notice_s, 0);
  sort_events(events);
  return read;
}

// With faults.mtbf_s the events have a death of each peer, though most come after the run.
double between_deaths_s(const Config& config, const std::vector<TraceEvent>& all) {
  Preemption preemption;
  if (config.faults.mtbf_s == 0) preemption.trace_deaths_per_s = deaths_per_s(all);
  return between_deaths_s(preemption, config.faults, config.swarm.peers);
}

Result<double> between_deaths_s(const Config& config) {
  const std::int64_t peers = config.swarm.peers;
  if (config.compute.fidelity == Fidelity::simulated) {
    const Result<std::vector<TraceEvent>> all = preemption_of_all(config, peers);
    if (!all.ok()) return all.status();
    return between_deaths_s(config, all.value());
  }
  const Result<Preemption> preemption = preemption_of(config, 0, {.ranks = peers});
  if (!preemption.ok()) return preemption.status();
  return between_deaths_s(preemption.value(), config.faults, peers);
}

}  // namespace swarmpi
