// The rows of [devices.NAME], [[peers]] and [[faults.at]].

#include "config/schema_rows.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field device() {
  return &last<&Config::devices, member>;
}
template <auto member>
Field peers() {
  return &last<&Config::peer_classes, member>;
}
template <auto member>
Field fault() {
  return &last<&Config::faults_at, member>;
}

/// A table whose rows are a list of Config.
template <auto list>
TableSpec table(std::string_view name, std::string_view help, Keys keys) {
  TableSpec spec;
  spec.name = name;
  for (KeySpec& key : keys) {
    key.section = name;
    key.on_resume = kMayChange;
  }
  spec.keys = std::move(keys);
  spec.count = [](const Config& config) { return (config.*list).size(); };
  spec.resize = [](Config& config, std::size_t rows) { (config.*list).resize(rows); };
  spec.append_row = [](const Config& from, std::size_t row, Config& to) {
    (to.*list).push_back((from.*list)[row]);
  };
  spec.help = help;
  return spec;
}

TableSpec devices() {
  using D = DeviceConfig;
  TableSpec spec = table<&Config::devices>(
      "devices", "a class of devices, for emulated and simulated peers",
      {{.name = "gflops",
        .field = device<&D::gflops>(),
        .unit = "GFLOP/s",
        .range = {.min = 0, .max = 1e12, .above_min = true},
        .required = true,
        .help = "sustained speed: a job takes its FLOPs / gflops + overhead_s"},
       {.name = "overhead_s",
        .field = device<&D::overhead_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "time that each job takes on top"}});
  spec.row_name = &last<&Config::devices, &D::name>;
  return spec;
}

TableSpec peer_classes() {
  using P = PeersConfig;
  return table<&Config::peer_classes>(
      "peers", "which peers are such devices; those in no list run at their machine's own speed",
      {{.name = "peers",
        .field = peers<&P::peers>(),
        .range = {.min = 0, .max = kManyPeers, .below_max = true},
        .required = true,
        .help = "their ids: at start a peer's id is its rank"},
       {.name = "device",
        .field = peers<&P::device>(),
        .required = true,
        .help = "NAME of [devices.NAME]"}});
}

TableSpec faults_at() {
  using F = FaultAt;
  return table<&Config::faults_at>(
      "faults.at", "what shall happen to a peer, and when",
      {{.name = "step",
        .field = fault<&F::step>(),
        .range = at_least(0),
        .required = true,
        .help = "the step in which it happens"},
       {.name = "peer",
        .field = fault<&F::peer>(),
        .range = {.min = 0, .max = kManyPeers, .below_max = true},
        .required = true,
        .help = "id of the peer"},
       {.name = "event",
        .field = fault<&F::event>(),
        .choices = {"kill", "notice", "join", "stop", "continue", "cut", "heal", "flip"},
        .available = {"kill", "notice", "flip"},
        .required = true,
        .help = "kill: at once; notice: it leaves in good order; flip: one bit of its "
                "state changes"},
       {.name = "point",
        .field = fault<&F::point>(),
        .choices = {"any", "forward", "backward", "reduce", "commit", "apply", "checkpoint"},
        .help = "what the peer is about to do; commit: the leader"},
       {.name = "microbatch",
        .field = fault<&F::microbatch>(),
        .range = at_least(-1),
        .help = "which the pass is of; -1: any"}});
}

}  // namespace

std::vector<TableSpec> make_tables() { return {devices(), peer_classes(), faults_at()}; }

}  // namespace swarmpi
