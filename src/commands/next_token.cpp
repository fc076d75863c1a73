#include "commands/next_token.hpp"

#include <algorithm>
#include <vector>

#include "kernels/portable_math.hpp"

namespace swarmpi {

std::int32_t next_token(std::span<const float> logits, double temperature, double uniform) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<double> sums(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += kernels::portable_exp((static_cast<double>(logits[i]) - *likeliest) / temperature);
    sums[i] = sum;
  }
  // There is one: uniform <= 1.
  const auto drawn = std::lower_bound(sums.begin(), sums.end(), uniform * sum);
  return static_cast<std::int32_t>(drawn - sums.begin());
}

}  // namespace swarmpi
