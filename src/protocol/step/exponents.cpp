#include "protocol/step/exponents.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "kernels/fixed_point.hpp"

namespace swarmpi {

using kernels::kHeadroomBits;
using kernels::kNoExponent;

Exponents next_exponents(const Exponents& measured, const Exponents& previous) {
  SWARMPI_CHECK(measured.size() == previous.size(), "one exponent a tensor");
  // kNoExponent is the least value: the maximum ignores it.
  const std::int16_t largest =
      measured.empty() ? kNoExponent : *std::max_element(measured.begin(), measured.end());

  Exponents next(measured.size(), kNoExponent);
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (measured[i] == kNoExponent && previous[i] == kNoExponent) {
      next[i] = largest;
      continue;
    }
    int exponent = measured[i];
    if (previous[i] != kNoExponent) exponent = std::max<int>(exponent, previous[i] - 1);
    if (largest != kNoExponent) exponent = std::max<int>(exponent, largest - kHeadroomBits);
    next[i] = static_cast<std::int16_t>(exponent);
  }
  return next;
}

}  // namespace swarmpi
