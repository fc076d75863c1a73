#pragma once
// The outer loop of all native kernels: items (blocks, rows, heads) dealt to Kokkos' threads, or to
// OpenMP's where Kokkos has none. Which worker does an item never matters to its result, so bits do
// not depend on their number.

#include <cstdint>

namespace swarmpi::kernels::native {

/// Starts Kokkos, once in the process: only the first call's number of threads counts. Returns the
/// number of workers.
int start_workers(int threads);
/// How many workers for_each_item has: each may use scratch memory of its own. Starts one if none
/// was started.
int worker_count();

using ItemBody = void (*)(const void* context, std::int64_t item, int worker);
void run_items(std::int64_t count, ItemBody body, const void* context);

/// Calls body(item, worker) for item = 0 .. count - 1, worker < worker_count().
template <class Body>
void for_each_item(std::int64_t count, const Body& body) {
  run_items(
      count,
      [](const void* context, std::int64_t item, int worker) {
        (*static_cast<const Body*>(context))(item, worker);
      },
      &body);
}

constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block;
}

/// Calls body(block, first, end) for the blocks of `size` that cover 0 .. count - 1.
template <class Body>
void for_each_block(std::int64_t count, std::int64_t size, const Body& body) {
  for_each_item(blocks_of(count, size), [&](std::int64_t block, int) {
    const std::int64_t first = block * size;
    body(block, first, first + size < count ? first + size : count);
  });
}

}  // namespace swarmpi::kernels::native
