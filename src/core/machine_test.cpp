#include "core/machine.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace swarmpi {
namespace {

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

TEST(Readable, ThreeDigitsAndAUnit) {
  EXPECT_EQ(readable_bytes(512), "512 B");
  EXPECT_EQ(readable_bytes(1536), "1.50 KiB");
  EXPECT_EQ(readable_bytes(24.0 * (1 << 30)), "24.0 GiB");
  EXPECT_EQ(readable_count(812), "812");
  EXPECT_EQ(readable_count(12345678), "12.3 M");
  EXPECT_EQ(readable_count(999999), "1.00 M");
}

}  // namespace
}  // namespace swarmpi
