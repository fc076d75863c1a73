#include "core/machine.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace swarmpi::machine_test {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

TEST(Machine, ReadsModelAndTheFlagsThatMatter) {
  std::istringstream cpuinfo(
      "processor\t: 0\nmodel name\t: Some CPU @ 2.0: fast\n"
      "flags\t\t: fpu avx2 avx512f amx_bf16 sse\n\nprocessor\t: 1\nmodel name\t: Other\n");
  const Machine machine = parse_cpuinfo(cpuinfo);
  EXPECT_EQ(machine.cpu, "Some CPU @ 2.0: fast");
  EXPECT_EQ(machine.flags, (std::vector<std::string>{"avx2", "avx512f", "amx_bf16"}));
  EXPECT_TRUE(machine.bf16_products());
}

TEST(Machine, AnOldCpuHasNoBf16) {
  std::istringstream cpuinfo("model name : Old\nflags : avx2\n");
  const Machine machine = parse_cpuinfo(cpuinfo);
  EXPECT_FALSE(machine.bf16_products());
  EXPECT_NE(bf16_advice(machine).find("does not pay"), std::string::npos);
}

TEST(Machine, AnEmptyCpuinfoIsNoError) {
  std::istringstream cpuinfo(": \n:\n");
  EXPECT_EQ(parse_cpuinfo(cpuinfo).cpu, "unknown CPU");
}

TEST(Machine, ThisOneHasACoreAndMemory) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
}

/// A folder in the place of "/".
class Root : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content << '\n';
  }
  std::int64_t limit() const { return cgroup_memory_bytes(root_.string()); }

  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("swarmpi_memory_" + std::to_string(::getpid()));
};

TEST_F(Root, WithoutControlGroupsThereIsNoLimit) {
  EXPECT_EQ(limit(), kUnlimited);
  write("proc/self/cgroup", "nonsense");
  EXPECT_EQ(limit(), kUnlimited);
}

TEST_F(Root, Version2TakesTheLeastOfTheGroupAndItsAncestors) {
  write("proc/self/cgroup", "0::/job/step/task");
  write("sys/fs/cgroup/job/step/task/memory.max", "max");
  EXPECT_EQ(limit(), kUnlimited);
  write("sys/fs/cgroup/job/memory.max", "4000000000");
  EXPECT_EQ(limit(), 4000000000);
  write("sys/fs/cgroup/job/step/memory.max", "3000000000");
  EXPECT_EQ(limit(), 3000000000);
  write("sys/fs/cgroup/other/memory.max", "1000");
  EXPECT_EQ(limit(), 3000000000) << "a group that we are not in";
}

TEST_F(Root, Version1AndTheMixtureOfBoth) {
  write("proc/self/cgroup", "5:cpu,memory:/slurm/job_7\n4:cpuset:/x\n0::/user");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(limit(), 9223372036854771712);
  write("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "5000000000");
  EXPECT_EQ(limit(), 5000000000);
  write("sys/fs/cgroup/unified/user/memory.max", "2000000000");
  EXPECT_EQ(limit(), 2000000000);
}

TEST_F(Root, AContainerSeesItsOwnGroupUnderTheRootOfTheMount) {
  write("proc/self/cgroup", "0::/\n3:memory:/docker/0123");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000000");
  EXPECT_EQ(limit(), 7000000000);
  write("sys/fs/cgroup/memory.max", "6000000000");
  EXPECT_EQ(limit(), 6000000000);
}

TEST_F(Root, WhatIsFreeInAGroupIsItsLimitLessWhatIsUsedButForCachesOfFiles) {
  const auto free = [this] { return cgroup_free_bytes(root_.string()); };
  write("proc/self/cgroup", "0::/job/step");
  EXPECT_EQ(free(), kUnlimited);
  write("sys/fs/cgroup/job/memory.max", "1000");
  EXPECT_EQ(free(), kUnlimited) << "what is used is not known";
  write("sys/fs/cgroup/job/memory.current", "900");
  EXPECT_EQ(free(), 100);
  write("sys/fs/cgroup/job/memory.stat", "anon 500\ninactive_file 200\nactive_file 50");
  EXPECT_EQ(free(), 350);
  write("sys/fs/cgroup/job/step/memory.max", "800");
  write("sys/fs/cgroup/job/step/memory.current", "790");
  EXPECT_EQ(free(), 10) << "the least of the group and its ancestors";
  write("sys/fs/cgroup/job/step/memory.current", "900");
  EXPECT_EQ(free(), 0);
}

TEST(FreeMemory, IsNotMoreThanWhatCanBeUsed) {
  EXPECT_GT(free_memory_bytes(), 0);
  EXPECT_LE(free_memory_bytes(), usable_memory_bytes());
}

TEST(UsableMemory, IsAtMostWhatTheMachineHasAndTheAddressSpaceAllows) {
  const std::int64_t usable = usable_memory_bytes();
  EXPECT_GT(usable, 0);
  EXPECT_LE(usable, static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE));
#ifndef __SANITIZE_ADDRESS__  // whose shadow takes more address space than any such limit
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(usable / 4 * 3);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  const std::int64_t limited = usable_memory_bytes();
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(limited, usable / 4 * 3);
#endif
}

}  // namespace
}  // namespace swarmpi::machine_test
