#include "report/summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/text.hpp"
#include "report/goodput_total.hpp"
#include "report/peer_table.hpp"

namespace swarmpi {

namespace {

std::string line(const char* name, const std::string& value) {
  return fmt::format("{:{}}{}\n", name, kSummaryIndent, value);
}

std::string wall_time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 120)
    return fmt::format("{} min {:02.0f} s", minutes, seconds - 60.0 * static_cast<double>(minutes));
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

/// First, best and last of some losses.
class Losses {
 public:
  void add(std::int64_t step, double loss) {
    last_ = {step, loss};
    if (count_++ == 0) first_ = best_ = last_;
    if (std::isnan(best_.loss) ? !std::isnan(loss) : loss < best_.loss) best_ = last_;
  }
  std::int64_t count() const { return count_; }
  /// In nats, and in bits where tokens are bytes.
  std::string lines(const char* name, bool bytes) const;

 private:
  struct AtStep {
    std::int64_t step = 0;
    double loss = 0;
  };

  std::string values(double unit, const char* unit_name) const {
    return fmt::format("{:<9.4f} {:<9.4f} {:<9.4f} {}", first_.loss / unit, best_.loss / unit,
                       last_.loss / unit, unit_name);
  }

  AtStep first_, best_, last_;
  std::int64_t count_ = 0;
};

std::string Losses::lines(const char* name, bool bytes) const {
  if (count_ == 0) return line(name, "none");
  std::string text =
      line(name, values(1, "nats per token") +
                     (std::isnan(best_.loss) ? "" : fmt::format(", best at step {}", best_.step)));
  if (bytes) text += line("", values(std::numbers::ln2, "bits per byte"));
  return text;
}

/// Peers that died, and what their loss has cost.
class LostPeers {
 public:
  void add(const EventRow& row) {
    if (row.kind == EventKind::kill) unrepaired_ = lost_.insert(row.peer).second || unrepaired_;
    if (row.kind == EventKind::repair && std::exchange(unrepaired_, false))
      repairs_s_.push_back(row.cost_s);
    if (row.kind == EventKind::incarnation) ++fallbacks_;
  }
  void add(const PeerRow& row) {
    repeated_ += row.repeated;
    recovery_s_ += row.recovery_s;
  }
  /// "" where none died.
  std::string text() const;

 private:
  std::set<std::int64_t> lost_;
  std::vector<double> repairs_s_;  // one for each of them at most
  // There is a death whose repair is to come; other repairs follow joins and moves.
  bool unrepaired_ = false;
  std::int64_t fallbacks_ = 0, repeated_ = 0;
  double recovery_s_ = 0;
};

std::string LostPeers::text() const {
  if (lost_.empty()) return "";
  std::string text = counted(std::ssize(lost_), "peer");
  if (!repairs_s_.empty()) {
    std::vector<double> costs_s = repairs_s_;
    std::sort(costs_s.begin(), costs_s.end());
    text += "; " + counted(std::ssize(costs_s), "repair") +
            fmt::format(", median {:.1f} ms, longest {:.1f} ms", 1e3 * costs_s[costs_s.size() / 2],
                        1e3 * costs_s.back());
  }
  text += fmt::format("; {} passes repeated, {:.2f} s", repeated_, recovery_s_);
  if (fallbacks_ > 0) text += "; " + counted(fallbacks_, "fallback");
  return line("lost", text);
}

/// What is told of a run's rows, which come one by one, table by table.
class Summary {
 public:
  void add(const StepRow& row);
  void add(const ValidationRow& row) { held_out_.add(row.step, row.loss); }
  void add(const PeerRow& row) {
    peers_.add(row);
    lost_.add(row);
  }
  void add(const EventRow& row) {
    lost_.add(row);
    resumes_ += row.kind == EventKind::resume ? 1 : 0;
    leaders_ += row.kind == EventKind::leader ? 1 : 0;
  }
  void add(const GoodputRow& row) { goodput_.add(row); }
  std::string text(const RunFileHead& run) const;

 private:
  std::string losses(const Result<Config>& config) const;
  std::string tokens_and_time() const;
  std::string peers() const;

  Losses loss_, held_out_;  // of trained steps, and of validations
  std::int64_t skipped_ = 0, tokens_ = 0;
  std::optional<double> from_s_;  // nothing: there are no steps
  double until_s_ = 0;
  std::set<std::int64_t> terms_;  // of steps that stand: events tell of the others, but not of all
  std::size_t leaders_ = 0;
  std::int64_t resumes_ = 0;
  PeerTable peers_;
  LostPeers lost_;
  GoodputTotal goodput_;
};

void Summary::add(const StepRow& row) {
  // Row 0 only measures the exponents and does not train.
  const bool trains = row.step != 0;
  if (!from_s_) from_s_ = trains ? 0 : row.time_s;
  until_s_ = row.time_s;
  terms_.insert(row.term);
  if (!trains) return;
  loss_.add(row.step, row.loss);
  skipped_ += row.skipped ? 1 : 0;
  tokens_ += row.tokens;
}

std::string Summary::losses(const Result<Config>& config) const {
  std::string steps = std::to_string(loss_.count());
  if (config.ok()) steps += " of " + std::to_string(config.value().train.steps);
  if (skipped_ > 0) steps += ", " + std::to_string(skipped_) + " skipped";
  const bool bytes = config.ok() && config.value().data.format == DataFormat::bytes;
  return line("steps", steps) + line("", fmt::format("{:9} {:9} {}", "first", "best", "last")) +
         loss_.lines("loss", bytes) + held_out_.lines("held out", bytes);
}

std::string Summary::tokens_and_time() const {
  if (!from_s_) return "";
  const double seconds = until_s_ - *from_s_;
  std::string tokens = std::to_string(tokens_);
  if (seconds > 0)
    tokens += fmt::format(", {:.0f} tokens/s", static_cast<double>(tokens_) / seconds);
  return line("tokens", tokens) + line("wall time", wall_time_text(until_s_));
}

std::string Summary::peers() const {
  std::string text;
  const char* name = "peers";
  for (const std::string& row : peers_.lines()) text += line(std::exchange(name, ""), row);
  text += lost_.text();
  name = "goodput";
  for (const std::string& row : goodput_.lines()) text += line(std::exchange(name, ""), row);
  return text;
}

std::string Summary::text(const RunFileHead& run) const {
  std::string text = losses(parse_deck(run.deck, "the stored deck", {}));
  text += tokens_and_time() + peers();
  text += line("terms", std::to_string(std::max(terms_.size(), leaders_)) + ", resumed " +
                            std::to_string(resumes_) + (resumes_ == 1 ? " time" : " times"));
  if (!run.hosts.empty()) text += line("hosts", run.hosts);
  text += line("fingerprint", run.fingerprint);
  text += line("version", run.version);
  return text + line("verdict", run.verdict + (run.complete ? ", complete" : ", not complete"));
}

template <class Row>
void add_all(TableRows& rows, Summary& summary) {
  const TableRows::Use<Row> use = [&summary](std::span<const Row> some) {
    for (const Row& row : some) summary.add(row);
    return true;
  };
  rows.for_each(use);
}

}  // namespace

std::string run_summary(const RunFileHead& run, TableRows& rows) {
  Summary summary;
  add_all<StepRow>(rows, summary);
  add_all<ValidationRow>(rows, summary);
  add_all<PeerRow>(rows, summary);
  add_all<EventRow>(rows, summary);
  add_all<GoodputRow>(rows, summary);
  return summary.text(run);
}

std::string run_summary(const RunFile& run) {
  HistoryRows rows(run.history);
  return run_summary(run, rows);
}

Result<std::string> run_file_summary(const std::string& path) {
  RunFileReader file(path);
  std::string text = run_summary(file.head(), file.rows());
  if (!file.status().ok()) return file.status();
  return text;
}

}  // namespace swarmpi
