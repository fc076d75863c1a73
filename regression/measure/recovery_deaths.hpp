#pragma once
// What is done again after a death.

#include <cstdint>

namespace swarmpi {

/// Prints it, over so many deaths, each in a run of its own. False if a run went wrong, or with
/// lineage something was done again that a living peer had done.
bool count_deaths(std::int64_t deaths, std::uint64_t seed);
/// The run of this seed, event by event.
bool replay_death(std::uint64_t seed, bool lineage);

}  // namespace swarmpi
