#include "report/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "config/deck.hpp"
#include "io/row_fields.hpp"
#include "io/run_file.hpp"

namespace swarmpi {

namespace {

constexpr char kNothingLearned[] = "; simulated: learning was not compared";

template <class Value>
std::string cell_text(const Value& value) {
  if constexpr (Choice<Value>) {
    return name_of(value);
  } else {
    return in_full(value);
  }
}

/// One of the two runs, its rows by step.
struct Side {
  std::string path;
  RunFileHead run;
  std::map<std::int64_t, StepRow> steps;
  std::map<std::int64_t, double> validation;
};

/// Of the tables only those that are compared: that of the peers is much longer.
Result<Side> read_side(const std::string& path) {
  RunFileReader file(path);
  Side side{path, file.head(), {}, {}};
  const TableRows::Use<StepRow> keep_steps = [&side](std::span<const StepRow> rows) {
    for (const StepRow& row : rows) side.steps[row.step] = row;
    return true;
  };
  const TableRows::Use<ValidationRow> keep_losses = [&side](std::span<const ValidationRow> rows) {
    for (const ValidationRow& row : rows) side.validation[row.step] = row.loss;
    return true;
  };
  file.rows().for_each(keep_steps);
  file.rows().for_each(keep_losses);
  if (!file.status().ok()) return file.status();
  return side;
}

struct Tolerance {
  std::optional<double> rtol;

  bool equal(double a, double b) const {
    if (same_bits(a, b)) return true;
    if (!rtol) return false;
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b || std::abs(a - b) <= *rtol * std::max(std::abs(a), std::abs(b));
  }
};

std::string two_values(const std::string& title, const std::string& a, const std::string& b) {
  return title + "\n  a: " + a + "\n  b: " + b + "\n";
}

std::string doubles_differ(const std::string& title, double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  const double relative = scale > 0 ? std::abs(a - b) / scale : 0;
  return two_values(title, in_full(a), in_full(b)) +
         (std::isfinite(relative) ? fmt::format("  relative difference: {:.3g}\n", relative) : "");
}

/// "" or how two rows of one step differ.
std::string row_difference(const StepRow& a, const StepRow& b, const Tolerance& tolerance) {
  const std::string at = fmt::format("step {}: ", a.step);
  if (a.skipped != b.skipped) {
    return two_values(at + "skipped", in_full(a.skipped), in_full(b.skipped));
  }
  if (!tolerance.equal(a.loss, b.loss)) return doubles_differ(at + "loss", a.loss, b.loss);
  if (!tolerance.equal(a.grad_norm, b.grad_norm)) {
    return doubles_differ(at + "grad_norm", a.grad_norm, b.grad_norm);
  }
  if (!tolerance.rtol && a.state_hash != b.state_hash) {
    return two_values(at + "state_hash", in_full(a.state_hash), in_full(b.state_hash));
  }
  return "";
}

/// Steps as ranges: "3, 5 to 9".
std::string ranges(const std::vector<std::int64_t>& steps) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < steps.size(); first = ++last) {
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(steps[first]);
    if (last > first) text += " to " + std::to_string(steps[last]);
  }
  return text;
}

/// Names the steps that only one of the runs has.
template <class Rows>
std::string unmatched_steps(const char* what, const Side& a, const Side& b,
                            const Rows Side::*rows) {
  const auto missing = [rows, what](const Side& from, const Side& in) -> std::string {
    std::vector<std::int64_t> steps;
    for (const auto& [step, row] : from.*rows) {
      if (!(in.*rows).contains(step)) steps.push_back(step);
    }
    if (steps.empty()) return "";
    return fmt::format("{} only in {}: {}\n", what, from.path, ranges(steps));
  };
  return missing(a, b) + missing(b, a);
}

/// The first difference in the order of steps, or "".
std::string first_difference(const Side& a, const Side& b, const Tolerance& tolerance) {
  std::set<std::int64_t> steps;
  for (const auto& [step, row] : a.steps) steps.insert(step);
  for (const auto& [step, loss] : a.validation) steps.insert(step);
  for (const std::int64_t step : steps) {
    const auto row_a = a.steps.find(step), row_b = b.steps.find(step);
    if (row_a != a.steps.end() && row_b != b.steps.end()) {
      std::string found = row_difference(row_a->second, row_b->second, tolerance);
      if (!found.empty()) return found;
    }
    const auto loss_a = a.validation.find(step), loss_b = b.validation.find(step);
    if (loss_a != a.validation.end() && loss_b != b.validation.end() &&
        !tolerance.equal(loss_a->second, loss_b->second)) {
      return doubles_differ(fmt::format("validation after step {}: loss", step), loss_a->second,
                            loss_b->second);
    }
  }
  return unmatched_steps("steps", a, b, &Side::steps) +
         unmatched_steps("validation after steps", a, b, &Side::validation);
}

/// How decks and fingerprints differ: it may explain a difference, or be without effect.
std::string other_differences(const Side& a, const Side& b) {
  std::string text;
  if (a.run.fingerprint != b.run.fingerprint) {
    text += two_values("fingerprints differ (kernels, threads or machine):", a.run.fingerprint,
                       b.run.fingerprint);
  }
  if (a.run.deck == b.run.deck) return text;
  const Result<Config> deck_a = parse_deck(a.run.deck, a.path, {});
  const Result<Config> deck_b = parse_deck(b.run.deck, b.path, {});
  if (!deck_a.ok() || !deck_b.ok()) {
    return text + "decks differ, and this version cannot read " + (deck_a.ok() ? b.path : a.path) +
           "'s\n";
  }
  const auto differences = deck_differences(deck_a.value(), deck_b.value());
  if (!differences.empty()) text += "decks differ:\n";
  for (const DeckDifference& difference : differences) {
    text += fmt::format("  {}: {} -> {}\n", difference.key, difference.a, difference.b);
  }
  return text;
}

bool is_invalid(const Side& side) { return side.run.verdict.rfind("invalid", 0) == 0; }

/// What must be known of a run before its rows are relied on; "" of a complete, valid one.
std::string standing(const char* name, const Side& side) {
  const RunFileHead& run = side.run;
  if (is_invalid(side)) {
    return fmt::format("{} is not a valid run: its verdict is \"{}\"\n", name, run.verdict);
  }
  if (run.complete) return "";
  const std::string last = side.steps.empty()
                               ? "it has no steps"
                               : fmt::format("its last step is {}", side.steps.rbegin()->first);
  return fmt::format("{} is not complete (verdict \"{}\"): {}\n", name, run.verdict, last);
}

/// Why one run cannot be compared with the other; "" if it can.
std::string refusal(const std::string& a, const RunFileHead& run_a, const std::string& b,
                    const RunFileHead& run_b) {
  if (run_a.has_learned() == run_b.has_learned()) return "";
  const bool first = run_b.has_learned();
  return fmt::format("{} is simulated and {} is not: they cannot be compared", first ? a : b,
                     first ? b : a);
}

/// The first difference in a table, or "".
template <class Row>
std::string table_difference(const char* table, const std::vector<Row>& a,
                             const std::vector<Row>& b) {
  std::string found;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && found.empty(); ++i) {
    for_each_column<Row>([&](const auto& column) {
      if (!found.empty() || !column.shown) return;
      const auto &value_a = column.of(a[i]), &value_b = column.of(b[i]);
      if (same_bits(value_a, value_b)) return;
      found = two_values(fmt::format("{}, row {}: {}", table, i, column.name), cell_text(value_a),
                         cell_text(value_b));
    });
  }
  if (!found.empty() || a.size() == b.size()) return found;
  return two_values(fmt::format("{}: rows", table), std::to_string(a.size()),
                    std::to_string(b.size()));
}

std::string all_differences(const RunFile& a, const RunFile& b) {
  std::string text;
  const auto compare = [&text](const std::string& name, const std::string& of_a,
                               const std::string& of_b) {
    if (of_a != of_b) text += two_values(name, of_a, of_b);
  };
  compare("deck", a.deck, b.deck);
  compare("seed", a.seed, b.seed);
  compare("fingerprint", a.fingerprint, b.fingerprint);
  compare("fidelity", a.fidelity, b.fidelity);
  compare("verdict", a.verdict, b.verdict);
  compare("complete", in_full(a.complete), in_full(b.complete));
  for_each_table(a.history, [&](const char* table, const auto& rows_a) {
    for_each_table(b.history, [&](const char*, const auto& rows_b) {
      if constexpr (std::is_same_v<decltype(rows_a), decltype(rows_b)>) {
        text += table_difference(table, rows_a, rows_b);
      }
    });
  });
  return text;
}

}  // namespace

ExitStatus compare_all(const std::string& a, const std::string& b, std::ostream& out,
                       std::ostream& error) {
  const Result<RunFile> read_a = read_run_file(a), read_b = read_run_file(b);
  for (const Result<RunFile>* read : {&read_a, &read_b}) {
    if (read->ok()) continue;
    error << "swarmpi: " << read->status().message() << "\n";
    return ExitStatus::bad_input;
  }
  const RunFile &run_a = read_a.value(), &run_b = read_b.value();
  if (const std::string why = refusal(a, run_a, b, run_b); !why.empty()) {
    error << "swarmpi: " << why << "\n";
    return ExitStatus::bad_input;
  }
  const std::string differences = all_differences(run_a, run_b);
  if (!differences.empty()) {
    out << "a = " << a << "\nb = " << b << "\n" << differences;
    return ExitStatus::no;
  }
  out << fmt::format("equal in all data but for builds and hosts: {} steps, {} rows of peers{}\n",
                     run_a.history.steps.size(), run_a.history.peers.size(),
                     run_a.has_learned() ? "" : kNothingLearned);
  return ExitStatus::good;
}

ExitStatus compare_runs(const std::string& a, const std::string& b, std::optional<double> rtol,
                        std::ostream& out, std::ostream& error) {
  const Result<Side> read_a = read_side(a), read_b = read_side(b);
  for (const Result<Side>* read : {&read_a, &read_b}) {
    if (!read->ok()) {
      error << "swarmpi: " << read->status().message() << "\n";
      return ExitStatus::bad_input;
    }
  }
  const Side &side_a = read_a.value(), &side_b = read_b.value();
  if (const std::string why = refusal(a, side_a.run, b, side_b.run); !why.empty()) {
    error << "swarmpi: " << why << "\n";
    return ExitStatus::bad_input;
  }
  const std::string difference = first_difference(side_a, side_b, {rtol});
  if (difference.empty()) {
    const bool whole = side_a.run.complete && side_b.run.complete;
    out << fmt::format("equal{}{}: {} steps, {} validations{}\n",
                       rtol ? fmt::format(" to a relative {:g}", *rtol) : " bit for bit",
                       whole ? "" : " as far as they go", side_a.steps.size(),
                       side_a.validation.size(), side_a.run.has_learned() ? "" : kNothingLearned);
  } else {
    out << "a = " << a << "\nb = " << b << "\n" << difference;
  }
  out << standing("a", side_a) << standing("b", side_b) << other_differences(side_a, side_b);
  const bool proves_nothing = is_invalid(side_a) || is_invalid(side_b);
  return difference.empty() && !proves_nothing ? ExitStatus::good : ExitStatus::no;
}

}  // namespace swarmpi
