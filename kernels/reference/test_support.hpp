#pragma once
// For the tests of the reference kernels: inputs that are the same everywhere, and gradients by
// finite differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"

namespace swarmpi::kernels {

/// Keyed random numbers; std::mt19937_64 is the same in every standard library, its distributions
/// are not.
class TestRandom {
 public:
  explicit TestRandom(std::uint64_t key) : bits_(key) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(bound));
  }
  /// In [-1, 1), with 24 bits: exact in fp32.
  double uniform() { return static_cast<double>(bits_() >> 40) * 0x1p-23 - 1.0; }

  template <class S>
  std::vector<S> values(std::int64_t count, double scale = 1.0) {
    std::vector<S> v(static_cast<std::size_t>(count));
    for (S& x : v) x = static_cast<S>(scale * uniform());
    return v;
  }
  std::vector<std::int32_t> tokens(std::int64_t count, std::int64_t vocabulary) {
    std::vector<std::int32_t> v(static_cast<std::size_t>(count));
    for (auto& token : v) token = static_cast<std::int32_t>(below(vocabulary));
    return v;
  }

 private:
  std::mt19937_64 bits_;
};

template <class S>
MatrixView<S> view(std::vector<S>& v, std::int64_t rows, std::int64_t columns) {
  return {v.data(), rows, columns};
}
template <class S>
MatrixView<const S> view(const std::vector<S>& v, std::int64_t rows, std::int64_t columns) {
  return {v.data(), rows, columns};
}

/// sum of a[i] * b[i].
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Compares `gradient` with central differences of `loss`, which reads `inputs`. Differences of
/// fourth order with step 1e-3 are good to about 1e-11 of the loss's size for functions of order
/// one.
inline void expect_gradient(const char* what, std::vector<double>& inputs,
                            const std::vector<double>& gradient,
                            const std::function<double()>& loss, double tolerance = 1e-8) {
  constexpr double kStep = 1e-3;
  ASSERT_EQ(inputs.size(), gradient.size());
  const auto at = [&](double& x, double offset) {
    const double saved = x;
    x = saved + offset;
    const double value = loss();
    x = saved;
    return value;
  };
  double scale = 1e-3;
  for (const double g : gradient) scale = std::max(scale, std::fabs(g));
  // All of a small array, about forty elements of a large one.
  const std::size_t stride = inputs.size() / 40 + 1;
  for (std::size_t i = 0; i < inputs.size(); i += stride) {
    double& x = inputs[i];
    const double near = (at(x, kStep) - at(x, -kStep)) / (2 * kStep);
    const double far = (at(x, 2 * kStep) - at(x, -2 * kStep)) / (4 * kStep);
    const double difference = (4 * near - far) / 3;
    ASSERT_NEAR(gradient[i], difference, tolerance * scale) << what << " element " << i;
  }
}

}  // namespace swarmpi::kernels
