// What must have the reference's bits on the device: order-free sums, optimizers, hashes, coded
// arrays. Everything is done twice there, and must be the same twice.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/codec_element.hpp"
#include "kernels/cuda/test_support.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi::kernels::exact_test {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The bits of NaNs are not promised where arithmetic makes them.
std::vector<float> with_one_nan(std::vector<float> values) {
  for (float& value : values) value = std::isnan(value) ? kCanonicalNan : value;
  return values;
}

/// An array in a backend's memory, `lead` elements behind where that is aligned, with guards about
/// it that nobody may write.
template <class T>
class Array {
 public:
  Array(Backend& backend, const std::vector<T>& values, std::size_t lead = 0)
      : backend_(backend),
        size_(values.size()),
        before_(lead * sizeof(T)),
        memory_(backend.allocate(before_ + size_ * sizeof(T) + kGuard)) {
    Bytes bytes(memory_->size_bytes(), kGuarded);
    std::ranges::copy(bytes_of(values), bytes.begin() + static_cast<std::ptrdiff_t>(before_));
    backend_.upload(memory_->data(), bytes.data(), bytes.size());
  }

  T* data() { return reinterpret_cast<T*>(memory_->template as<std::byte>() + before_); }

  std::vector<T> values() const {
    Bytes bytes(memory_->size_bytes());
    backend_.download(bytes.data(), memory_->data(), bytes.size());
    std::vector<T> values(size_);
    if (size_ > 0) std::memcpy(values.data(), bytes.data() + before_, size_ * sizeof(T));
    const std::size_t end = before_ + size_ * sizeof(T);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool is_guard = i < before_ || i >= end;
      if (is_guard && bytes[i] != kGuarded) ADD_FAILURE() << "byte " << i << " was written";
    }
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuarded{0xa5};

  Backend& backend_;
  std::size_t size_, before_;
  std::unique_ptr<Memory> memory_;
};

/// Shape of a matrix whose paddings hold NaNs: who reads them spoils the result.
struct Shape {
  std::int64_t rows, columns, stride;
  std::size_t lead = 0;

  std::int64_t count() const { return rows * columns; }
};

std::vector<float> padded(const std::vector<float>& dense, const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.rows * shape.stride), std::nanf(""));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    std::copy_n(dense.begin() + r * shape.columns, shape.columns,
                values.begin() + r * shape.stride);
  }
  return values;
}
MatrixView<float> view(Array<float>& array, const Shape& shape) {
  return {array.data(), shape.rows, shape.columns, shape.stride};
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                      {1, 7},
                                      {1, 4095},
                                      {1, 4096},
                                      {1, 4097},
                                      {1, 100003},
                                      {33, 61},
                                      {129, 96},
                                      {300, 257},
                                      {4097, 1},
                                      {40, 4100}}) {
    for (const std::int64_t padding : {0, 3, 4}) {
      for (const std::size_t lead : {0, 1}) {
        all.push_back({rows, columns, columns + padding, lead});
      }
    }
  }
  return all;
}

/// Any bits: all exponents, denormals, infinities and NaNs.
std::vector<float> any_floats(std::int64_t count, TestRandom& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(random.below(std::int64_t{1} << 32)));
  }
  return values;
}
std::vector<float> finite_floats(std::int64_t count, TestRandom& random) {
  std::vector<float> values = any_floats(count, random);
  for (float& value : values) {
    if (!std::isfinite(value)) value = std::numeric_limits<float>::denorm_min();
  }
  return values;
}

/// What an operation gives: arrays, by name.
using Results = std::vector<std::pair<std::string, Bytes>>;

class Exact : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    reference_ = make_reference_backend({});
    cuda_ = make_cuda_backend({});
    reference_->prepare_thread();
    cuda_->prepare_thread();
  }

  void expect_same(const std::function<Results(Backend&)>& operation) {
    const Results expected = operation(*reference_);
    expect_equal(operation(*cuda_), expected, "");
    expect_equal(operation(*cuda_), expected, ", second time");
  }

  static void expect_equal(const Results& results, const Results& expected, const char* when) {
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      const auto& [name, bytes] = results[k];
      const Bytes& wanted = expected[k].second;
      ASSERT_EQ(bytes.size(), wanted.size()) << name << when;
      if (bytes == wanted) continue;
      const auto differs = std::ranges::mismatch(bytes, wanted).in1 - bytes.begin();
      ADD_FAILURE() << name << when << ": byte " << differs << " of " << bytes.size();
    }
  }

  std::unique_ptr<Backend> reference_, cuda_;
};

using OptimizerOnCuda = Exact;
using HashOnCuda = Exact;

//--------------------------------------------------------------------------------------------------
// Order-free sums

struct Rule {
  std::int16_t exponent;
  int bits = fixed_point_bits(64);

  double quantum(std::int64_t tokens) const {
    return quantum_per_token(quantum_exponent(exponent, bits), tokens);
  }
};

void add(Results& results, const std::string& name, const Contribution& did) {
  results.emplace_back(
      name, bytes_of(std::vector<int>{did.exponent, did.nonfinite ? 1 : 0, did.overflow ? 1 : 0}));
}

/// A gradient set or added, and once more added, then rounded.
Results sum_twice(Backend& backend, Write write, const std::vector<float>& dense,
                  const Shape& shape, const Rule& rule) {
  const auto count = static_cast<std::size_t>(shape.count());
  Array<float> gradient(backend, padded(dense, shape), shape.lead);
  Array<std::int64_t> sums(backend, std::vector<std::int64_t>(count, 12345), shape.lead);
  Array<float> rounded(backend, std::vector<float>(count), shape.lead);
  std::vector<double> squares((count + 4095) / 4096), squares_alone(squares.size());
  Contribution first, second;
  backend.add_gradient(first, sums.data(), write, view(gradient, shape), rule.exponent, rule.bits);
  backend.add_gradient(second, sums.data(), Write::add, view(gradient, shape), rule.exponent,
                       rule.bits);
  backend.round_sums(rounded.data(), squares.data(), sums.data(), shape.count(),
                     rule.quantum(4099));
  backend.round_sums(nullptr, squares_alone.data(), sums.data(), shape.count(), rule.quantum(4099));
  backend.finish();
  Results results{{"sums", bytes_of(sums.values())},
                  {"gradient", bytes_of(rounded.values())},
                  {"squares", bytes_of(squares)},
                  {"squares alone", bytes_of(squares_alone)}};
  add(results, "first contribution", first);
  add(results, "second contribution", second);
  return results;
}

class OrderFreeSumsOnCuda : public Exact {
 protected:
  /// Of a gradient that is set, and one that is added.
  void expect_same_sums(const std::vector<float>& dense, const Shape& shape, const Rule& rule) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.columns << ", stride " << shape.stride << ", lead "
                 << shape.lead << ", exponent " << rule.exponent);
    for (const Write write : {Write::set, Write::add}) {
      expect_same([&](Backend& backend) { return sum_twice(backend, write, dense, shape, rule); });
    }
  }
};

TEST_F(OrderFreeSumsOnCuda, HaveTheReferencesBits) {
  for (const Shape& shape : shapes()) {
    TestRandom random(17);
    for (const auto& [scale, exponent] : {std::pair{1e-30, -99}, {1.0, 0}, {1e30, 100}}) {
      const auto dense = random.values<float>(shape.count(), scale);
      for (const int lower : {0, kHeadroomBits}) {
        const auto e = static_cast<std::int16_t>(exponent - lower);
        expect_same_sums(dense, shape, {e});
      }
    }
  }
}

TEST_F(OrderFreeSumsOnCuda, HaveThemForNumbersOfAllKinds) {
  TestRandom random(18);
  const Shape shape{7, 4100, 4100};
  expect_same_sums(finite_floats(shape.count(), random), shape, {112});
  std::vector<float> denormals = finite_floats(shape.count(), random);
  for (float& value : denormals) {
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x807fffffu);
  }
  expect_same_sums(denormals, shape, {-130});
  std::vector<float> ties = random.values<float>(shape.count());
  for (float& value : ties) value = std::nearbyint(value * 1000.0f) / 32;  // a unit is 1 / 16
  expect_same_sums(ties, shape, {0, 20});
}

TEST_F(OrderFreeSumsOnCuda, FlaggedAndZeroGradientsAddNothing) {
  TestRandom random(23);
  for (const Shape& shape : {Shape{70, 32, 36}, {70, 31, 33}, {1, 4099, 4099}}) {
    for (const float odd : {std::nanf(""), -std::nanf(""), std::bit_cast<float>(0x7f800001u),
                            HUGE_VALF, -HUGE_VALF, 1e20f, -1e20f, 65536.0f, 0.5f}) {
      auto dense = random.values<float>(shape.count());
      dense.back() = odd;
      expect_same_sums(dense, shape, {0});
    }
    for (const float zero : {0.0f, -0.0f}) {
      const std::vector<float> zeros(static_cast<std::size_t>(shape.count()), zero);
      expect_same_sums(zeros, shape, {0});
      expect_same_sums(zeros, shape, {kNoExponent});
    }
    expect_same_sums(random.values<float>(shape.count()), shape, {kNoExponent});
  }
}

TEST_F(OrderFreeSumsOnCuda, OfSomeRowsAreTheReferences) {
  constexpr std::int64_t kTensorRows = 90;
  const std::vector<std::int32_t> rows = {89, 0, 41, 42, 7};
  TestRandom random(29);
  for (const Shape& shape : {Shape{5, 33, 36}, {5, 64, 64}, {5, 4104, 4108}, {1, 66, 66}}) {
    for (const float factor : {1.0f, 1e20f}) {  // flagged, and added nowhere
      auto dense = random.values<float>(shape.count());
      dense[20] *= factor;
      expect_same([&](Backend& backend) {
        Array<float> gradient(backend, padded(dense, shape));
        const auto count = static_cast<std::size_t>(kTensorRows * shape.columns);
        Array<std::int64_t> sums(backend, std::vector<std::int64_t>(count, -5));
        Contribution did;
        backend.add_row_gradients(did, sums.data(), view(gradient, shape), rows.data(), 0, 40);
        backend.finish();
        Results results{{"sums", bytes_of(sums.values())}};
        add(results, "contribution", did);
        return results;
      });
    }
  }
}

TEST_F(OrderFreeSumsOnCuda, AreRoundedAlikeWhateverTheirSize) {
  TestRandom random(31);
  for (const std::int64_t count : {1, 7, 15, 16, 17, 4095, 4096, 4097, 100003}) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(count));
    for (auto& sum : sums) {
      const std::int64_t bits = random.below(62);
      sum = (random.below(std::int64_t{1} << (bits + 1)) - (std::int64_t{1} << bits));
    }
    for (const double quantum : {1.0, 0x1p-40 / 37, 0x1p-190 / 3, 0x1p80, 1e30}) {
      expect_same([&](Backend& backend) {
        Array<std::int64_t> from(backend, sums, 1);
        Array<float> gradient(backend, std::vector<float>(sums.size()), 3);
        std::vector<double> squares((sums.size() + 4095) / 4096);
        backend.round_sums(gradient.data(), squares.data(), from.data(), count, quantum);
        backend.finish();
        return Results{{"gradient", bytes_of(gradient.values())}, {"squares", bytes_of(squares)}};
      });
    }
  }
}

//--------------------------------------------------------------------------------------------------
// Optimizers

struct UpdateCase {
  std::int64_t count;
  bool is_lamb, in_place, from_sums;  // in_place: old and new weights are one array
  std::size_t lead = 0;
  float weight_decay = 0.1f;
};

constexpr double kQuantumPerToken = 0x1p-40 / 37;
constexpr std::int64_t kFirstIndex = (std::int64_t{1} << 32) - 3000;

struct Tensors {
  std::vector<float> weights, moment1, moment2;
  std::vector<std::vector<float>> gradients;  // one an update
};

Tensors ordinary_tensors(std::int64_t count) {
  TestRandom random(41);
  const std::vector<float> zeros(static_cast<std::size_t>(count));
  Tensors t{random.values<float>(count, 0.1), zeros, zeros, {}};
  for (int i = 0; i < 3; ++i) t.gradients.push_back(random.values<float>(count, 0.01));
  return t;
}

UpdateParameters parameters_of(int update, float weight_decay) {
  const auto t = static_cast<float>(update);
  return {
      0.9f, 0.95f, 1e-8f, 1e-3f, weight_decay, 0.7f, 1 - std::pow(0.9f, t), 1 - std::pow(0.95f, t)};
}

std::vector<std::int64_t> sums_of(const std::vector<float>& gradient) {
  std::vector<std::int64_t> sums(gradient.size());
  std::ranges::transform(gradient, sums.begin(), [](float g) {
    return static_cast<std::int64_t>(static_cast<double>(g) / kQuantumPerToken);
  });
  return sums;
}

/// An update for each of the gradients, one after the other.
Results update(Backend& backend, const Tensors& t, const UpdateCase& c) {
  Array<float> weights(backend, t.weights, c.lead), others(backend, t.weights, c.lead);
  Array<float> moment1(backend, t.moment1, c.lead), moment2(backend, t.moment2, c.lead);
  float* old_weights = weights.data();
  float* new_weights = c.in_place ? weights.data() : others.data();
  Results results;
  for (std::size_t i = 0; i < t.gradients.size(); ++i) {
    Array<float> rounded(backend, t.gradients[i], c.lead);
    Array<std::int64_t> sums(
        backend, c.from_sums ? sums_of(t.gradients[i]) : std::vector<std::int64_t>{}, c.lead);
    UpdateBuffers buffers{new_weights, old_weights, moment1.data(), moment2.data(),
                          {},          c.count,     kFirstIndex};
    buffers.gradient = c.from_sums ? ReducedGradient{nullptr, sums.data(), kQuantumPerToken}
                                   : ReducedGradient{rounded.data(), nullptr, 0};
    std::uint64_t hash = 1, before = 2;
    float ratio = 0;
    const UpdateParameters p = parameters_of(static_cast<int>(i) + 1, c.weight_decay);
    if (c.is_lamb) {
      buffers.trust_ratio = &ratio;
      backend.update_lamb(hash, buffers, p);
    } else {
      if (i != 1) buffers.hash_before = &before;  // it may be left out
      backend.update_adamw(hash, buffers, p);
    }
    backend.finish();
    results.emplace_back("hashes", bytes_of(std::vector<std::uint64_t>{hash, before}));
    results.emplace_back("trust ratio", bytes_of(with_one_nan({ratio})));
    if (!c.in_place) std::swap(old_weights, new_weights);
  }
  for (const auto& [name, array] : {std::pair{"weights", &weights},
                                    {"other weights", &others},
                                    {"moment1", &moment1},
                                    {"moment2", &moment2}}) {
    results.emplace_back(name, bytes_of(with_one_nan(array->values())));
  }
  return results;
}

TEST_F(OptimizerOnCuda, HasTheReferencesBitsAndHashes) {
  for (const std::int64_t count : {1, 7, 15, 4095, 4096, 4097, 100003}) {
    const Tensors tensors = ordinary_tensors(count);
    for (int which = 0; which < 8; ++which) {
      const UpdateCase c{count, (which & 1) != 0, (which & 2) != 0, (which & 4) != 0,
                         count == 4097 ? 1u : 0u};
      SCOPED_TRACE(testing::Message() << count << " elements, case " << which);
      expect_same([&](Backend& backend) { return update(backend, tensors, c); });
    }
  }
}

TEST_F(OptimizerOnCuda, HasThemForTensorsLargerThanOnePass) {
  constexpr std::int64_t kCount = 5 * 1000 * 1000 + 3;  // more tiles than blocks of threads
  const Tensors tensors = ordinary_tensors(kCount);
  for (const bool is_lamb : {false, true}) {
    expect_same([&](Backend& backend) {
      return update(backend, tensors, {kCount, is_lamb, true, true});
    });
  }
}

TEST_F(OptimizerOnCuda, HasThemForNumbersOfAllKinds) {
  constexpr std::int64_t kCount = 50021;
  TestRandom random(42);
  for (const bool is_finite : {true, false}) {
    const auto floats = [&] {
      return is_finite ? finite_floats(kCount, random) : any_floats(kCount, random);
    };
    Tensors t{floats(), floats(), floats(), {floats()}};
    for (float& value : t.moment2) value = std::fabs(value);
    for (const bool is_lamb : {false, true}) {
      expect_same([&](Backend& backend) {
        return update(backend, t, {kCount, is_lamb, false, false, 0, is_finite ? 0.0f : 0.1f});
      });
    }
  }
  Tensors denormals{random.values<float>(kCount, 1e-39),
                    random.values<float>(kCount, 1e-39),
                    random.values<float>(kCount, 1e-39),
                    {random.values<float>(kCount, 1e-39)}};
  for (float& value : denormals.moment2) value = std::fabs(value);
  for (const bool is_lamb : {false, true}) {
    expect_same([&](Backend& backend) {
      return update(backend, denormals, {kCount, is_lamb, true, false});
    });
  }
}

TEST_F(OptimizerOnCuda, BoundsTheTrustRatioAlike) {
  constexpr std::int64_t kCount = 9001;
  for (const float size : {0.0f, 1e-3f, 1e4f}) {  // 1; what it is; the bound
    Tensors t = ordinary_tensors(kCount);
    for (float& weight : t.weights) weight *= size;
    expect_same([&](Backend& backend) {
      return update(backend, t, {kCount, true, true, false, 0, 0.0f});
    });
  }
}

//--------------------------------------------------------------------------------------------------
// Hashes

TEST_F(HashOnCuda, IsTheReferences) {
  for (const std::int64_t count : {1, 7, 4096, 4097, 65537, 100003, 3000001}) {
    TestRandom random(43);
    const auto weights = any_floats(count, random);
    const auto moment1 = any_floats(count, random);
    const auto moment2 = any_floats(count, random);
    for (const std::int64_t first : {std::int64_t{0}, (std::int64_t{1} << 32) - 70000,
                                     (std::int64_t{1} << 32) - 1, std::int64_t{7} << 33}) {
      expect_same([&](Backend& backend) {
        Array<float> w(backend, weights, 1), m1(backend, moment1), m2(backend, moment2, 2);
        std::uint64_t hash = 1;
        backend.hash_weights(hash, w.data(), count, first);
        const std::uint64_t of_weights =
            backend.state_hash(w.data(), nullptr, nullptr, count, first);
        const std::uint64_t of_state =
            backend.state_hash(w.data(), m1.data(), m2.data(), count, first);
        backend.finish();
        EXPECT_EQ(of_weights, hash);
        return Results{{"hashes", bytes_of(std::vector<std::uint64_t>{hash, of_state})}};
      });
    }
  }
}

TEST_F(HashOnCuda, OfCopiesSeesEveryByte) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto backend = make_cuda_backend({.precision = precision});
    backend->prepare_thread();
    const std::int64_t outputs = 97, inputs = 51;
    TestRandom random(44);
    Array<float> master(*backend, random.values<float>(outputs * inputs));
    const auto weight = backend->make_weight(outputs, inputs);
    backend->refresh(*weight, master.data());
    const auto hash = [&] {
      std::uint64_t made = 1;
      backend->hash_copies(made, *weight);
      backend->finish();
      return made;
    };
    const auto flip = [&](std::byte* at) {
      std::byte byte{};
      backend->download(&byte, at, 1);
      byte ^= std::byte{0x40};
      backend->upload(at, &byte, 1);
    };
    const std::uint64_t before = hash();
    for (const auto& copy : weight->copies()) {
      for (std::size_t i = 0; i < copy.size(); i += 113) {
        flip(copy.data() + i);
        EXPECT_NE(hash(), before);
        flip(copy.data() + i);
      }
    }
    EXPECT_EQ(hash(), before);
  }
}

//--------------------------------------------------------------------------------------------------
// Coded arrays

class CodecOnCuda : public Exact, public testing::WithParamInterface<Codec> {
 protected:
  static std::vector<Coding> codings() {
    if (GetParam() != Codec::fp16) return {{GetParam()}};
    return {{Codec::fp16, 1}, {Codec::fp16, 0x1p12f}, {Codec::fp16, 0x1p-70f}};
  }

  /// `offset`: of the coded array from where host memory is aligned.
  static Bytes encoded(Backend& backend, ConstMatrix x, const Coding& coding, std::size_t offset) {
    const std::size_t size = coded_bytes(coding.codec, x.rows * x.columns);
    Bytes bytes(offset + size + 64, std::byte{0xa5});
    backend.encode(bytes.data() + offset, x, coding);
    backend.finish();
    for (std::size_t i = offset + size; i < bytes.size(); ++i) {
      EXPECT_EQ(bytes[i], std::byte{0xa5}) << "written behind the end";
    }
    return {bytes.begin() + static_cast<std::ptrdiff_t>(offset), bytes.end() - 64};
  }

  static Bytes decoded(Backend& backend, const Bytes& coded, const Shape& shape,
                       const Coding& coding, std::size_t offset) {
    Bytes moved(offset + coded.size());
    std::ranges::copy(coded, moved.begin() + static_cast<std::ptrdiff_t>(offset));
    const std::vector<float> zeros(static_cast<std::size_t>(shape.count()));
    Array<float> x(backend, padded(zeros, shape), shape.lead);
    backend.decode(view(x, shape), moved.data() + offset, coding);
    return bytes_of(x.values());  // with its paddings
  }

  void expect_same_decoded(const Bytes& coded, const Shape& shape, const Coding& coding,
                           std::size_t offset = 0) {
    expect_same([&](Backend& backend) {
      return Results{{"decoded", decoded(backend, coded, shape, coding, offset)}};
    });
  }

  void expect_same_coded(const std::vector<float>& dense, const Shape& shape,
                         std::size_t offset = 0) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", stride "
                                    << shape.stride << ", lead " << shape.lead);
    for (const Coding& coding : codings()) {
      Bytes coded;
      expect_same([&](Backend& backend) {
        Array<float> x(backend, padded(dense, shape), shape.lead);
        coded = encoded(backend, view(x, shape), coding, offset);
        return Results{{"coded", coded}};
      });
      expect_same_decoded(coded, shape, coding, offset);
    }
  }
  void expect_same_coded(const std::vector<float>& dense) {
    const auto count = static_cast<std::int64_t>(dense.size());
    expect_same_coded(dense, {1, count, count});
  }

  /// All fp32 whose bits are a multiple of `stride`: as they come, and for codecs with blocks once
  /// more with a 1 in each block, so that those below it are multiplied by nothing.
  void sweep(std::uint64_t stride) {
    constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;
    constexpr std::size_t kAtOnce = std::size_t{1} << 20;
    std::vector<float> x(kAtOnce), with_ones;
    for (std::uint64_t bits = 0; bits < kEnd && !HasFailure();) {
      for (float& value : x) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        bits += stride;
      }
      expect_same_coded(x);
      if (!is_blockwise(GetParam()) || !(std::fabs(x.back()) <= 1)) continue;
      with_ones.clear();
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % (kCodedBlock - 1) == 0) with_ones.push_back(1);
        with_ones.push_back(x[i]);
      }
      expect_same_coded(with_ones);
    }
  }
};

std::string name_of(const testing::TestParamInfo<Codec>& test) {
  constexpr const char* kNames[] = {"fp16", "bf16", "uniform8", "blockwise8"};
  return kNames[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(All, CodecOnCuda,
                         testing::Values(Codec::fp16, Codec::bf16, Codec::uniform8,
                                         Codec::blockwise8),
                         name_of);

TEST_P(CodecOnCuda, HasTheReferencesBitsAtAnyLengthAndAlignment) {
  TestRandom random(90);
  for (const std::int64_t count :
       {0, 1, 2, 3, 4, 15, 17, 255, 257, 4095, 4096, 4097, 8191, 8193, 33 * 4096 + 300}) {
    for (const std::size_t offset : {0, 1, 3, 6}) {
      const auto x = random.values<float>(count, offset == 3 ? 1e-20 : 4.0);
      expect_same_coded(x, {1, count, count, offset / 2}, offset);
    }
  }
}

TEST_P(CodecOnCuda, HasTheReferencesBitsAtAnyShapeAndStride) {
  TestRandom random(91);
  for (const Shape& shape : shapes()) {
    expect_same_coded(random.values<float>(shape.count()), shape, 1);
  }
  expect_same_coded({}, {5, 0, 4});
}

TEST_P(CodecOnCuda, HasTheReferencesBitsForBlocksOfAllKinds) {
  TestRandom random(92);
  const float tiny = std::bit_cast<float>(std::bit_cast<std::uint32_t>(0x1p-100f) - 1);
  std::vector<float> x = random.values<float>(13 * kCodedBlock - 77);
  std::size_t block = 0;
  for (const float odd : {HUGE_VALF, -HUGE_VALF, std::nanf(""), std::bit_cast<float>(0xff800001u),
                          3e38f, std::numeric_limits<float>::max(), 0x1p126f, -0x1p127f, 1.0f}) {
    x[block++ * kCodedBlock + 1000] = odd;
  }
  for (const float factor : {0.0f, -0.0f, tiny, 1e-40f}) {
    const std::size_t end = std::min(x.size(), (block + 1) * kCodedBlock);
    for (std::size_t i = block * kCodedBlock; i < end; ++i) x[i] *= factor;
    ++block;
  }
  expect_same_coded(x);
  expect_same_coded(any_floats(5 * kCodedBlock + 9, random));
  expect_same_coded(finite_floats(5 * kCodedBlock + 9, random));
}

/// More blocks than the device works on at a time.
TEST_P(CodecOnCuda, HasTheReferencesBitsOfManyBlocks) {
  TestRandom random(93);
  expect_same_coded(random.values<float>(2500 * kCodedBlock + 5));
}

TEST_P(CodecOnCuda, HasTheReferencesBitsOfSomeMillionNumbers) { sweep(1021); }

// Long: --gtest_also_run_disabled_tests --gtest_filter=*EveryNumber*
TEST_P(CodecOnCuda, DISABLED_HasTheReferencesBitsOfEveryNumber) { sweep(1); }

TEST_P(CodecOnCuda, EveryCodeIsDecodedAlike) {
  if (!is_blockwise(GetParam())) {
    Bytes coded(0x20000);
    for (std::size_t half = 0; half < 0x10000; ++half) {
      coded[2 * half] = static_cast<std::byte>(half & 0xff);
      coded[2 * half + 1] = static_cast<std::byte>(half >> 8);
    }
    for (const Coding& coding : codings())
      expect_same_decoded(coded, {1, 0x10000, 0x10000}, coding);
    return;
  }
  // All codes behind magnitudes of all sizes, also those that no encoder writes.
  constexpr std::int64_t kBlocks = 1000;
  constexpr std::int64_t kCount = kBlocks * kCodedBlock;
  Bytes coded(coded_bytes(GetParam(), kCount));
  for (std::size_t i = 0; i < coded.size(); ++i) coded[i] = static_cast<std::byte>(i & 0xff);
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    const std::uint32_t magnitude = block * (0xffffffffu / kBlocks);
    std::memcpy(coded.data() + block * sizeof magnitude, &magnitude, sizeof magnitude);
  }
  expect_same_decoded(coded, {1, kCount, kCount}, {GetParam()});
}

}  // namespace
}  // namespace swarmpi::kernels::exact_test
