#pragma once
// What MPI itself gives between two ranks: the measure for our transport.

#include <cstddef>

#include "transport/mpi_session.hpp"

namespace swarmpi {

/// Seconds for a message of `size_bytes` to go from rank `a` to rank `b` and back, by blocking
/// calls that never sleep, mean over `rounds`; 0 on all other ranks. Both must call it, before any
/// transport has started.
double raw_round_trip_s(MpiSession& session, int a, int b, std::size_t size_bytes, int rounds);

/// Bytes per second from `a` to `b`, `in_flight` messages of `size_bytes` at a time.
double raw_bytes_per_s(MpiSession& session, int a, int b, std::size_t size_bytes, int in_flight,
                       int rounds);

}  // namespace swarmpi
