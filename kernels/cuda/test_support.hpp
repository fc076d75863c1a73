#pragma once
// For the tests of the CUDA kernels: one operation on two backends, each in its own memory.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels {

// GoogleTest finds it by this name. NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(Precision precision, std::ostream* to) {
  *to << (precision == Precision::bf16 ? "bf16" : "fp32");
}

/// Skips where there is no GPU; a test of kernels on one derives from it.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = cuda_problem(); !problem.empty())
      GTEST_SKIP() << "needs a GPU: " << problem;
  }
};

/// Matrices of one backend, filled from the host and read back there. Paddings hold NaNs: who reads
/// one spoils the result, who writes one is found out.
class Matrices {
 public:
  explicit Matrices(Backend& backend) : backend_(backend) {}

  Matrix matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = backend_.row_stride(columns);
    return {static_cast<float*>(room(rows * stride, Element::fp32)), rows, columns, stride};
  }
  FactorMatrix factor(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = backend_.factor_stride(columns);
    const Element element = backend_.factor_element();
    return {room(rows * stride, element), rows, columns, stride, element};
  }
  float* vector(std::int64_t count) { return static_cast<float*>(room(count, Element::fp32)); }

  template <class View>
  View filled(View to, const std::vector<float>& dense) {
    fill(to, dense);
    return to;
  }
  float* filled_vector(const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    float* const to = vector(count);
    fill(FactorMatrix(to, 1, count, count, Element::fp32), values);
    return to;
  }

  /// The elements without padding, which must still be NaN.
  std::vector<float> elements(ConstFactor from) {
    backend_.finish();
    const std::vector<float> all = floats(from);
    std::vector<float> dense;
    for (std::int64_t r = 0; r < from.rows; ++r) {
      for (std::int64_t c = 0; c < from.stride; ++c) {
        const float value = all[static_cast<std::size_t>(r * from.stride + c)];
        if (c < from.columns) {
          dense.push_back(value);
        } else {
          EXPECT_TRUE(std::isnan(value)) << "padding of row " << r << " was written";
        }
      }
    }
    return dense;
  }
  std::vector<float> elements(const float* from, std::int64_t count) {
    return elements(ConstFactor(from, 1, count, count, Element::fp32));
  }

 private:
  void* room(std::int64_t count, Element element) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(element);
    memory_.push_back(backend_.allocate(bytes));
    const std::vector<std::byte> nans(bytes, std::byte(0xff));
    backend_.upload(memory_.back()->data(), nans.data(), bytes);
    return memory_.back()->data();
  }
  void fill(const FactorMatrix& to, const std::vector<float>& dense) {
    for (std::int64_t r = 0; r < to.rows; ++r) {
      const float* const row = dense.data() + r * to.columns;
      auto* const bytes = static_cast<std::byte*>(to.data);
      std::byte* const place =
          bytes + static_cast<std::size_t>(r * to.stride) * size_of(to.element);
      if (to.element == Element::fp32) {
        backend_.upload(place, row, static_cast<std::size_t>(to.columns) * sizeof(float));
        continue;
      }
      std::vector<std::uint16_t> rounded;
      for (std::int64_t c = 0; c < to.columns; ++c) rounded.push_back(bf16_from_float(row[c]));
      backend_.upload(place, rounded.data(), rounded.size() * sizeof(std::uint16_t));
    }
  }
  std::vector<float> floats(ConstFactor from) {
    const auto count = static_cast<std::size_t>(from.rows * from.stride);
    std::vector<float> values(count);
    if (from.element == Element::fp32) {
      backend_.download(values.data(), from.data, count * sizeof(float));
      return values;
    }
    std::vector<std::uint16_t> stored(count);
    backend_.download(stored.data(), from.data, count * sizeof(std::uint16_t));
    for (std::size_t i = 0; i < count; ++i) values[i] = float_from_bf16(stored[i]);
    return values;
  }

  Backend& backend_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

/// One result of an operation, and how far the GPU's may be from the reference's, as a part of the
/// largest value.
struct Output {
  std::string name;
  std::vector<float> values;
  double tolerance = 0;  ///< 0: the same bits
};
using Operation = std::function<std::vector<Output>(Backend&)>;

inline void expect_near(const Output& got, const Output& wanted) {
  ASSERT_EQ(got.values.size(), wanted.values.size()) << got.name;
  if (got.tolerance == 0) {
    EXPECT_EQ(
        std::memcmp(got.values.data(), wanted.values.data(), got.values.size() * sizeof(float)), 0)
        << got.name;
    return;
  }
  double largest = 1e-30, worst = 0;
  std::size_t where = 0;
  for (const float value : wanted.values) largest = std::max(largest, std::fabs(double(value)));
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double error = std::fabs(double(got.values[i]) - double(wanted.values[i]));
    if (error <= worst) continue;
    worst = error;  // a NaN too
    where = i;
    if (std::isnan(error)) break;
  }
  EXPECT_LE(worst / largest, got.tolerance) << got.name << ", element " << where << ": "
                                            << got.values[where] << " for " << wanted.values[where];
}

/// The GPU's results are the same each time, and as near to the reference's as the outputs say.
inline void expect_agreement(const Operation& operation, Precision precision) {
  const BackendOptions options{.precision = precision};
  const auto reference = make_reference_backend(options);
  reference->prepare_thread();
  const std::vector<Output> wanted = operation(*reference);
  const auto cuda = make_cuda_backend(options);
  cuda->prepare_thread();
  const std::vector<Output> first = operation(*cuda);
  const std::vector<Output> again = operation(*cuda);
  ASSERT_EQ(first.size(), wanted.size());
  for (std::size_t k = 0; k < first.size(); ++k) {
    EXPECT_EQ(std::memcmp(first[k].values.data(), again[k].values.data(),
                          first[k].values.size() * sizeof(float)),
              0)
        << first[k].name << ", second call";
    expect_near(first[k], wanted[k]);
  }
}

}  // namespace swarmpi::kernels
