#include "report/run_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "config/deck.hpp"
#include "report/progress.hpp"
#include "report/text_table.hpp"

namespace swarmpi {
namespace {

// The end of a longer value is shown: of paths it says more than the beginning.
constexpr std::size_t kLongestValue = 28;
// In the place of a value that a run does not have.
constexpr char kNone[] = "-";

template <class Row>
void for_each_row(TableRows& rows, const std::function<void(const Row&)>& use) {
  const TableRows::Use<Row> use_all = [&use](std::span<const Row> some) {
    for (const Row& row : some) use(row);
    return true;
  };
  rows.for_each(use_all);
}

void add_steps(RunFigures& figures, TableRows& rows) {
  std::optional<double> from_s;
  for_each_row<StepRow>(rows, [&](const StepRow& row) {
    // Row 0 only measures the exponents and does not train.
    const bool trains = row.step != 0;
    if (!from_s) from_s = trains ? 0 : row.time_s;
    figures.time_s = row.time_s;
    if (!trains) return;
    ++figures.steps;
    figures.skipped += row.skipped ? 1 : 0;
    figures.tokens += row.tokens;
    figures.loss = row.loss;
  });
  figures.seconds = figures.time_s - from_s.value_or(0);
}

std::string number(double value) {
  return std::isnan(value) ? kNone : fmt::format("{:.4f}", value);
}

std::string shortened(const std::string& value) {
  if (value.size() <= kLongestValue) return value;
  return "..." + value.substr(value.size() - kLongestValue + 3);
}

std::string verdict_text(const RunFileHead& head) {
  const std::string verdict = head.verdict.substr(0, head.verdict.find(':'));
  return head.complete || verdict != "valid" ? verdict : verdict + ", not complete";
}

/// A column of the table: its heading and the value of each run.
struct DeckColumn {
  std::string heading;
  std::vector<std::string> values;
};

std::size_t different(const std::vector<std::string>& values) {
  return std::set(values.begin(), values.end()).size();
}

class ColumnTexts {
 public:
  explicit ColumnTexts(const std::vector<RunFigures>& runs) : runs_(runs) {}

  void add(const std::string& heading, const std::function<std::string(const RunFigures&)>& value) {
    DeckColumn column{heading, {}};
    for (const RunFigures& run : runs_) column.values.push_back(value(run));
    columns_.push_back(std::move(column));
  }
  /// Only where the values differ.
  void add_difference(const std::string& heading,
                      const std::function<std::string(const RunFigures&)>& value) {
    add(heading, value);
    if (different(columns_.back().values) < 2) columns_.pop_back();
  }
  void add(DeckColumn column) { columns_.push_back(std::move(column)); }

  std::string text(std::size_t columns) const {
    std::vector<std::vector<std::string>> rows(runs_.size() + 1);
    for (const DeckColumn& column : columns_) {
      rows[0].push_back(column.heading);
      for (std::size_t i = 0; i < runs_.size(); ++i) rows[i + 1].push_back(column.values[i]);
    }
    return text_table(rows, columns);
  }

 private:
  const std::vector<RunFigures>& runs_;
  std::vector<DeckColumn> columns_;
};

bool tells_where_it_writes(const std::string& key) {
  return key == "output.run" || key == "output.checkpoint";
}

/// Long values are cut where that leaves them as different as they are.
std::vector<std::string> shortened(const std::vector<std::string>& values) {
  std::vector<std::string> all;
  for (const std::string& value : values) all.push_back(shortened(value));
  return different(all) == different(values) ? all : values;
}

/// The keys in which decks differ, in the order in which they are found, with the value of each
/// run.
std::vector<DeckColumn> deck_columns(const std::vector<Config>& decks) {
  std::vector<DeckColumn> all;
  std::map<std::string, std::size_t> found;  // in `all`
  for (std::size_t i = 0; i < decks.size(); ++i) {
    for (const DeckValue& of : deck_values(decks[i])) {
      const auto [at, is_new] = found.try_emplace(of.key, all.size());
      if (is_new) all.push_back({of.key, std::vector<std::string>(decks.size(), kNone)});
      all[at->second].values[i] = of.value;
    }
  }
  std::vector<DeckColumn> columns;
  for (const DeckColumn& column : all) {
    if (tells_where_it_writes(column.heading) || different(column.values) < 2) continue;
    columns.push_back({column.heading, shortened(column.values)});
  }
  return columns;
}

/// What differs in their decks; in `unreadable` the names of those that this version cannot read.
std::vector<DeckColumn> what_differs(const std::vector<RunFigures>& runs, std::string& unreadable) {
  std::vector<Config> decks;
  for (const RunFigures& run : runs) {
    Result<Config> deck = parse_deck(run.head.deck, run.name, {});
    if (deck.ok()) {
      decks.push_back(std::move(deck).value());
    } else {
      unreadable += (unreadable.empty() ? "" : ", ") + run.name;
    }
  }
  return unreadable.empty() ? deck_columns(decks) : std::vector<DeckColumn>();
}

std::string steps_text(const RunFigures& run) {
  const Result<Config> deck = parse_deck(run.head.deck, run.name, {});
  const std::string steps = std::to_string(run.steps);
  if (!deck.ok() || deck.value().train.steps == run.steps) return steps;
  return fmt::format("{} of {}", steps, deck.value().train.steps);
}

}  // namespace

RunFigures figures_of(const std::string& name, const RunFileHead& head, TableRows& rows) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  RunFigures figures{.name = name, .head = head, .loss = kNan, .held_out = kNan};
  add_steps(figures, rows);
  for_each_row<ValidationRow>(rows, [&](const ValidationRow& row) { figures.held_out = row.loss; });
  std::set<std::int64_t> peers, lost;
  for_each_row<PeerRow>(rows, [&](const PeerRow& row) {
    if (row.microbatches > 0) peers.insert(row.peer);
  });
  for_each_row<EventRow>(rows, [&](const EventRow& row) {
    if (row.kind == EventKind::kill) lost.insert(row.peer);
  });
  figures.peers = std::ssize(peers);
  figures.lost = std::ssize(lost);
  return figures;
}

std::string run_table(const std::vector<RunFigures>& runs, std::size_t columns) {
  ColumnTexts table(runs);
  table.add("run", [](const RunFigures& run) { return run.name; });
  std::string unreadable;
  for (DeckColumn& column : what_differs(runs, unreadable)) table.add(std::move(column));
  table.add("steps", steps_text);
  table.add_difference("skipped",
                       [](const RunFigures& run) { return std::to_string(run.skipped); });
  table.add("loss", [](const RunFigures& run) { return number(run.loss); });
  table.add("held out", [](const RunFigures& run) { return number(run.held_out); });
  table.add("tokens/s", [](const RunFigures& run) {
    const bool known = run.seconds > 0;
    return known ? fmt::format("{:.0f}", static_cast<double>(run.tokens) / run.seconds) : kNone;
  });
  table.add("time", [](const RunFigures& run) { return duration_text(run.time_s); });
  table.add("peers",
            [](const RunFigures& run) { return run.peers ? std::to_string(*run.peers) : kNone; });
  table.add("lost", [](const RunFigures& run) { return std::to_string(run.lost); });
  const bool all_good = std::all_of(runs.begin(), runs.end(), [](const RunFigures& run) {
    return run.head.complete && run.head.verdict == "valid";
  });
  if (!all_good) {
    table.add("verdict", [](const RunFigures& run) { return verdict_text(run.head); });
  }
  table.add_difference("fingerprint", [](const RunFigures& run) { return run.head.fingerprint; });
  table.add_difference("version", [](const RunFigures& run) { return run.head.version; });
  std::string text = table.text(columns) + "loss and held out: the last, in nats per token\n";
  if (!unreadable.empty()) text += "this version cannot read the deck of " + unreadable + "\n";
  return text;
}

}  // namespace swarmpi
