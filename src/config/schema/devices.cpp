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
        .range = {.min = 0, .max = 1e12},
        .help = "sustained speed of one peer: a pass takes its FLOPs / gflops + overhead_s; this "
                "or peak_tflops must be given"},
       {.name = "peak_tflops",
        .field = device<&D::peak_tflops>(),
        .unit = "TFLOP/s",
        .range = {.min = 0, .max = 1e9},
        .help = "peak speed instead, of which a model of so many columns sustains the share "
                "efficiency * width / (width + half_width)"},
       {.name = "efficiency",
        .field = device<&D::efficiency>(),
        .range = {.min = 0, .max = 1, .above_min = true},
        .help = "share of peak_tflops that the widest models sustain"},
       {.name = "half_width",
        .field = device<&D::half_width>(),
        .unit = "columns",
        .range = {.min = 0, .max = 1e9},
        .help = "model.width that sustains half of that share"},
       {.name = "overhead_s",
        .field = device<&D::overhead_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "time that each pass takes in addition to its FLOPs"},
       {.name = "memory_gb_per_s",
        .field = device<&D::memory_gb_per_s>(),
        .unit = "GB/s",
        .range = {.min = 0, .max = 1e9},
        .help = "rate at which updates, reductions and codecs pass over memory; 0: they take no "
                "time of the device"},
       {.name = "memory_gb",
        .field = device<&D::memory_gb>(),
        .unit = "GB",
        .range = from_to(0, kMostMemoryGb),
        .help = "most memory of one peer, where there is no less for it anyway; 0: no bound"},
       {.name = "price_per_hour",
        .field = device<&D::price_per_hour>(),
        .range = {.min = 0, .max = 1e9},
        .help = "what one peer costs in an hour, in any currency"}});
  spec.row_name = &in_last_row<&Config::devices, &D::name>;
  return spec;
}

TableSpec peers_table() {
  using P = PeersConfig;
  return table_of<&Config::peer_classes>(
      "peers",
      "which peers run on such a device, behind such a link, at such a site, or compute with "
      "kernels of their own; a peer in no row runs as its machine does",
      {{.name = "peers",
        .field = peers<&P::peers>(),
        .range = {.min = 0, .max = kMostPeers, .below_max = true},
        .help = "ids of the peers; at the start of a run the id of a peer is its rank; ids that "
                "the run does not have are ignored; empty: all peers that no other row names"},
       {.name = "device",
        .field = peers<&P::device>(),
        .help = "the NAME of a table [devices.NAME]; empty: the machine as it is"},
       {.name = "link",
        .field = peers<&P::link>(),
        .help = "the NAME of a table [links.NAME]; empty: the network as it is"},
       {.name = "site",
        .field = peers<&P::site>(),
        .help = "the NAME of a table [sites.NAME]; empty: none"},
       {.name = "kernels",
        .field = peers<&P::kernels>(),
        .help = "these peers' compute.kernels; empty: as all. Peers whose kernels differ need "
                "swarm.allow_mixed"}});
}

}  // namespace swarmpi
