#include "report/summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/text.hpp"
#include "report/peer_table.hpp"

namespace swarmpi {

namespace {

std::string line(const char* name, const std::string& value) {
  return fmt::format("{:13}{}\n", name, value);
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 120)
    return fmt::format("{} min {:02.0f} s", minutes, seconds - 60.0 * static_cast<double>(minutes));
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

/// First, best and last of the losses in `rows`, in nats, and in bits where tokens are bytes.
template <class Row>
std::string losses(const char* name, const std::vector<Row>& rows, bool bytes) {
  if (rows.empty()) return line(name, "none");
  const auto best = std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::isnan(b.loss) ? !std::isnan(a.loss) : a.loss < b.loss;
  });
  const auto table_line = [&](double unit, const char* unit_name) {
    return fmt::format("{:<12.4f} {:<12.4f} {:<12.4f} {}", rows.front().loss / unit,
                       best->loss / unit, rows.back().loss / unit, unit_name);
  };
  std::string text =
      line(name, table_line(1, "nats per token") + fmt::format(", best at step {}", best->step));
  if (bytes) text += line("", table_line(std::numbers::ln2, "bits per byte"));
  return text;
}

std::string speed(const std::vector<StepRow>& rows, std::int64_t tokens) {
  // Row 0 only measures the exponents and does not train.
  const double from_s = rows.front().step == 0 ? rows.front().time_s : 0;
  const double seconds = rows.back().time_s - from_s;
  return seconds > 0 ? fmt::format(", {:.0f} tokens/s", static_cast<double>(tokens) / seconds) : "";
}

// The line about peers that died and what their loss has cost; "" where none died.
std::string lost_peers(const History& history) {
  std::set<std::int64_t> lost;
  std::vector<double> repairs_s;
  bool unrepaired = false;  // a death whose repair is to come; other repairs follow joins and moves
  std::int64_t fallbacks = 0;
  for (const EventRow& row : history.events) {
    if (row.kind == EventKind::kill) unrepaired = lost.insert(row.peer).second || unrepaired;
    if (row.kind == EventKind::repair && std::exchange(unrepaired, false))
      repairs_s.push_back(row.cost_s);
    if (row.kind == EventKind::incarnation) ++fallbacks;
  }
  if (lost.empty()) return "";
  std::int64_t repeated = 0;
  double recovery_s = 0;
  for (const PeerRow& row : history.peers) {
    repeated += row.repeated;
    recovery_s += row.recovery_s;
  }
  std::string text = counted(std::ssize(lost), "peer");
  if (!repairs_s.empty()) {
    std::sort(repairs_s.begin(), repairs_s.end());
    text += "; " + counted(std::ssize(repairs_s), "repair") +
            fmt::format(", median {:.1f} ms, longest {:.1f} ms",
                        1e3 * repairs_s[repairs_s.size() / 2], 1e3 * repairs_s.back());
  }
  text += fmt::format("; {} passes repeated, {:.2f} s", repeated, recovery_s);
  if (fallbacks > 0) text += "; " + counted(fallbacks, "fallback");
  return line("lost", text);
}

}  // namespace

std::string run_summary(const RunFile& run) {
  const History& history = run.history;
  std::vector<StepRow> trained;
  std::int64_t skipped = 0, tokens = 0;
  std::set<std::int64_t> terms;
  for (const StepRow& row : history.steps) {
    terms.insert(row.term);
    if (row.step == 0) continue;
    trained.push_back(row);
    skipped += row.skipped ? 1 : 0;
    tokens += row.tokens;
  }
  const auto resumes =
      std::count_if(history.events.begin(), history.events.end(),
                    [](const EventRow& row) { return row.kind == EventKind::resume; });
  const Result<Config> config = parse_deck(run.deck, "the stored deck", {});
  const bool bytes = config.ok() && config.value().data.format == DataFormat::bytes;

  std::string steps = std::to_string(trained.size());
  if (config.ok()) steps += " of " + std::to_string(config.value().train.steps);
  if (skipped > 0) steps += ", " + std::to_string(skipped) + " skipped";
  std::string text = line("steps", steps);
  text += line("", fmt::format("{:12} {:12} {:12}", "first", "best", "last"));
  text += losses("loss", trained, bytes);
  text += losses("held out", history.validation, bytes);
  if (!history.steps.empty()) {
    text += line("tokens", std::to_string(tokens) + speed(history.steps, tokens));
    text += line("wall time", duration(history.steps.back().time_s));
  }
  const char* name = "peers";
  for (const std::string& row : peer_table(history.peers)) {
    text += line(std::exchange(name, ""), row);
  }
  text += lost_peers(history);
  text += line("terms", std::to_string(terms.size()) + ", resumed " + std::to_string(resumes) +
                            (resumes == 1 ? " time" : " times"));
  text += line("hosts", run.hosts);
  text += line("fingerprint", run.fingerprint);
  text += line("version", run.version);
  return text + line("verdict", run.verdict + (run.complete ? ", complete" : ", not complete"));
}

}  // namespace swarmpi
