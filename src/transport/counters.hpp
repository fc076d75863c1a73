#pragma once
// What a transport has carried.

#include <cstdint>

namespace swarmpi {

/// To and from other ranks, since the start. A message counts when all of it was handed to MPI, or
/// has come.
struct TransportCounters {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;  ///< headers and payloads
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
};

}  // namespace swarmpi
