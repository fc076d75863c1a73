#pragma once
// The tags of MPI messages.

namespace swarmpi {

/// All that is sent from one rank to another, in order.
inline constexpr int kStreamTag = 1;
/// Never sent: a receive on it ends only with the other rank.
inline constexpr int kWatchTag = 2;

}  // namespace swarmpi
