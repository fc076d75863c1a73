#include "torture/run_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>

#include "io/row_fields.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {
namespace {

template <class T>
std::string words(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("{:.17g}", value);
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (requires { value.value; }) {
    return words(value.value);
  } else {
    return fmt::format("{} values", value.size());
  }
}

// Whether two rows of one step agree in this field. Two leaders may decide one step: their commits
// agree on all that the second leader knows of the first.
template <class Row, class Field>
bool must_agree(const Field& field) {
  if constexpr (std::is_same_v<Row, CommitRecord>) {
    return field.name != "term" && field.name != "time_s" && field.name != "hash_before" &&
           field.name != "exponents_between";
  } else {
    return field.same_again;
  }
}

// Names the first field that differs and must not.
template <class Row>
std::string row_difference(const Row& a, const Row& b) {
  std::string text;
  for_each_column<Row>([&](const auto& field) {
    if (!must_agree<Row>(field) || !text.empty() || same_bits(field.of(a), field.of(b))) return;
    text = field.name + " of step " + words(a.step) + ": " + words(field.of(a)) + " and " +
           words(field.of(b));
  });
  return text;
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
    if (auto d = row_difference(rows[i - 1], rows[i]); !d.empty()) return "written twice: " + d;
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
    if (std::string d = row_difference(part[i], whole[i]); !d.empty()) return d;
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
    if (std::string d = row_difference(row, *other); !d.empty()) return d;
  }
  if (!complete || part.size() == whole.size()) return "";
  return fmt::format("{} validation rows instead of {}", part.size(), whole.size());
}

}  // namespace

std::string add_journal(RunRecord& run_record, const VirtualDisk& disk, Step resumed_from) {
  for (const VirtualDisk::Entry& entry : disk.journal) {
    const auto& row = entry.record->row;
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
  return row_difference<CommitRecord>(a, b);
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
