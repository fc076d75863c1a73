// Emulated and simulated devices: the rows of [devices.NAME], and of [[peers]], which assigns peers
// to them.

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field device() {
  return field_at<&in_last_row<&Config::devices, member>>();
}
template <auto member>
Field peers() {
  return field_at<&in_last_row<&Config::peer_classes, member>>();
}

}  // namespace

TableSpec devices_table() {
  using D = DeviceConfig;
  TableSpec spec = table_of<&Config::devices>(
      "devices", "a class of devices, for emulated and simulated peers",
      {{.name = "gflops",
        .field = device<&D::gflops>(),
        .unit = "GFLOP/s",
        .range = {.min = 0, .max = 1e12, .above_min = true},
        .required = true,
        .help = "sustained speed of one peer: a job takes its FLOPs / gflops + overhead_s"},
       {.name = "overhead_s",
        .field = device<&D::overhead_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "time that each job takes in addition to its FLOPs / gflops"}});
  spec.row_name = &in_last_row<&Config::devices, &D::name>;
  return spec;
}

TableSpec peers_table() {
  using P = PeersConfig;
  return table_of<&Config::peer_classes>(
      "peers",
      "which peers run on such a device, or compute with kernels of their own; a peer in no row "
      "runs "
      "at the speed of its machine",
      {{.name = "peers",
        .field = peers<&P::peers>(),
        .range = {.min = 0, .max = kMostPeers, .below_max = true},
        .required = true,
        .help = "ids of the peers; at the start of a run the id of a peer is its rank; ids that "
                "the run does not have are ignored"},
       {.name = "device",
        .field = peers<&P::device>(),
        .help = "the NAME of a table [devices.NAME]; empty: the machine as it is"},
       {.name = "kernels",
        .field = peers<&P::kernels>(),
        .help = "these peers' compute.kernels; empty: as all. Peers whose kernels differ need "
                "swarm.allow_mixed"}});
}

}  // namespace swarmpi
