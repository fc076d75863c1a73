#include "report/peer_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "core/text.hpp"

namespace swarmpi {
namespace {

// Runs of more peers have a line for each stage instead.
constexpr std::size_t kMostPeers = 16;
// A smaller share of the time gets no column for recovery.
constexpr double kLeastShare = 0.0005;

/// What a peer, or a stage, did in all.
struct Total {
  std::set<std::int64_t> stages;
  std::map<std::int64_t, std::int64_t> microbatches;  // of each peer
  double compute_s = 0, communication_s = 0, recovery_s = 0, idle_s = 0;
  double bytes_sent = 0;

  void add(const PeerRow& row) {
    stages.insert(row.stage);
    microbatches[row.peer] += row.microbatches;
    compute_s += row.compute_s;
    communication_s += row.communication_s;
    recovery_s += row.recovery_s;
    idle_s += row.idle_s;
    bytes_sent += static_cast<double>(row.bytes_sent);
  }
  double time_s() const { return compute_s + communication_s + recovery_s + idle_s; }
  std::int64_t all_microbatches() const {
    std::int64_t sum = 0;
    for (const auto& [peer, count] : microbatches) sum += count;
    return sum;
  }
};

using Totals = std::map<std::int64_t, Total>;
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

void append_times(Row& row, const Total& total, bool recovery) {
  row.push_back(percent(total.compute_s, total.time_s()));
  row.push_back(percent(total.communication_s, total.time_s()));
  if (recovery) row.push_back(percent(total.recovery_s, total.time_s()));
  row.push_back(percent(total.idle_s, total.time_s()));
  row.push_back(readable_bytes(total.bytes_sent));
}

Row headings(Row first, bool recovery) {
  first.insert(first.end(), {"compute", "communication"});
  if (recovery) first.push_back("recovery");
  first.insert(first.end(), {"idle", "sent"});
  return first;
}

std::vector<Row> by_peer(const Totals& totals, bool recovery) {
  std::vector<Row> rows = {headings({"peer", "stages", "microbatches"}, recovery)};
  for (const auto& [peer, total] : totals) {
    rows.push_back({std::to_string(peer), number_list(total.stages),
                    std::to_string(total.all_microbatches())});
    append_times(rows.back(), total, recovery);
  }
  return rows;
}

std::vector<Row> by_stage(const Totals& totals, bool recovery) {
  std::vector<Row> rows = {headings({"stage", "peers", "microbatches", "a peer"}, recovery)};
  for (const auto& [stage, total] : totals) {
    rows.push_back({std::to_string(stage), std::to_string(total.microbatches.size()),
                    std::to_string(total.all_microbatches()), least_and_most(total.microbatches)});
    append_times(rows.back(), total, recovery);
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

std::vector<std::string> peer_table(const std::vector<PeerRow>& rows) {
  Totals peers, stages;
  double recovery_s = 0, time_s = 0;
  for (const PeerRow& row : rows) {
    peers[row.peer].add(row);
    stages[row.stage].add(row);
    recovery_s += row.recovery_s;
    time_s += row.compute_s + row.communication_s + row.recovery_s + row.idle_s;
  }
  if (peers.size() < 2) return {};
  const bool recovery = recovery_s > kLeastShare * time_s;
  return aligned(peers.size() > kMostPeers ? by_stage(stages, recovery) : by_peer(peers, recovery));
}

}  // namespace swarmpi
