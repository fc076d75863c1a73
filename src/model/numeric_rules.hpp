#pragma once
// The version of the rules that decide bits.

#include <cstdint>

namespace swarmpi {

/// Stands in the fingerprint for rules that its problem does not see: the schedule, which sequences
/// validation reads, what the state hash covers, the largest trust ratio. To grow with each change
/// of one of them, so that a run does not go on by other rules than it began with.
inline constexpr std::uint32_t kRulesVersion = 2;

/// What the rules give on fixed inputs: a test finds a change of them for which the version did not
/// grow (src/runtime/numeric_rules_test.cpp).
inline constexpr std::uint64_t kRulesHash = 0xedf21609549f9ecd;

}  // namespace swarmpi
