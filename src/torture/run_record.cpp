#include "torture/run_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace swarmpi {
namespace {

bool same_bits(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::string unequal(const char* what, std::int64_t step, double x, double y) {
  return fmt::format("{} of step {}: {:.17g} and {:.17g}", what, step, x, y);
}

// Names the first column that differs.
std::string difference(const StepRow& a, const StepRow& b) {
  const auto say = [&](const char* column, double x, double y) {
    return unequal(column, a.step, x, y);
  };
  if (a.step != b.step) return say("number", double(a.step), double(b.step));
  if (!same_bits(a.loss, b.loss)) return say("loss", a.loss, b.loss);
  if (!same_bits(a.grad_norm, b.grad_norm)) return say("grad_norm", a.grad_norm, b.grad_norm);
  if (!same_bits(a.clip, b.clip)) return say("clip", a.clip, b.clip);
  if (!same_bits(a.lr, b.lr)) return say("lr", a.lr, b.lr);
  if (a.tokens != b.tokens) return say("tokens", double(a.tokens), double(b.tokens));
  if (a.skipped != b.skipped) return say("skipped", double(a.skipped), double(b.skipped));
  if (a.state_hash != b.state_hash) {
    return fmt::format("state_hash of step {}: {:016x} and {:016x}", a.step, a.state_hash,
                       b.state_hash);
  }
  return "";
}

std::string difference(const ValidationRow& a, const ValidationRow& b) {
  if (a.step == b.step && same_bits(a.loss, b.loss)) return "";
  return fmt::format("validation of step {}: {:.17g}, and of step {}: {:.17g}", a.step, a.loss,
                     b.step, b.loss);
}

// Sorts rows by step and drops repeated ones: a validation pass behind the last step may end before
// that step is committed, and a new leader may write a row of the old one again. Says where
// repeated rows differ.
template <class Row>
std::string sort_and_merge(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.step < b.step; });
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].step != rows[i].step) continue;
    if (auto d = difference(rows[i - 1], rows[i]); !d.empty()) return "written twice: " + d;
  }
  const auto same = [](const Row& a, const Row& b) { return a.step == b.step; };
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
  return "";
}

std::string gap(const std::vector<StepRow>& rows, std::int64_t first) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t due = first + static_cast<std::int64_t>(i);
    if (rows[i].step == due) continue;
    return fmt::format("row {} is missing, row {} is there", due, rows[i].step);
  }
  return "";
}

std::string compare(const std::vector<StepRow>& part, const std::vector<StepRow>& whole,
                    bool complete) {
  for (std::size_t i = 0; i < part.size() && i < whole.size(); ++i) {
    if (std::string d = difference(part[i], whole[i]); !d.empty()) return d;
  }
  const bool fits = part.size() == whole.size() || (!complete && part.size() < whole.size());
  return fits ? "" : fmt::format("{} rows instead of {}", part.size(), whole.size());
}

// A stop may leave a gap: with delayed updates the pass behind the last step may end first.
std::string compare(const std::vector<ValidationRow>& part, const std::vector<ValidationRow>& whole,
                    bool complete) {
  for (const ValidationRow& row : part) {
    const auto other =
        std::find_if(whole.begin(), whole.end(), [&](const auto& w) { return w.step == row.step; });
    if (other == whole.end()) {
      return fmt::format("step {} was validated", row.step);
    }
    if (std::string d = difference(row, *other); !d.empty()) return d;
  }
  if (!complete || part.size() == whole.size()) return "";
  return fmt::format("{} validation rows instead of {}", part.size(), whole.size());
}

}  // namespace

std::string add_journal(RunRecord& run_record, const VirtualDisk& disk, Step resumed_from) {
  for (const VirtualDisk::Entry& entry : disk.journal) {
    const auto& row = entry.record.row;
    if (const auto* step = std::get_if<StepRow>(&row)) run_record.rows.push_back(*step);
    if (const auto* loss = std::get_if<ValidationRow>(&row)) run_record.validation.push_back(*loss);
  }
  if (auto d = sort_and_merge(run_record.rows); !d.empty()) return d;
  if (auto d = sort_and_merge(run_record.validation); !d.empty()) return d;
  return gap(run_record.rows, resumed_from.value + 1);
}

std::string join(RunRecord& run_record, const RunRecord& later) {
  run_record.rows.insert(run_record.rows.end(), later.rows.begin(), later.rows.end());
  run_record.validation.insert(run_record.validation.end(), later.validation.begin(),
                               later.validation.end());
  if (auto d = sort_and_merge(run_record.rows); !d.empty()) return d;
  if (auto d = sort_and_merge(run_record.validation); !d.empty()) return d;
  if (auto d = gap(run_record.rows, 0); !d.empty()) return d;
  for (const auto& [step, record] : later.commits) {
    const auto [before, fresh] = run_record.commits.emplace(step, record);
    if (fresh) continue;
    if (auto d = difference(*before->second, *record); !d.empty()) return "committed twice: " + d;
  }
  return "";
}

std::string difference(const CommitRecord& a, const CommitRecord& b) {
  const std::int64_t step = a.step.value;
  if (a.step != b.step) return unequal("number", step, double(step), double(b.step.value));
  const std::pair<const char*, std::pair<double, double>> numbers[] = {
      {"loss", {a.loss, b.loss}},
      {"validation loss", {a.validation_loss, b.validation_loss}},
      {"grad_norm", {a.grad_norm, b.grad_norm}},
      {"clip", {a.clip, b.clip}},
      {"lr", {a.lr, b.lr}},
      {"first bias correction", {a.correction1, b.correction1}},
      {"second bias correction", {a.correction2, b.correction2}},
  };
  for (const auto& [name, values] : numbers) {
    if (!same_bits(values.first, values.second)) {
      return unequal(name, step, values.first, values.second);
    }
  }
  const bool same = a.tokens == b.tokens && a.skipped == b.skipped &&
                    a.applied_updates == b.applied_updates &&
                    a.skips_in_a_row == b.skips_in_a_row && a.flagged == b.flagged &&
                    a.next_exponents == b.next_exponents;
  if (same) return "";
  return fmt::format("exponents, flags or counts in the commit record of step {}", step);
}

std::string difference(const RunRecord& part, const RunRecord& whole, bool complete) {
  if (auto d = compare(part.rows, whole.rows, complete); !d.empty()) return d;
  if (auto d = compare(part.validation, whole.validation, complete); !d.empty()) return d;
  for (const auto& [step, record] : part.commits) {
    const auto other = whole.commits.find(step);
    if (other == whole.commits.end()) {
      return fmt::format("step {} was committed", step.value);
    }
    if (std::string d = difference(*record, *other->second); !d.empty()) return d;
  }
  return "";
}

}  // namespace swarmpi
