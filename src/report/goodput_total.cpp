#include "report/goodput_total.hpp"

#include <fmt/core.h>

#include "io/row_fields.hpp"

namespace swarmpi {
namespace {

// A smaller share of the time is not named.
constexpr double kLeastTotalShare = 0.0005;

}  // namespace

double GoodputTotal::goodput() const { return sum_.useful_s / sum_.total_s(); }

double GoodputTotal::ettr() const {
  return (sum_.useful_s + sum_.reduction_s + sum_.link_s + sum_.idle_s) / sum_.total_s();
}

std::vector<std::string> GoodputTotal::lines() const {
  const double all_s = sum_.total_s();
  if (all_s <= 0) return {};
  std::string parts;
  for_each_column<GoodputRow>([&](const auto& column) {
    if (!column.name.ends_with("_s")) return;
    const double share = static_cast<double>(column.of(sum_)) / all_s;
    if (share < kLeastTotalShare) return;
    const std::string name = column.name.substr(0, column.name.size() - 2);
    parts += fmt::format("{}{} {:.1f} %", parts.empty() ? "" : ", ", name, 100 * share);
  });
  return {fmt::format("{:.1f} %, ETTR {:.1f} %, of {:.4g} peer-seconds", 100 * goodput(),
                      100 * ettr(), all_s),
          parts};
}

}  // namespace swarmpi
