// Options of the native backend. Each test that caps the instruction sets runs in a process of its
// own.

#include <dnnl.hpp>
#include <fstream>
#include <iterator>

#include "kernels/libraries.hpp"
#include "kernels/native/parallel.hpp"
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

/// Leaves the bits of what our own loops compute with so many workers in a file.
void write_bits(int workers, const std::string& path) {
  auto backend = make_native_backend({Precision::fp32, workers, ""});
  backend->prepare_thread();
  if (native::worker_count() != workers) exit_with(false);
  const AttentionShape shape{3, 70, 2, 24};
  constexpr std::int64_t kRows = 210, kWidth = 48;
  TestRandom random(71);
  const auto qkv = random.values<float>(kRows * 3 * kWidth);
  std::vector<float> out(kRows * kWidth), dqkv(qkv.size()), log_sum(kRows * 2), norms(2 * kWidth);
  backend->attention_forward({out.data(), kRows, kWidth}, log_sum.data(),
                             {qkv.data(), kRows, 3 * kWidth}, shape);
  backend->attention_backward({dqkv.data(), kRows, 3 * kWidth}, {out.data(), kRows, kWidth},
                              {qkv.data(), kRows, 3 * kWidth}, {out.data(), kRows, kWidth},
                              log_sum.data(), shape);
  std::vector<float> mean(kRows), rstd(kRows), normed(out.size());
  backend->layer_norm_forward({normed.data(), kRows, kWidth}, mean.data(), rstd.data(),
                              {out.data(), kRows, kWidth}, qkv.data(), qkv.data());
  backend->layer_norm_backward({normed.data(), kRows, kWidth}, {}, norms.data(), &norms[kWidth],
                               Write::set, {out.data(), kRows, kWidth}, {qkv.data(), kRows, kWidth},
                               mean.data(), rstd.data(), qkv.data());
  std::ofstream file(path, std::ios::binary);
  for (const auto* bits : {&out, &dqkv, &log_sum, &normed, &norms}) {
    file.write(reinterpret_cast<const char*>(bits->data()),
               static_cast<std::streamsize>(bits->size() * sizeof(float)));
  }
  exit_with(file.good());
}

TEST(WorkersTest, BitsDoNotDependOnTheirNumber) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto read = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string one = testing::TempDir() + "swarmpi_workers_1";
  const std::string three = testing::TempDir() + "swarmpi_workers_3";
  EXPECT_EXIT(write_bits(1, one), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(write_bits(3, three), testing::ExitedWithCode(0), "");
  EXPECT_GT(read(one).size(), 100000u);
  EXPECT_TRUE(read(one) == read(three));
}

TEST(LibrariesTest, AreNamed) {
  EXPECT_NE(native_libraries().find("oneDNN"), std::string::npos);
  EXPECT_NE(native_libraries().find("Kokkos"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::kernels
