#include "kernels/reference/gelu.hpp"

#include "kernels/portable_math.hpp"

namespace swarmpi::kernels::reference {

namespace {
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

double bend(double x) { return portable_tanh(kSqrtTwoOverPi * (x + kCubic * (x * x * x))); }
}  // namespace

double gelu(double x) { return 0.5 * x * (1.0 + bend(x)); }

double gelu_slope(double x) {
  const double t = bend(x);
  const double inner_slope = kSqrtTwoOverPi * (1.0 + 3.0 * kCubic * (x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner_slope;
}

}  // namespace swarmpi::kernels::reference
