#include "commands/bench/kernel_operations.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "commands/bench/bench.hpp"
#include "model/make_backend.hpp"

namespace swarmpi::kernel_operations_test {
namespace {

Config small() {
  Config config;
  config.model.width = 12;
  config.model.heads = 3;
  config.model.context = 5;
  config.model.vocab = 17;
  config.train.microbatch_size = 2;
  config.compute.kernels = Kernels::reference;
  return config;
}

TEST(KernelOperations, TheReferenceAgreesWithItself) {
  const Config config = small();
  const auto a = make_backend(config).value(), b = make_backend(config).value();
  const KernelOperations first(config, *a), second(config, *b);
  ASSERT_EQ(first.operations().size(), second.operations().size());
  for (std::size_t i = 0; i < first.operations().size(); ++i) {
    const Operation& operation = first.operations()[i];
    operation.run();
    second.operations()[i].run();
    EXPECT_EQ(relative_error(first.outputs(i), second.outputs(i)), 0) << operation.name;
    EXPECT_GT(operation.flops + operation.bytes, 0) << operation.name;
  }
}

TEST(KernelOperations, NativeKernelsAreWithinTheirBounds) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Config config = small();
    config.model.precision = precision;
    const auto exact = make_backend(config).value();
    config.compute.kernels = Kernels::native;
    const auto native = make_backend(config).value();
    exact->prepare_thread();
    native->prepare_thread();
    const KernelOperations expected(config, *exact), measured(config, *native);
    for (std::size_t i = 0; i < measured.operations().size(); ++i) {
      const Operation& operation = measured.operations()[i];
      operation.run();
      expected.operations()[i].run();
      EXPECT_LE(relative_error(measured.outputs(i), expected.outputs(i)), operation.bound)
          << operation.name;
    }
  }
}

TEST(KernelOperations, AWrongNumberIsFound) {
  const std::vector<double> right{1, 2, 3, 4};
  std::vector<double> wrong = right;
  const auto error = [&] { return relative_error({wrong}, {right}); };
  EXPECT_EQ(error(), 0);
  wrong[1] += 0.5f;
  EXPECT_DOUBLE_EQ(error(), 0.125);
  wrong[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error(), std::numeric_limits<double>::infinity());

  const std::vector<std::int64_t> sums{5, 6}, others{5, 7};
  EXPECT_EQ(relative_error({sums}, {others}), std::numeric_limits<double>::infinity());
}

TEST(OperationTimes, CountEveryOperationOnceAndChangeNothing) {
  for (const Kernels kernels : {Kernels::reference, Kernels::native}) {
    Config config = small();
    config.compute.kernels = kernels;
    const auto plain = make_backend(config).value(), timed = make_backend(config).value();
    plain->prepare_thread();
    const KernelOperations expected(config, *plain), measured(config, *timed);
    OperationTimes times(1);
    timed->set_listener(&times);
    for (std::size_t i = 0; i < measured.operations().size(); ++i) {
      expected.operations()[i].run();
      measured.operations()[i].run();
    }
    timed->set_listener(nullptr);
    for (std::size_t i = 0; i < measured.operations().size(); ++i) {
      EXPECT_EQ(relative_error(measured.outputs(i), expected.outputs(i)), 0);
    }
    measured.operations().front().run();
    std::int64_t calls = 0;
    for (const OperationTimes::Use& use : times.uses()) {
      calls += use.calls;
      EXPECT_GE(use.time_s, 0) << use.name;
    }
    EXPECT_EQ(calls, static_cast<std::int64_t>(measured.operations().size()));
  }
}

TEST(Spread, IsMedianLeastAndMost) {
  const Spread s = spread({3, 1, 2, 10, 5});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 10);
}

}  // namespace
}  // namespace swarmpi::kernel_operations_test
