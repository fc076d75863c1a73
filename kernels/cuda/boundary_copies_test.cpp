// Boundaries that come to the host, or to the GPU, beside what is computed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cuda/test_support.hpp"

namespace swarmpi::kernels::boundary_copies_test {
namespace {

constexpr std::int64_t kRows = 4096, kColumns = 2048;  // 32 MiB
constexpr std::size_t kBytes = kRows * kColumns * sizeof(float);

class BoundariesOnGpu : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    backend_ = make_cuda_backend({});
    backend_->prepare_thread();
    backend_->reserve({.context = kRows, .width = kColumns});
    on_ = std::make_unique<Matrices>(*backend_);
  }

  std::vector<float> values(std::uint64_t seed) {
    return TestRandom(seed).values<float>(kRows * kColumns);
  }
  std::shared_ptr<std::byte> host(const std::vector<float>& content = {}) {
    std::shared_ptr<std::byte> bytes = backend_->allocate_host(kBytes);
    if (!content.empty()) std::memcpy(bytes.get(), content.data(), kBytes);
    return bytes;
  }
  static std::vector<float> content(const std::shared_ptr<std::byte>& bytes) {
    std::vector<float> found(kRows * kColumns);
    std::memcpy(found.data(), bytes.get(), kBytes);
    return found;
  }
  static float* floats(const std::shared_ptr<std::byte>& bytes) {
    return reinterpret_cast<float*>(bytes.get());
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Matrices> on_;
};

TEST_F(BoundariesOnGpu, WhatAJobHasMadeIsThereThoughLaterJobsWriteToTheSameMatrix) {
  constexpr int kJobs = 5;
  const Matrix matrix = on_->matrix(kRows, kColumns);
  std::vector<std::vector<float>> made;
  std::vector<std::shared_ptr<std::byte>> places;
  std::vector<std::unique_ptr<HostCopies>> under_way;
  for (int job = 0; job < kJobs; ++job) made.push_back(values(1 + job));
  for (int job = 0; job < kJobs; ++job) {
    on_->filled(matrix, made[job]);
    places.push_back(host());
    backend_->copy_out(floats(places.back()), matrix);
    under_way.push_back(backend_->finish_beside_copies());
    ASSERT_NE(under_way.back(), nullptr);
    backend_->zero(matrix.data, kRows * matrix.stride * sizeof(float));
  }
  for (int job = 0; job < kJobs; ++job) {
    std::thread([&] { under_way[job]->wait(); }).join();
    EXPECT_TRUE(content(places[job]) == made[job]) << "job " << job;
  }
}

TEST_F(BoundariesOnGpu, CodedBytesToo) {
  const Coding coding{Codec::blockwise8, 1.0f};
  const Matrix matrix = on_->filled(on_->matrix(kRows, kColumns), values(1));
  const std::size_t size_bytes = coded_bytes(coding.codec, kRows * kColumns);
  const std::shared_ptr<std::byte> place = host(), expected = host();
  backend_->encode(expected.get(), matrix, coding);
  backend_->finish();
  backend_->encode(place.get(), matrix, coding);
  const auto copies = backend_->finish_beside_copies();
  backend_->zero(matrix.data, kRows * matrix.stride * sizeof(float));
  backend_->finish();
  copies->wait();
  EXPECT_EQ(std::memcmp(place.get(), expected.get(), size_bytes), 0);
}

TEST_F(BoundariesOnGpu, WhatWasFetchedAheadIsReadAndThenTheHostMayWriteToItsPlace) {
  const Matrix matrix = on_->matrix(kRows, kColumns);
  const std::shared_ptr<std::byte> place = host(values(1));
  std::thread([&] { backend_->fetch_ahead(place, kBytes); }).join();
  EXPECT_GT(place.use_count(), 1) << "it is kept until it is read";
  backend_->copy_in(matrix, floats(place));
  EXPECT_EQ(place.use_count(), 1);
  EXPECT_TRUE(on_->elements(matrix) == values(1));
  std::memcpy(place.get(), values(2).data(), kBytes);
  backend_->copy_in(matrix, floats(place));
  EXPECT_TRUE(on_->elements(matrix) == values(2)) << "what was fetched counts once";
}

TEST_F(BoundariesOnGpu, WhatWasFetchedStaysUntilItIsReadOrTheOldestOfTwo) {
  const Matrix matrix = on_->matrix(kRows, kColumns);
  const auto first = host(values(1)), second = host(values(2)), third = host(values(3)),
             fourth = host(values(4));
  const auto kept = [](const std::shared_ptr<std::byte>& place) { return place.use_count() > 1; };
  backend_->fetch_ahead(first, kBytes);
  backend_->fetch_ahead(second, kBytes);
  EXPECT_TRUE(kept(first) && kept(second));
  backend_->copy_in(matrix, floats(second));
  backend_->fetch_ahead(third, kBytes);
  EXPECT_TRUE(kept(first) && kept(third)) << "there was an idle room";
  backend_->fetch_ahead(fourth, kBytes);
  EXPECT_FALSE(kept(first));
  EXPECT_TRUE(kept(third) && kept(fourth));
  for (const auto& place : {third, fourth}) backend_->copy_in(matrix, floats(place));
  EXPECT_TRUE(on_->elements(matrix) == values(4));
}

TEST_F(BoundariesOnGpu, MoreMayBeFetchedThanThereIsRoomForAndReadInAnyOrder) {
  constexpr int kPlaces = 6;
  const Matrix matrix = on_->matrix(kRows, kColumns);
  std::vector<std::shared_ptr<std::byte>> places;
  for (int i = 0; i < kPlaces; ++i) places.push_back(host(values(1 + i)));
  for (const auto& place : places) backend_->fetch_ahead(place, kBytes);
  for (int i = kPlaces; i-- > 0;) {
    backend_->copy_in(matrix, floats(places[i]));
    EXPECT_TRUE(on_->elements(matrix) == values(1 + i)) << "place " << i;
  }
  for (const auto& place : places) EXPECT_EQ(place.use_count(), 1);
}

}  // namespace
}  // namespace swarmpi::kernels::boundary_copies_test
