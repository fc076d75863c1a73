// Emulated and simulated networks: the rows of [links.NAME], [sites.NAME] and [[routes]].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field link() {
  return field_at<&in_last_row<&Config::links, member>>();
}
template <auto member>
Field site() {
  return field_at<&in_last_row<&Config::sites, member>>();
}
template <auto member>
Field route() {
  return field_at<&in_last_row<&Config::routes, member>>();
}

constexpr Range rate_or_none() { return {.min = 0, .max = 1e9}; }

}  // namespace

TableSpec links_table() {
  using L = LinkConfig;
  TableSpec spec = table_of<&Config::links>(
      "links",
      "a class of links between a peer and the network, for emulated and simulated peers; a "
      "message pays at its sender's and at its receiver's",
      {{.name = "latency_s",
        .field = link<&L::latency_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "of this end, one way: between two such peers a round trip takes four of them"},
       {.name = "jitter_s",
        .field = link<&L::jitter_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "the most by which the latency of a message is longer, at random; messages of two "
                "peers keep their order"},
       {.name = "up_mbps",
        .field = link<&L::up_mbps>(),
        .unit = "Mbit/s",
        .range = rate_or_none(),
        .help = "rate at which the peer sends, to all others together; 0: no bound"},
       {.name = "down_mbps",
        .field = link<&L::down_mbps>(),
        .unit = "Mbit/s",
        .range = rate_or_none(),
        .help = "rate at which it receives, from all others together; 0: no bound"},
       {.name = "slow_start",
        .field = link<&L::slow_start>(),
        .help = "whether connections over it begin slowly, at first and after pauses, as those of "
                "TCP do: a long way then costs a large message several round trips"}});
  spec.row_name = &in_last_row<&Config::links, &L::name>;
  return spec;
}

TableSpec sites_table() {
  using S = SiteConfig;
  TableSpec spec = table_of<&Config::sites>(
      "sites", "a place whose peers share what leads out of it and into it",
      {{.name = "up_mbps",
        .field = site<&S::up_mbps>(),
        .unit = "Mbit/s",
        .range = rate_or_none(),
        .help = "rate at which its peers together send to peers elsewhere; 0: no bound"},
       {.name = "down_mbps",
        .field = site<&S::down_mbps>(),
        .unit = "Mbit/s",
        .range = rate_or_none(),
        .help = "rate at which they together receive from elsewhere; 0: no bound"}});
  spec.row_name = &in_last_row<&Config::sites, &S::name>;
  return spec;
}

TableSpec routes_table() {
  using R = RouteConfig;
  return table_of<&Config::routes>(
      "routes",
      "the way between two sites; two sites without one are joined by their peers' links alone",
      {{.name = "sites",
        .field = route<&R::sites>(),
        .required = true,
        .help = "both NAMEs of tables [sites.NAME]"},
       {.name = "latency_s",
        .field = route<&R::latency_s>(),
        .unit = "s",
        .range = duration_or_none(),
        .help = "one way, beside that of the peers' links"},
       {.name = "mbps",
        .field = route<&R::mbps>(),
        .unit = "Mbit/s",
        .range = rate_or_none(),
        .help = "rate of each direction, shared by all that goes this way; 0: no bound"}});
}

}  // namespace swarmpi
