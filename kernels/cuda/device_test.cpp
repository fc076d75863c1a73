#include "kernels/cuda/device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/test_support.hpp"

namespace swarmpi::kernels::cuda::device_test {
namespace {

/// What launchers tell a rank, for one test.
class LauncherTest : public testing::Test {
 protected:
  LauncherTest() { clear(); }
  ~LauncherTest() override { clear(); }

 private:
  static void clear() {
    for (const char* const variable :
         {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_LOCAL_RANK",
          "PMIX_LOCAL_SIZE", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}) {
      unsetenv(variable);
    }
  }
};

TEST_F(LauncherTest, RanksOfAHostTakeItsDevicesInTurn) {
  EXPECT_EQ(local_rank(), 0);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "5", 1);
  EXPECT_EQ(local_rank(), 5);
  EXPECT_EQ(device_of(local_rank(), 4), 1);
  EXPECT_EQ(device_of(local_rank(), 1), 0);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "x", 1);
  setenv("SLURM_LOCALID", "3", 1);
  EXPECT_EQ(local_rank(), 3) << "what is no number is not said";
}

TEST_F(LauncherTest, RanksThatShareADeviceShareItsMemory) {
  EXPECT_EQ(ranks_on_device(4), 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "8", 1);
  EXPECT_EQ(ranks_on_device(4), 2);
  EXPECT_EQ(ranks_on_device(8), 1);
  EXPECT_EQ(ranks_on_device(3), 3);
}

using DeviceOnGpu = OnGpu;

TEST_F(DeviceOnGpu, ResultsComeWithTheNextFinishHoweverManyThereAre) {
  const auto backend = make_cuda_backend({});
  backend->prepare_thread();
  constexpr std::int64_t kCount = 20000;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  const auto memory = backend->allocate(values.size() * sizeof(float));
  backend->upload(memory->data(), values.data(), values.size() * sizeof(float));
  const auto sums = backend->allocate(values.size() * sizeof(std::int64_t));
  std::vector<Contribution> did(values.size());
  for (std::int64_t i = 0; i < kCount; ++i) {  // more than there is room for at a time
    const ConstMatrix one(memory->as<float>() + i, 1, 1);
    backend->add_gradient(did[static_cast<std::size_t>(i)], sums->as<std::int64_t>() + i,
                          Write::set, one, 20, 40);
  }
  backend->finish();
  for (std::int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(did[static_cast<std::size_t>(i)].exponent,
              64 - std::countl_zero(static_cast<std::uint64_t>(i + 1)))
        << i;
  }
}

TEST_F(DeviceOnGpu, AnyThreadReadsWhatTheComputingThreadHasMade) {
  const auto backend = make_cuda_backend({});
  backend->prepare_thread();
  const auto memory = backend->allocate(4096);
  std::vector<float> values(1024, 2.5f), seen(1024);
  backend->upload(memory->data(), values.data(), 4096);
  backend->finish();
  std::uint64_t aside = 0;
  std::thread([&] {
    backend->download(seen.data(), memory->data(), 4096);
    aside = backend->state_hash(memory->as<float>(), nullptr, nullptr, 1024, 7);
  }).join();
  EXPECT_EQ(seen, values);
  std::uint64_t here = 0;
  backend->hash_weights(here, memory->as<float>(), 1024, 7);
  backend->finish();
  EXPECT_EQ(aside, here);
}

// Such an error stays: nothing can be computed in this process any more.
TEST_F(DeviceOnGpu, AnErrorOfTheDeviceIsTheDeathOfThePeerInWords) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch_nothing = [] {
    const auto backend = make_cuda_backend({});
    backend->prepare_thread();
    float* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 16);
    backend->copy({nowhere, 1, 1024}, {nowhere + 4096, 1, 1024});
    backend->finish();
  };
  EXPECT_DEATH(touch_nothing(), "the GPU failed .*illegal memory access");
}

}  // namespace
}  // namespace swarmpi::kernels::cuda::device_test
