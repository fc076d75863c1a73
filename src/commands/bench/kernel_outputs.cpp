#include "commands/bench/kernel_outputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "kernels/bfloat16.hpp"

namespace swarmpi {

using kernels::ConstFactor;

namespace {

double largest(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

double element(const ConstFactor& m, std::int64_t r, std::int64_t c) {
  const std::int64_t place = r * m.stride + c;
  if (m.element == kernels::Element::fp32) return static_cast<const float*>(m.data)[place];
  return kernels::float_from_bf16(static_cast<const std::uint16_t*>(m.data)[place]);
}

double error_of(const ConstFactor& a, const ConstFactor& b) {
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const double x = element(a, r, c), y = element(b, r, c);
      difference = largest(difference, std::abs(x - y));
      size = largest(size, std::abs(y));
    }
  }
  return difference == 0 ? 0 : difference / size;
}

double error_of(const double* a, const double* b) {
  return *a == *b ? 0 : std::abs(*a - *b) / std::abs(*b);
}

double error_of(const Integers& a, const Integers& b) {
  const bool equal = a.count == b.count && std::equal(a.data, a.data + a.count, b.data);
  return equal ? 0 : std::numeric_limits<double>::infinity();
}

}  // namespace

double relative_error(const std::vector<Output>& a, const std::vector<Output>& b) {
  SWARMPI_CHECK(a.size() == b.size(), "outputs of one operation on two backends");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::visit(
        [&](const auto& x) { return error_of(x, std::get<std::decay_t<decltype(x)>>(b[i])); },
        a[i]);
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace swarmpi
