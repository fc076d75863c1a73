// Memory: the summary of a longer run takes no more.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "io/tables.hpp"
#include "io/test_support.hpp"
#include "report/summary.hpp"

namespace {

// Through operator new, by this whole program.
std::int64_t held_bytes = 0, most_held_bytes = 0;

void* held(std::size_t size) {
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += static_cast<std::int64_t>(::malloc_usable_size(memory));
  most_held_bytes = std::max(most_held_bytes, held_bytes);
  return memory;
}

void let_go(void* memory) {
  held_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return held(size); }
void* operator new[](std::size_t size) { return held(size); }
void operator delete(void* memory) noexcept { let_go(memory); }
void operator delete[](void* memory) noexcept { let_go(memory); }
void operator delete(void* memory, std::size_t) noexcept { let_go(memory); }
void operator delete[](void* memory, std::size_t) noexcept { let_go(memory); }

namespace swarmpi::summary_memory_test {
namespace {

RunFile run_of(std::int64_t steps) {
  RunFile run;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto time_s = static_cast<double>(step);
    run.history.steps.push_back(step_row(step));
    run.history.validation.push_back({step, 2.5, time_s});
    for (std::int64_t peer = 0; peer < 2; ++peer) run.history.peers.push_back({step, peer, peer});
    run.history.events.push_back(
        {time_s, step, EventKind::commit, 0, -1, 0, "a text that does not fit into the string"});
    run.history.throughput.push_back({time_s, 1e4, 0.9, 0.9});
  }
  return run;
}

/// How many bytes the summary of such a run's file holds at most.
std::int64_t summary_bytes(std::int64_t steps) {
  const TestFolder folder;
  const std::string path = folder / "RUN.h5";
  const Status written = write_run_file(path, run_of(steps));
  EXPECT_TRUE(written.ok()) << written.message();
  const std::int64_t before = most_held_bytes = held_bytes;
  const Result<std::string> summary = run_file_summary(path);
  EXPECT_TRUE(summary.ok()) << summary.status().message();
  return most_held_bytes - before;
}

TEST(SummaryMemory, ThreeTimesAsManyRowsTakeNoMore) {
  // Two blocks of each table: the second takes the place of the first.
  const std::int64_t steps = 2 * kBlockRows;
  const std::int64_t bytes = summary_bytes(steps);
  EXPECT_GT(bytes, static_cast<std::int64_t>(kBlockRows * sizeof(PeerRow)));
  EXPECT_LT(summary_bytes(3 * steps), bytes + 1000);  // numbers have more digits
}

}  // namespace
}  // namespace swarmpi::summary_memory_test
