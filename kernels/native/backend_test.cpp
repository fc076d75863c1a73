// Options of the native backend. Each test that caps the instruction sets runs in a process of its
// own.

#include <dnnl.hpp>
#include <fstream>
#include <iterator>

#include "kernels/block_sum.hpp"
#include "kernels/libraries.hpp"
#include "kernels/native/column_sums.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/pointwise.hpp"
#include "kernels/native/product.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::backend_test {
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
  const auto works = [](MaxIsa isa, Precision precision) {
    exit_with(multiplies({precision, 1, isa}));
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const MaxIsa isa : {MaxIsa::avx2, MaxIsa::avx512, MaxIsa::avx512_bf16, MaxIsa::amx}) {
      EXPECT_EXIT(works(isa, precision), testing::ExitedWithCode(0), "") << int(isa);
    }
  }
  const auto is_capped = [] {
    exit_with(multiplies({Precision::fp32, 1, MaxIsa::avx2}) &&
              dnnl::get_effective_cpu_isa() <= dnnl::cpu_isa::avx2);
  };
  EXPECT_EXIT(is_capped(), testing::ExitedWithCode(0), "");
}

TEST_F(MaxIsaTest, CannotChangeInAProcess) {
  const auto change = [] {
    make_native_backend({Precision::fp32, 1, MaxIsa::avx2});
    make_native_backend({Precision::fp32, 1, MaxIsa::avx512});
  };
  EXPECT_DEATH(change(), "max_isa");
}

/// What our own loops leave, one after another in a file.
class Bits {
 public:
  explicit Bits(const std::string& path) : file_(path, std::ios::binary) {}
  template <class T>
  void add(const std::vector<T>& values) {
    file_.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  bool good() const { return file_.good(); }

 private:
  std::ofstream file_;
};

void add_attention_and_norms(Backend& backend, Bits& bits) {
  const AttentionShape shape{3, 70, 2, 24};
  constexpr std::int64_t kRows = 210, kWidth = 48;
  TestRandom random(71);
  const auto qkv = random.values<float>(kRows * 3 * kWidth);
  std::vector<float> out(kRows * kWidth), dqkv(qkv.size()), log_sum(kRows * 2), norms(2 * kWidth);
  backend.attention_forward({out.data(), kRows, kWidth}, log_sum.data(),
                            {qkv.data(), kRows, 3 * kWidth}, shape);
  backend.attention_backward({dqkv.data(), kRows, 3 * kWidth}, {out.data(), kRows, kWidth},
                             {qkv.data(), kRows, 3 * kWidth}, {out.data(), kRows, kWidth},
                             log_sum.data(), shape);
  std::vector<float> mean(kRows), rstd(kRows), normed(out.size());
  backend.layer_norm_forward({normed.data(), kRows, kWidth}, mean.data(), rstd.data(),
                             {out.data(), kRows, kWidth}, qkv.data(), qkv.data());
  backend.layer_norm_backward({normed.data(), kRows, kWidth}, {}, norms.data(), &norms[kWidth],
                              Write::set, {out.data(), kRows, kWidth}, {qkv.data(), kRows, kWidth},
                              mean.data(), rstd.data(), qkv.data());
  for (const auto* list : {&out, &dqkv, &log_sum, &normed, &norms}) bits.add(*list);
}

void add_tables_and_pointwise(Backend& backend, Bits& bits) {
  constexpr std::int64_t kRows = 210, kWidth = 48, kContext = 70, kTokens = 11;
  TestRandom random(72);
  const auto dx = random.values<float>(kRows * kWidth);
  std::vector<std::int32_t> tokens(kRows);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i * i) % kTokens;
  std::vector<float> x(dx.size()), token_gradient(kTokens * kWidth), sums(kWidth);
  std::vector<float> position_gradient(kContext * kWidth), pre(dx), activated(dx.size());
  backend.embed_forward({x.data(), kRows, kWidth}, tokens.data(), dx.data(), dx.data(), kContext);
  backend.embed_backward({token_gradient.data(), kTokens, kWidth},
                         {position_gradient.data(), kContext, kWidth}, {dx.data(), kRows, kWidth},
                         tokens.data());
  native::bias_gelu({pre.data(), kRows, kWidth}, {activated.data(), kRows, kWidth}, dx.data());
  native::Scratch scratch;
  native::column_sums(sums.data(), Write::set, {dx.data(), kRows, kWidth}, scratch);
  for (const auto* list : {&x, &token_gradient, &position_gradient, &pre, &activated, &sums}) {
    bits.add(*list);
  }
}

void add_sums_and_updates(Backend& backend, Bits& bits) {
  constexpr std::int64_t kRows = 205, kWidth = 100, kCount = kRows * kWidth;
  TestRandom random(73);
  const auto gradient = random.values<float>(kCount);
  std::vector<std::int64_t> sums(kCount);
  for (const Write write : {Write::set, Write::add}) {
    Contribution did;
    backend.add_gradient(did, sums.data(), write, {gradient.data(), kRows, kWidth}, 3, 40);
  }
  std::vector<float> rounded(kCount), weights = random.values<float>(kCount);
  std::vector<double> squares(static_cast<std::size_t>(native::blocks_of(kCount, kSumBlock)));
  backend.round_sums(rounded.data(), squares.data(), sums.data(), kCount, 0x1p-30);
  std::vector<float> moment1(kCount), moment2(kCount);
  const UpdateBuffers buffers{
      weights.data(), weights.data(), moment1.data(), moment2.data(), {rounded.data()}, kCount, 17};
  const UpdateParameters parameters{0.9f, 0.99f, 1e-8f, 0.01f, 0.1f, 0.5f, 0.1f, 0.01f};
  std::vector<std::uint64_t> hashes(2);
  backend.update_adamw(hashes[0], buffers, parameters);
  backend.update_lamb(hashes[1], buffers, parameters);
  bits.add(sums);
  bits.add(squares);
  bits.add(hashes);
  for (const auto* list : {&rounded, &weights, &moment1, &moment2}) bits.add(*list);
}

/// Of products in tiles, and of all that is done to their blocks. Others are oneDNN's.
void add_bf16(Backend& backend, Bits& bits) {
  if (!native::Products(Precision::bf16).has_tiles()) return;
  constexpr std::int64_t kRows = 210, kOutputs = 333, kInputs = 100;
  TestRandom random(74);
  auto master = random.values<float>(kOutputs * kInputs);
  const auto x = random.values<float>(kRows * kInputs), dy = random.values<float>(kRows * kOutputs);
  const auto bias = random.values<float>(kOutputs);
  const auto weight = backend.make_weight(kOutputs, kInputs);
  backend.refresh(*weight, master.data());
  std::vector<float> y(dy.size()), activated(dy.size()), dx(x.size()), dpre(x.size());
  const Matrix y_rows(y.data(), kRows, kOutputs), dx_rows(dx.data(), kRows, kInputs);
  const ConstFactor x_rows(x.data(), kRows, kInputs), dy_rows(dy.data(), kRows, kOutputs);
  backend.linear_gelu_forward(y_rows, {activated.data(), kRows, kOutputs}, x_rows, *weight,
                              bias.data());
  backend.linear_backward_input(dx_rows, dy_rows, *weight);
  backend.linear_gelu_backward_input({dpre.data(), kRows, kInputs}, dy_rows, *weight,
                                     x_rows.matrix());
  for (const auto* list : {&y, &activated, &dx, &dpre}) bits.add(*list);
  backend.linear_forward(y_rows, x_rows, *weight, bias.data(), dy_rows.matrix());
  bits.add(y);

  std::vector<std::int64_t> sums(master.size());
  std::vector<float> room(master.size()), bias_gradient(kOutputs);
  for (const Write write : {Write::set, Write::add}) {
    Contribution did;
    backend.add_weight_gradient(did, sums.data(), write, {room.data(), kOutputs, kInputs},
                                bias_gradient.data(), dy_rows, x_rows, 8, 40);
  }
  bits.add(sums);
  std::vector<float> moment1(master.size()), moment2(master.size());
  const ReducedGradient gradient{nullptr, sums.data(), 0x1p-30};
  const UpdateBuffers buffers{master.data(),
                              master.data(),
                              moment1.data(),
                              moment2.data(),
                              gradient,
                              std::ssize(master),
                              17};
  const UpdateParameters parameters{0.9f, 0.99f, 1e-8f, 0.01f, 0.1f, 0.5f, 0.1f, 0.01f};
  std::vector<std::uint64_t> hashes(3);
  backend.update_adamw_and_copies(hashes[0], buffers, parameters,
                                  {weight.get(), &hashes[1], &hashes[2]});
  bits.add(hashes);
  for (const auto* list : {&master, &moment1, &moment2}) bits.add(*list);
}

void write_bits(int workers, const std::string& path) {
  const auto rounding = make_native_backend({Precision::bf16, workers, MaxIsa::any});
  auto backend = make_native_backend({Precision::fp32, workers, MaxIsa::any});
  backend->prepare_thread();
  if (native::worker_count() != workers) exit_with(false);
  Bits bits(path);
  add_attention_and_norms(*backend, bits);
  add_attention_and_norms(*rounding, bits);
  add_tables_and_pointwise(*backend, bits);
  add_sums_and_updates(*backend, bits);
  add_bf16(*make_native_backend({Precision::bf16, workers, MaxIsa::any}), bits);
  exit_with(bits.good());
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
  EXPECT_GT(read(one).size(), 500000u);
  EXPECT_TRUE(read(one) == read(three));
}

TEST(LibrariesTest, AreNamed) {
  EXPECT_NE(native_libraries().find("oneDNN"), std::string::npos);
  EXPECT_NE(native_libraries().find("Kokkos"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::kernels::backend_test
