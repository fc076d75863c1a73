#include "simulation/histogram.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace swarmpi {
namespace {

constexpr std::int64_t kLinesEachWay = 12;  // from 0; values farther away share a line
constexpr std::int64_t kBarColumns = 30;

std::string bar(std::int64_t count, std::int64_t total) {
  const std::int64_t columns = (count * kBarColumns + total - 1) / std::max<std::int64_t>(total, 1);
  return std::string(static_cast<std::size_t>(columns), '#');
}

}  // namespace

std::int64_t Histogram::count(std::int64_t value) const { return count(value, value); }

std::int64_t Histogram::count(std::int64_t first, std::int64_t last) const {
  std::int64_t sum = 0;
  const auto end = counts_.upper_bound(last);
  for (auto it = counts_.lower_bound(first); it != end; ++it) sum += it->second;
  return sum;
}

std::int64_t Histogram::total() const {
  std::int64_t sum = 0;
  for (const auto& [value, count] : counts_) sum += count;
  return sum;
}

double Histogram::mean() const {
  double sum = 0;
  for (const auto& [value, count] : counts_) sum += static_cast<double>(value * count);
  return sum / static_cast<double>(std::max<std::int64_t>(total(), 1));
}

std::string side_by_side(const std::string& name_a, const Histogram& a, const std::string& name_b,
                         const Histogram& b) {
  std::int64_t least = 0, most = 0;
  for (const Histogram* histogram : {&a, &b}) {
    if (histogram->counts().empty()) continue;
    least = std::min(least, histogram->counts().begin()->first);
    most = std::max(most, histogram->counts().rbegin()->first);
  }
  std::string text =
      fmt::format("{:>10}  {:>8} {:{}}  {:>8}\n", "", name_a, "", kBarColumns, name_b);
  const auto line = [&](const std::string& name, std::int64_t first, std::int64_t last) {
    const std::int64_t of_a = a.count(first, last), of_b = b.count(first, last);
    text += fmt::format("{:>10}  {:8} {:{}}  {:8} {}", name, of_a, bar(of_a, a.total()),
                        kBarColumns, of_b, bar(of_b, b.total()));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  const std::int64_t first = std::max(least, -kLinesEachWay);
  const std::int64_t last = std::min(most, kLinesEachWay);
  if (least < first) line(fmt::format("{}..{}", least, first - 1), least, first - 1);
  for (std::int64_t value = first; value <= last; ++value) {
    line(std::to_string(value), value, value);
  }
  if (most > last) line(fmt::format("{}..{}", last + 1, most), last + 1, most);
  return text + fmt::format("{:>10}  {:8.3f} {:{}}  {:8.3f}\n", "mean", a.mean(), "", kBarColumns,
                            b.mean());
}

}  // namespace swarmpi
