#include "kernels/native_problem.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/native/instruction_sets.hpp"

namespace swarmpi::kernels::native_problem_test {
namespace {

BackendOptions threads(int count) {
  BackendOptions options;
  options.threads = count;
  return options;
}

TEST(NativeProblemTest, ThereIsNoneWhereTheKernelsWereBuilt) {
  EXPECT_EQ(native_problem(threads(1)), "");
  EXPECT_EQ(native_problem(threads(3)), "");
}

TEST(NativeProblemTest, NamesWhatTheProcessorLacks) {
  EXPECT_EQ(missing_instruction_sets(0b11011, 0b11111), "");
  EXPECT_EQ(missing_instruction_sets(0b11011, 0b00011), "avx2, fma");
#ifdef __x86_64__
  EXPECT_EQ(missing_instruction_sets(native::kCompiledSets, native::kCompiledSets), "");
#endif
}

/// Ends with 0 if the problem names `word`. The environment counts in a process of its own.
void expect_problem(const char* variable, const char* value, const char* word) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv(variable, value, 1);
  const auto names = [&] {
    std::exit(native_problem(threads(2)).find(word) != std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(names(), testing::ExitedWithCode(0), "");
  unsetenv(variable);
}

TEST(NativeProblemTest, NamesTheLimitOnThreads) {
  expect_problem("OMP_THREAD_LIMIT", "1", "OMP_THREAD_LIMIT is 1");
}

TEST(NativeProblemTest, OpenMpMayNotChooseTheNumberOfThreads) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("OMP_DYNAMIC", "true", 1);
  const auto is_fine = [] { std::exit(native_problem(threads(5)).empty() ? 0 : 1); };
  EXPECT_EXIT(is_fine(), testing::ExitedWithCode(0), "");
  unsetenv("OMP_DYNAMIC");
}

}  // namespace
}  // namespace swarmpi::kernels::native_problem_test
