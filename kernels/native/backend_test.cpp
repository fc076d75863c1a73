// Options of the native backend. Each test that caps the instruction sets runs in a process of its
// own.

#include <dnnl.hpp>

#include "kernels/libraries.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels {
namespace {

/// Whether a product of bf16 factors, rounded and summed by whatever there is, is exact: 3 * 2
/// * 40.
bool multiplies(const BackendOptions& options) {
  auto backend = make_native_backend(options);
  backend->prepare_thread();
  const std::vector<float> master(200, 2.0f + 0x1p-12f);  // bf16: 2
  const std::vector<float> x(40, 3.0f);
  const bool is_bf16 = options.precision == Precision::bf16;
  const auto weight = backend->make_weight(5, 40);
  backend->refresh(*weight, master.data());
  std::vector<float> y(5);
  backend->linear_forward({y.data(), 1, 5}, {x.data(), 1, 40}, *weight, nullptr, {});
  return y == std::vector<float>(5, is_bf16 ? 240.0f : 240.0f + 120 * 0x1p-12f);
}

void exit_with(bool is_good) { std::exit(is_good ? 0 : 1); }

class MaxIsaTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(MaxIsaTest, CapsOneDnnAndStaysRight) {
  const auto works = [](const char* isa, Precision precision) {
    exit_with(multiplies({precision, 1, isa}));
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const char* isa : {"avx2", "avx512", "avx512_bf16", "amx"}) {
      EXPECT_EXIT(works(isa, precision), testing::ExitedWithCode(0), "") << isa;
    }
  }
  const auto is_capped = [] {
    exit_with(multiplies({Precision::fp32, 1, "avx2"}) &&
              dnnl::get_effective_cpu_isa() <= dnnl::cpu_isa::avx2);
  };
  EXPECT_EXIT(is_capped(), testing::ExitedWithCode(0), "");
}

TEST_F(MaxIsaTest, CannotChangeInAProcess) {
  const auto change = [] {
    make_native_backend({Precision::fp32, 1, "avx2"});
    make_native_backend({Precision::fp32, 1, "avx512"});
  };
  EXPECT_DEATH(change(), "max_isa");
  EXPECT_DEATH(make_native_backend({Precision::fp32, 1, "sse9"}), "sse9");
}

TEST(LibrariesTest, AreNamed) {
  EXPECT_NE(native_libraries().find("oneDNN"), std::string::npos);
  EXPECT_NE(native_libraries().find("Kokkos"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::kernels
