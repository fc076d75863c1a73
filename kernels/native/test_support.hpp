#pragma once
// For the tests of the native kernels: matrices with guarded padding, and the comparison of one
// operation on both backends.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels {

inline constexpr double kUnit = 0x1p-24;     ///< half an ulp of 1 in fp32
inline constexpr double kBf16Unit = 0x1p-9;  ///< the same in bf16

// GoogleTest finds it by this name. NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(Precision precision, std::ostream* to) {
  *to << (precision == Precision::bf16 ? "bf16" : "fp32");
}

/// A matrix whose padding holds NaNs: who reads it spoils the result, who writes it is found out.
class Padded {
 public:
  Padded(std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : rows_(rows),
        columns_(columns),
        stride_(stride),
        values_(static_cast<std::size_t>(rows * stride), std::nanf("")) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(matrix().row(r), columns, 0.0f);
  }
  Padded(std::int64_t rows, std::int64_t columns, std::int64_t stride, TestRandom& random,
         double scale = 1.0)
      : Padded(rows, columns, stride) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        matrix().row(r)[c] = static_cast<float>(scale * random.uniform());
      }
    }
  }

  Matrix matrix() { return {values_.data(), rows_, columns_, stride_}; }
  ConstMatrix matrix() const { return {values_.data(), rows_, columns_, stride_}; }

  /// The elements without padding. The padding must still be NaN.
  std::vector<float> elements() const {
    std::vector<float> dense;
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* row = values_.data() + r * stride_;
      dense.insert(dense.end(), row, row + columns_);
      for (std::int64_t c = columns_; c < stride_; ++c) {
        EXPECT_TRUE(std::isnan(row[c])) << "padding of row " << r << " was written";
      }
    }
    return dense;
  }

 private:
  std::int64_t rows_, columns_, stride_;
  std::vector<float> values_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// One result of an operation, and how far the native one may be from the reference's.
struct Output {
  std::string name;
  std::vector<float> values;
  double tolerance = 0;  ///< absolute; 0: the same bits
};
using Operation = std::function<std::vector<Output>(Backend&)>;

inline std::vector<Output> run_on(const Operation& operation, std::unique_ptr<Backend> backend) {
  backend->prepare_thread();
  return operation(*backend);
}

/// Runs the operation on the reference, twice on one native backend and once on another: the native
/// results have the same bits each time, and are as near to the reference's as the outputs say.
inline void expect_agreement(const Operation& operation, Precision precision, int threads = 1) {
  const BackendOptions options{precision, threads, MaxIsa::any};
  const auto expected = run_on(operation, make_reference_backend(options));
  auto native = make_native_backend(options);
  native->prepare_thread();
  const auto first = operation(*native);
  const auto again = operation(*native);
  const auto other = run_on(operation, make_native_backend(options));
  ASSERT_EQ(first.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const Output& output = first[k];
    EXPECT_TRUE(same_bits(output.values, again[k].values)) << output.name << ", second call";
    EXPECT_TRUE(same_bits(output.values, other[k].values)) << output.name << ", other backend";
    ASSERT_EQ(output.values.size(), expected[k].values.size());
    if (output.tolerance == 0) {
      EXPECT_TRUE(same_bits(output.values, expected[k].values)) << output.name;
      continue;
    }
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < output.values.size(); ++i) {
      const double error = std::fabs(static_cast<double>(output.values[i]) -
                                     static_cast<double>(expected[k].values[i]));
      if (!(error <= worst)) {
        worst = error;
        where = i;
      }
    }
    EXPECT_LE(worst, output.tolerance)
        << output.name << ", element " << where << ": " << output.values[where] << " for "
        << expected[k].values[where];
  }
}

/// The strides of a matrix's rows that tests try: dense, as the backend likes it, and odd.
enum class Strides { dense, padded, odd };
inline std::int64_t stride_of(std::int64_t columns, Strides strides) {
  if (strides == Strides::dense) return columns;
  if (strides == Strides::odd) return columns + 3;
  const auto backend = make_native_backend({});
  return backend->row_stride(columns);
}

}  // namespace swarmpi::kernels
