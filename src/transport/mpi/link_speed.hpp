#pragma once
// Latency and bandwidth of MPI itself between the first two ranks, to compare the swarm's with.

#include <cstddef>

#include "core/field_list.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

struct LinkSpeed {
  double half_round_trip_s = 0;  ///< of 8 bytes
  double bytes_per_s = 0;        ///< one way, in messages of the size asked for
};
SWARMPI_FIELDS(LinkSpeed, half_round_trip_s, bytes_per_s);

/// All ranks call it, and all get the figures. REQUIRES: no transport is there; at least two ranks.
LinkSpeed measure_link(MpiSession& session, std::size_t message_bytes);

}  // namespace swarmpi
