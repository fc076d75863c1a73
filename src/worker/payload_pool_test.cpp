#include "worker/payload_pool.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(PayloadPool, BuffersGoRound) {
  const auto backend = kernels::make_reference_backend({});
  PayloadPool pool(*backend, 4, 8);
  auto first = pool.take();
  const float* memory = first->matrix().data;
  EXPECT_EQ(first->size_bytes(), 4u * 8 * sizeof(float));
  auto second = pool.take();
  EXPECT_NE(second->matrix().data, memory);
  first.reset();
  EXPECT_EQ(pool.take()->matrix().data, memory);
}

TEST(PayloadPool, APayloadMayOutliveItsPool) {
  const auto backend = kernels::make_reference_backend({});
  PayloadRef payload;
  {
    PayloadPool pool(*backend, 2, 2);
    const auto taken = pool.take();
    taken->matrix().data[3] = 7;
    payload = taken;
  }
  EXPECT_EQ(matrix_of(payload).data[3], 7);
}

TEST(PayloadPool, NothingIsAnEmptyMatrix) { EXPECT_TRUE(matrix_of(nullptr).empty()); }

}  // namespace
}  // namespace swarmpi
