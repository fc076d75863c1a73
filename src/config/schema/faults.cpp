// The keys of [faults], and the rows of [[faults.at]].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field faults() {
  return field_at<&in_section<&Config::faults, member>>();
}
template <auto member>
Field fault() {
  return field_at<&in_last_row<&Config::faults_at, member>>();
}

}  // namespace

Keys faults_keys() {
  using F = FaultsConfig;
  return {
      {.name = "mode",
       .field = faults<&F::mode>(),
       .on_resume = kMayChange,
       .help = "\"kill\": a preempted peer ends its process by SIGKILL; \"emulated\": it falls "
               "silent, its process stays; \"none\": no faults"},
      {.name = "trace",
       .field = faults<&F::trace>(),
       .on_resume = kMayChange,
       .help = "CSV file of events, one a line: time_s,event,peer; empty: none"},
      {.name = "mtbf_s",
       .field = faults<&F::mtbf_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help = "mean time between the failures of a peer, drawn at random; 0: no random failures"},
      {.name = "seed",
       .field = faults<&F::seed>(),
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "seed of the random times of faults.mtbf_s"},
  };
}

TableSpec faults_at_table() {
  using F = FaultAt;
  return table_of<&Config::faults_at>(
      "faults.at", "a fault of one peer at one point of the run",
      {{.name = "step",
        .field = fault<&F::step>(),
        .range = at_least(0),
        .required = true,
        .help = "step in which it happens"},
       {.name = "peer",
        .field = fault<&F::peer>(),
        .range = {.min = 0, .max = kMostPeers, .below_max = true},
        .required = true,
        .help = "id of the peer"},
       {.name = "event",
        .field = fault<&F::event>(),
        .available = {"kill", "notice", "flip"},
        .required = true,
        .help = "\"kill\": at once; \"notice\": the peer leaves without loss of work; \"flip\": "
                "one bit of its state changes after the step"},
       {.name = "point",
        .field = fault<&F::point>(),
        .help = "what the peer is about to do when it happens; \"commit\" is done by the leader "
                "only; \"any\": anything; not for \"flip\""},
       {.name = "microbatch",
        .field = fault<&F::microbatch>(),
        .range = at_least(-1),
        .help = "index of the microbatch of that forward or backward pass; -1: any"}});
}

}  // namespace swarmpi
