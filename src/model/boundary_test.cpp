#include "model/boundary.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "model/local_trainer_test.hpp"

namespace swarmpi::test::boundary_test {
namespace {

Config coded(Codec activations, Codec gradients) {
  Config config = tiny_deck();
  config.model.context = 300;
  config.swarm.compress_activations = activations;
  config.swarm.compress_gradients = gradients;
  return config;
}

TEST(Boundary, EachDirectionHasTheSizeOfItsCodec) {
  constexpr std::int64_t kElements = 2 * 300 * 16;  // three blocks, the last one shorter
  const BoundaryBytes plain = boundary_bytes(coded(Codec::none, Codec::none));
  EXPECT_EQ(plain.activations, 4 * kElements);
  EXPECT_EQ(plain.gradients, 4 * kElements);
  const BoundaryBytes bytes = boundary_bytes(coded(Codec::blockwise8, Codec::fp16));
  EXPECT_EQ(bytes.activations, kElements + 3 * 4);
  EXPECT_EQ(bytes.gradients, 2 * kElements);
  EXPECT_EQ(bytes.both(), 3 * kElements + 12);
  EXPECT_EQ(boundary_bytes(coded(Codec::bf16, Codec::uniform8)).gradients, kElements + 3 * 4);
}

TEST(Boundary, LearnedOnesAreNarrower) {
  Config config = coded(Codec::none, Codec::bf16);
  config.swarm.boundary = Boundary::maxout;
  config.swarm.boundary_factor = 4;
  EXPECT_EQ(boundary_bytes(config).activations, 2 * 300 * 4 * 4);
  EXPECT_EQ(boundary_bytes(config).gradients, 2 * 300 * 4 * 2);
}

TEST(Boundary, RowsAreReadAsTheyWereWrittenWhateverTheirPadding) {
  const Config config = coded(Codec::none, Codec::none);
  const auto backend = ready_backend(config);
  std::vector<float> from(5 * 7, -1), to(5 * 9, -2);
  const kernels::Matrix x(from.data(), 5, 4, 7), y(to.data(), 5, 4, 9);
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) x.row(r)[c] = static_cast<float>(r) - 0.5f * c;
  }
  const std::optional<kernels::Coding> none;
  for (const auto& coding : {none, std::optional(kernels::Coding{kernels::Codec::bf16, 1})}) {
    const BoundaryFormat format(5, 4, coding);
    std::vector<std::byte> bytes(format.size_bytes());
    format.write(*backend, bytes.data(), x);
    backend->finish();
    format.read(*backend, y, bytes.data());
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 4; ++c) EXPECT_EQ(y.row(r)[c], x.row(r)[c]);
      EXPECT_EQ(y.row(r)[4], -2) << "beside the matrix";
    }
  }
}

}  // namespace
}  // namespace swarmpi::test::boundary_test
