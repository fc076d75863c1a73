#include "core/number_list.hpp"

namespace swarmpi {

std::string number_list(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::int64_t first = *it;
    std::int64_t last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += (last > first + 1 ? "-" : ",") + std::to_string(last);
  }
  return text;
}

}  // namespace swarmpi
