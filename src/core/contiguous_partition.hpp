#pragma once
// Cutting a row of costs into contiguous runs: layers into stages, stages among few peers.

#include <cstdint>
#include <span>
#include <vector>

namespace swarmpi {

/// Ends of `runs` contiguous, non-empty runs over `costs` whose costliest run is as cheap as can
/// be; among those the most even ones (least sum of squares), and among equals the one whose last
/// runs are longest. REQUIRES: 1 <= runs <= costs.size().
std::vector<std::int64_t> partition_contiguous(std::span<const double> costs, std::int64_t runs);

}  // namespace swarmpi
