// Pins the bits of every operation: a changed flag, compiler, processor or order of sums shows
// here. New values are right only where the change of bits was meant; then all stored regression
// references change too.

#include <cstring>
#include <iomanip>
#include <sstream>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::known_bits_test {
namespace {

class Bits {
 public:
  template <class T>
  Bits& add(const T& value) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (const unsigned char byte : bytes) hash_ = (hash_ ^ byte) * 0x100000001b3ull;  // FNV-1a
    return *this;
  }
  template <class T>
  Bits& add(const std::vector<T>& values) {
    for (const T& value : values) add(value);
    return *this;
  }
  std::string hex() const {
    std::ostringstream text;
    text << std::hex << std::setw(16) << std::setfill('0') << hash_;
    return text.str();
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

constexpr std::int64_t kB = 2, kT = 67, kC = 36, kH = 3, kV = 101, kHidden = 131;
constexpr std::int64_t kRows = kB * kT;

std::vector<float> room(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

/// One operation after the other on keyed inputs.
class KnownBits : public testing::TestWithParam<Precision> {
 protected:
  KnownBits() {
    BackendOptions options;
    options.precision = GetParam();
    backend_ = make_reference_backend(options);
    backend_->reserve({kB, kT, kC, kH, kHidden, kV});
    backend_->prepare_thread();
  }
  std::unique_ptr<Weight> weight(const std::vector<float>& values, std::int64_t n, std::int64_t k) {
    auto w = backend_->make_weight(n, k);
    backend_->refresh(*w, values.data());
    return w;
  }
  static void expect(const Bits& bits, const char* fp32, const char* bf16) {
    EXPECT_EQ(bits.hex(), GetParam() == Precision::fp32 ? fp32 : bf16);
  }

  std::unique_ptr<Backend> backend_;
  TestRandom random_{90};
};

TEST(KnownBitsOfMath, ElementaryFunctions) {
  TestRandom random(91);
  Bits bits;
  for (int i = 0; i < 5000; ++i) {
    const double x = random.uniform();
    bits.add(portable_exp(x * 745))
        .add(portable_exp(x))
        .add(portable_log(std::ldexp(x * x, i - 2500)));
    bits.add(portable_tanh(x * 20)).add(portable_sin(x * 1e5)).add(portable_cos(x * 1e5));
    bits.add(portable_pow(1.5 + x, x * 1000));
  }
  EXPECT_EQ(bits.hex(), "4d5e18d27dd2a1ec");
}

TEST_P(KnownBits, Embedding) {
  const auto tokens = random_.tokens(kRows, kV);
  const auto table = random_.values<float>(kV * kC);
  const auto positions = random_.values<float>(kT * kC);
  auto x = room(kRows * kC), dtable = room(kV * kC), dpositions = room(kT * kC);
  backend_->embed_forward(view(x, kRows, kC), tokens.data(), table.data(), positions.data(), kT);
  backend_->embed_backward(view(dtable, kV, kC), view(dpositions, kT, kC), view(x, kRows, kC),
                           tokens.data());
  expect(Bits().add(x).add(dtable).add(dpositions), "18b9ce201c704252", "18b9ce201c704252");
}

TEST_P(KnownBits, LayerNorm) {
  const auto x = random_.values<float>(kRows * kC, 3.0);
  const auto weight = random_.values<float>(kC);
  const auto bias = random_.values<float>(kC);
  const auto dy = random_.values<float>(kRows * kC);
  auto y = room(kRows * kC), mean = room(kRows), rstd = room(kRows);
  auto dx = random_.values<float>(kRows * kC);
  auto dweight = room(kC), dbias = room(kC);
  backend_->layer_norm_forward(view(y, kRows, kC), mean.data(), rstd.data(), view(x, kRows, kC),
                               weight.data(), bias.data());
  backend_->layer_norm_backward(view(dx, kRows, kC), {}, dweight.data(), dbias.data(), Write::set,
                                view(dy, kRows, kC), view(x, kRows, kC), mean.data(), rstd.data(),
                                weight.data());
  expect(Bits().add(y).add(mean).add(rstd).add(dx).add(dweight).add(dbias), "e865f3bbe8b1671c",
         "e865f3bbe8b1671c");
}

TEST_P(KnownBits, Linear) {
  const auto x = random_.values<float>(kRows * kC);
  const auto w = weight(random_.values<float>(kHidden * kC), kHidden, kC);
  const auto bias = random_.values<float>(kHidden);
  const auto residual = random_.values<float>(kRows * kHidden);
  auto y = room(kRows * kHidden), dx = room(kRows * kC);
  auto dw = random_.values<float>(kHidden * kC), dbias = random_.values<float>(kHidden);
  backend_->linear_forward(view(y, kRows, kHidden), view(x, kRows, kC), *w, bias.data(),
                           view(residual, kRows, kHidden));
  backend_->linear_backward_input(view(dx, kRows, kC), view(y, kRows, kHidden), *w);
  backend_->linear_backward_weight(view(dw, kHidden, kC), dbias.data(), Write::add,
                                   view(y, kRows, kHidden), view(x, kRows, kC));
  expect(Bits().add(y).add(dx).add(dw).add(dbias), "f8c222a91fc80340", "6bf73b5156cfb793");
}

TEST_P(KnownBits, LinearWithGelu) {
  const auto x = random_.values<float>(kRows * kC);
  const auto up = weight(random_.values<float>(kHidden * kC), kHidden, kC);
  const auto down = weight(random_.values<float>(kC * kHidden), kC, kHidden);
  const auto bias = random_.values<float>(kHidden);
  auto pre = room(kRows * kHidden), activated = room(kRows * kHidden);
  auto dpre = room(kRows * kHidden);
  backend_->linear_gelu_forward(view(pre, kRows, kHidden), view(activated, kRows, kHidden),
                                view(x, kRows, kC), *up, bias.data());
  backend_->linear_gelu_backward_input(view(dpre, kRows, kHidden), view(x, kRows, kC), *down,
                                       view(pre, kRows, kHidden));
  expect(Bits().add(pre).add(activated).add(dpre), "bd55d91f3bab777d", "9af186e374ae98c1");
}

TEST_P(KnownBits, Attention) {
  const AttentionShape shape{kB, kT, kH, kC / kH};
  const auto qkv = random_.values<float>(kRows * 3 * kC, 2.0);
  const auto dout = random_.values<float>(kRows * kC);
  auto out = room(kRows * kC), log_sum = room(kB * kH * kT), dqkv = room(kRows * 3 * kC);
  backend_->attention_forward(view(out, kRows, kC), log_sum.data(), view(qkv, kRows, 3 * kC),
                              shape);
  backend_->attention_backward(view(dqkv, kRows, 3 * kC), view(dout, kRows, kC),
                               view(qkv, kRows, 3 * kC), view(out, kRows, kC), log_sum.data(),
                               shape);
  expect(Bits().add(out).add(log_sum).add(dqkv), "c616eb648fae0300", "0a1b9d06835bf7c0");
}

TEST_P(KnownBits, Head) {
  const auto x = random_.values<float>(kRows * kC);
  const auto w = weight(random_.values<float>(kV * kC), kV, kC);
  const auto targets = random_.tokens(kRows, kV);
  auto dx = room(kRows * kC), dw = room(kV * kC);
  Bits bits;
  double loss = 0, loss_again = 0;
  backend_->head_loss(loss, view(x, kRows, kC), *w, targets.data());
  backend_->head_loss_backward(loss_again, view(dx, kRows, kC), view(dw, kV, kC),
                               view(x, kRows, kC), *w, targets.data());
  expect(bits.add(loss).add(loss_again).add(dx).add(dw), "745f6a8a9ae1bb28", "69fa1e6966fe8d0e");
}

TEST_P(KnownBits, Codecs) {
  constexpr std::int64_t kCount = 5003;
  const auto x = random_.values<float>(kCount, 3.0);
  Bits bits;
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    const Coding coding{codec, 0x1p-12f};
    std::vector<std::byte> coded(coded_bytes(codec, kCount));
    auto decoded = room(kCount);
    backend_->encode(coded.data(), view(x, 1, kCount), coding);
    backend_->decode(view(decoded, 1, kCount), coded.data(), coding);
    bits.add(coded).add(decoded);
  }
  expect(bits, "f14a75ec6a789e4c", "f14a75ec6a789e4c");
}

TEST_P(KnownBits, SumsAndUpdates) {
  constexpr std::int64_t kCount = 5003;
  std::vector<std::int64_t> sums(kCount);
  for (int m = 0; m < 3; ++m) {
    const auto g = random_.values<float>(kCount, 1e-3);
    Contribution did;
    backend_->add_gradient(did, sums.data(), Write::add, view(g, 1, kCount), -9, 50);
    EXPECT_FALSE(did.flagged());
  }
  auto gradient = room(kCount), moment1 = room(kCount), moment2 = room(kCount);
  Bits bits;
  double squares[2];
  backend_->round_sums(gradient.data(), squares, sums.data(), kCount,
                       quantum_per_token(quantum_exponent(-9, 50), 7));
  bits.add(squares[0] + squares[1]);
  auto w = random_.values<float>(kCount);
  const UpdateBuffers buffers{w.data(),          w.data(), moment1.data(), moment2.data(),
                              {gradient.data()}, kCount,   12345};
  const UpdateParameters p{0.9f, 0.95f, 1e-8f, 1e-2f, 0.1f, 0.75f, 0.1f, 0.05f};
  std::uint64_t of_adamw = 0, of_lamb = 0;
  backend_->update_adamw(of_adamw, buffers, p);
  backend_->update_lamb(of_lamb, buffers, p);
  bits.add(of_adamw).add(of_lamb);
  expect(bits.add(sums).add(gradient).add(w).add(moment1).add(moment2), "a3f7a16f7e9cb548",
         "a3f7a16f7e9cb548");
}

INSTANTIATE_TEST_SUITE_P(Precisions, KnownBits, testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& tested) {
                           return tested.param == Precision::fp32 ? "fp32" : "bf16";
                         });

}  // namespace
}  // namespace swarmpi::kernels::known_bits_test
