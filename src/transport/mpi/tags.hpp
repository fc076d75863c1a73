#pragma once
// The tags of MPI messages.

namespace swarmpi {

/// All that is sent from one rank to another, in order.
inline constexpr int kStreamTag = 1;
/// A receive on it ends with the other rank; or with a note of it.
inline constexpr int kWatchTag = 2;
/// What a process and the one that has started it say to each other first.
inline constexpr int kHelloTag = 3;

}  // namespace swarmpi
