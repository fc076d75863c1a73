#include "report/peer_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/text.hpp"

namespace swarmpi {
namespace {

// Runs of more peers have a line for each stage instead.
constexpr std::size_t kMostPeers = 16;
// A smaller share of the time gets no column for recovery.
constexpr double kLeastPeerShare = 0.0005;

using Totals = std::map<std::int64_t, WorkTotal>;
using Row = std::vector<std::string>;

std::string percent(double part_s, double whole_s) {
  return whole_s > 0 ? fmt::format("{:.1f} %", 100 * part_s / whole_s) : "-";
}

std::string least_and_most(const std::map<std::int64_t, std::int64_t>& counts) {
  const auto [least, most] =
      std::minmax_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second == most->second) return std::to_string(most->second);
  return std::to_string(least->second) + "-" + std::to_string(most->second);
}

/// Columns that not every run has.
struct Columns {
  bool recovery = false;  ///< some work was repeated
  bool transfer = false;  ///< it was told from waiting, which files of early versions do not
};

void append_times(Row& row, const WorkTotal& total, const Columns& columns) {
  row.push_back(percent(total.compute_s, total.time_s()));
  if (columns.recovery) row.push_back(percent(total.recovery_s, total.time_s()));
  if (columns.transfer) row.push_back(percent(total.transfer_s, total.time_s()));
  row.push_back(percent(total.waiting_s, total.time_s()));
  row.push_back(readable_bytes(total.bytes_sent));
}

Row headings(Row first, const Columns& columns) {
  first.emplace_back("compute");
  if (columns.recovery) first.emplace_back("recovery");
  if (columns.transfer) first.emplace_back("transfer");
  first.insert(first.end(), {"waiting", "sent"});
  return first;
}

std::vector<Row> by_peer(const Totals& totals, const Columns& columns) {
  std::vector<Row> rows = {headings({"peer", "stages", "microbatches"}, columns)};
  for (const auto& [peer, total] : totals) {
    rows.push_back({std::to_string(peer), number_list(total.stages),
                    std::to_string(total.all_microbatches())});
    append_times(rows.back(), total, columns);
  }
  return rows;
}

std::vector<Row> by_stage(const Totals& totals, const Columns& columns) {
  std::vector<Row> rows = {headings({"stage", "peers", "microbatches", "a peer"}, columns)};
  for (const auto& [stage, total] : totals) {
    rows.push_back({std::to_string(stage), std::to_string(total.microbatches.size()),
                    std::to_string(total.all_microbatches()), least_and_most(total.microbatches)});
    append_times(rows.back(), total, columns);
  }
  return rows;
}

/// Right-aligned columns, two blanks apart.
std::vector<std::string> aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += std::string((i == 0 ? 0 : 2) + widths[i] - row[i].size(), ' ') + row[i];
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

void WorkTotal::add(const PeerRow& row) {
  stages.insert(row.stage);
  microbatches[row.peer] += row.microbatches;
  compute_s += row.compute_s - row.recovery_s;
  recovery_s += row.recovery_s;
  transfer_s += row.transfer_s;
  waiting_s += row.idle_s + row.communication_s - row.transfer_s;
  bytes_sent += static_cast<double>(row.bytes_sent);
}

std::int64_t WorkTotal::all_microbatches() const {
  std::int64_t sum = 0;
  for (const auto& [peer, count] : microbatches) sum += count;
  return sum;
}

void PeerTable::add(const PeerRow& row) {
  peers_[row.peer].add(row);
  stages_[row.stage].add(row);
  all_.add(row);
  Steps& steps = served_[{row.peer, row.stage}];
  steps = {std::min(steps.first, row.step), std::max(steps.last, row.step)};
  ++rows_;
}

// Which part of the rows there is: of a fast run not all are kept.
double PeerTable::kept_share() const {
  double all = 0;
  for (const auto& [peer_and_stage, steps] : served_) {
    all += static_cast<double>(steps.last - steps.first + 1);
  }
  return static_cast<double>(rows_) / all;
}

std::vector<std::string> PeerTable::lines() const {
  if (peers_.size() < 2) return {};
  const Columns columns{all_.recovery_s > kLeastPeerShare * all_.time_s(), all_.transfer_s > 0};
  std::vector<std::string> lines =
      aligned(peers_.size() > kMostPeers ? by_stage(stages_, columns) : by_peer(peers_, columns));
  // A run of some seconds is never thinned; a peer that has moved has gaps.
  constexpr std::int64_t kFewRows = 10'000;
  const double share = kept_share();
  if (rows_ > kFewRows && share < 0.95) {
    lines.push_back(fmt::format("of {:.0f} % of the steps: a fast run keeps no more", 100 * share));
  }
  return lines;
}

}  // namespace swarmpi
