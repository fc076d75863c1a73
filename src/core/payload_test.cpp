#include "core/payload.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace swarmpi::payload_test {
namespace {

TEST(PayloadPool, BuffersGoRound) {
  PayloadPool pool;
  auto first = pool.take(1000);
  EXPECT_EQ(first->size_bytes(), 1000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->data()) % 64, 0u);
  const std::byte* memory = first->data();
  auto second = pool.take(1000);
  EXPECT_NE(second->data(), memory);
  first.reset();
  EXPECT_EQ(pool.take(1000)->data(), memory);
}

TEST(PayloadPool, MemoryComesFromWhereItIsTold) {
  std::vector<std::size_t> asked;
  std::weak_ptr<std::byte> memory;
  {
    PayloadPool pool([&](std::size_t size_bytes) {
      asked.push_back(size_bytes);
      const std::shared_ptr<std::byte> taken(new std::byte[size_bytes],
                                             std::default_delete<std::byte[]>());
      memory = taken;
      return taken;
    });
    for (int i = 0; i < 2; ++i) {
      const auto payload = pool.take(1000);
      EXPECT_EQ(payload->data(), memory.lock().get());
    }
  }
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_GE(asked.front(), 1000u);
  EXPECT_TRUE(memory.expired());
}

TEST(PayloadPool, SizesThatDifferALittleShareTheirMemory) {
  PayloadPool pool;
  std::set<const std::byte*> memory;
  for (std::size_t size_bytes = 1'000'000; size_bytes < 1'040'000; size_bytes += 997) {
    const auto payload = pool.take(size_bytes);
    EXPECT_EQ(payload->size_bytes(), size_bytes);
    payload->data()[size_bytes - 1] = std::byte{1};
    memory.insert(payload->data());
  }
  EXPECT_LE(memory.size(), 2u);
}

TEST(PayloadPool, WhatNobodyWantsAnyMoreIsGivenBack) {
  PayloadPool pool;
  pool.take(1 << 20);
  EXPECT_EQ(pool.idle_bytes(), 1u << 20);
  for (int i = 0; i < 5000; ++i) pool.take(64);
  EXPECT_EQ(pool.idle_bytes(), (1u << 20) + 64) << "kept as long as all that is wanted is there";
  pool.take(128);
  EXPECT_EQ(pool.idle_bytes(), 64u + 128);
}

TEST(PayloadPool, NoTwoHoldersShareABuffer) {
  PayloadPool pool;
  std::set<const std::byte*> memory;
  std::vector<std::shared_ptr<Payload>> held;
  for (int i = 0; i < 50; ++i) {
    held.push_back(pool.take(100));
    EXPECT_TRUE(memory.insert(held.back()->data()).second);
  }
}

TEST(PayloadPool, APayloadMayOutliveItsPool) {
  PayloadRef payload;
  {
    PayloadPool pool;
    const auto taken = pool.take(16);
    taken->as<float>()[3] = 7;
    payload = taken;
  }
  EXPECT_EQ(payload->as<float>()[3], 7);
}

TEST(PayloadPool, NothingIsAPayloadToo) {
  PayloadPool pool;
  EXPECT_EQ(pool.take(0)->size_bytes(), 0u);
}

TEST(Payload, AHollowOneHasASizeAndNoMemory) {
  const PayloadRef payload = Payload::hollow(std::size_t{1} << 60);
  EXPECT_EQ(payload->size_bytes(), std::size_t{1} << 60);
  EXPECT_EQ(payload->data(), nullptr);
}

TEST(PayloadPool, PayloadsAreDroppedOnOtherThreads) {
  PayloadPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([payload = pool.take(64)]() mutable { payload.reset(); });
  }
  for (int i = 0; i < 1000; ++i) pool.take(64);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace swarmpi::payload_test
