#include "kernels/reference/guarded_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::guarded_backend_test {
namespace {

using GuardedBackendDeathTest = testing::Test;

std::vector<float> some_values() {
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 7.5f;
  return values;
}

TEST(GuardedBackendDeathTest, TheHostCannotTouchItsMemory) {
  const auto backend = make_guarded_backend({});
  const auto memory = backend->allocate(100);
  const auto weight = backend->make_weight(3, 5);
  EXPECT_EXIT(*memory->as<float>() = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(std::exit(*memory->as<int>()), testing::KilledBySignal(SIGSEGV), "");
  const std::byte* const copy = weight->copies().front().data();
  EXPECT_EXIT(std::exit(static_cast<int>(*copy)), testing::KilledBySignal(SIGSEGV), "");
  backend->zero(memory->data(), 100);
  EXPECT_EXIT(*memory->as<float>() = 1, testing::KilledBySignal(SIGSEGV), "") << "after it";
}

TEST(GuardedBackend, BytesGoThereAndBack) {
  const auto backend = make_guarded_backend({});
  const std::vector<float> values = some_values();
  const std::size_t size_bytes = values.size() * sizeof(float);
  const auto memory = backend->allocate(size_bytes);
  std::vector<float> read(values.size(), 1);
  backend->download(read.data(), memory->data(), size_bytes);
  EXPECT_EQ(std::count(read.begin(), read.end(), 0.0f), std::ssize(read)) << "zeroed";
  backend->upload(memory->data(), values.data(), size_bytes);
  EXPECT_EQ(backend->host_view(memory->data(), size_bytes, read.data()), read.data());
  EXPECT_EQ(backend->host_place(memory->data(), read.data()), read.data());
  EXPECT_EQ(read, values);
}

TEST(GuardedBackend, MemoryThatComesAgainIsZeroed) {
  const auto backend = make_guarded_backend({});
  const std::vector<float> values = some_values();
  const std::size_t size_bytes = values.size() * sizeof(float);
  for (int i = 0; i < 3; ++i) {
    const auto memory = backend->allocate(size_bytes);
    std::vector<float> read(values.size(), 1);
    backend->download(read.data(), memory->data(), size_bytes);
    EXPECT_EQ(std::count(read.begin(), read.end(), 0.0f), std::ssize(read));
    backend->upload(memory->data(), values.data(), size_bytes);
  }
}

TEST(GuardedBackend, ResultsAreThereAfterFinish) {
  const auto backend = make_guarded_backend({});
  const std::vector<float> values = some_values();
  const auto count = static_cast<std::int64_t>(values.size());
  const auto memory = backend->allocate(values.size() * sizeof(float));
  const ConstMatrix there(memory->as<float>(), 1, count);
  backend->upload(memory->data(), values.data(), values.size() * sizeof(float));
  std::uint64_t hash = 0;
  std::vector<float> copy(values.size());
  backend->hash_weights(hash, there.data, count, 3);
  backend->copy_out(copy.data(), there);
  const std::uint64_t expected = hash_of_weights(values.data(), count, 3);
  EXPECT_NE(hash, expected);
  EXPECT_TRUE(std::isnan(copy.front()));
  backend->finish();
  EXPECT_EQ(hash, expected);
  EXPECT_EQ(copy, values);
}

TEST(GuardedBackend, AnyThreadHashesWhatLiesThere) {
  const auto backend = make_guarded_backend({});
  const std::vector<float> values = some_values();
  const auto count = static_cast<std::int64_t>(values.size());
  const auto memory = backend->allocate(values.size() * sizeof(float));
  const auto* const there = memory->as<float>();
  backend->upload(memory->data(), values.data(), values.size() * sizeof(float));
  std::array<std::uint64_t, 2> hashes{};
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) hashes[1] = backend->state_hash(there, there, there, count, 9);
  });
  for (int i = 0; i < 100; ++i) hashes[0] = backend->state_hash(there, nullptr, nullptr, count, 9);
  other.join();
  EXPECT_EQ(hashes[0], hash_of_weights(values.data(), count, 9));
  EXPECT_EQ(hashes[1], hash_of_state(values.data(), values.data(), values.data(), count, 9));
}

}  // namespace
}  // namespace swarmpi::kernels::guarded_backend_test
