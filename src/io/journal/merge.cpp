#include "io/journal/merge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <vector>

#include "io/row_fields.hpp"

namespace swarmpi {

JournalMerge::JournalMerge(const std::string& scratch_path)
    : scratch_(scratch_path),
      tables_(BlockedRows<KeptRow<StepRow>>(scratch_),
              BlockedRows<KeptRow<ValidationRow>>(scratch_),
              BlockedRows<KeptRow<PeerRow>>(scratch_), BlockedRows<KeptRow<EventRow>>(scratch_),
              BlockedRows<KeptRow<ThroughputRow>>(scratch_),
              BlockedRows<KeptRow<GoodputRow>>(scratch_)) {}

Status JournalMerge::status() const {
  return scratch_.failed() ? Status::stopped("rows that were merged cannot be read back")
                           : Status();
}

template <class Row>
Status JournalMerge::keep(const Row& row, const char* what) {
  const KeptRow<Row>* const before = table<Row>().find(key_of(row));
  if (before == nullptr) {
    table<Row>().insert({row, begin_.term});
    return {};
  }
  Status status;
  for_each_column<Row>([&](const auto& column) {
    if (!column.same_again || !begin_.must_agree || !status.ok()) return;
    if (same_bits(column.of(row), column.of(before->row))) return;
    status = Status::failed(
        fmt::format("the journal contradicts itself: {} {} has {} {} in term {}, but {} in term {}",
                    what, row.step, column.name, in_full(column.of(before->row)), before->term,
                    in_full(column.of(row)), begin_.term));
  });
  if (status.ok()) table<Row>().replace({row, begin_.term});
  return status;
}

// Rows that the checkpoint carries may have been read from an earlier term.
template <class Row>
void JournalMerge::append(const Row& row) {
  const auto same = [&](const KeptRow<Row>& before) {
    return before.term != begin_.term && payload_of(Record(before.row)) == payload_of(Record(row));
  };
  if (begin_.carries_history && table<Row>().any_with(row.time_s, same)) return;
  table<Row>().insert({row, begin_.term});
}

void JournalMerge::drop_after(std::int64_t step) {
  const auto any = [](const auto&) { return true; };
  table<StepRow>().erase_after(step, any);
  table<ValidationRow>().erase_after(step, any);
  table<PeerRow>().erase_after(step, any);
  table<EventRow>().erase_after(step, any);
}

// Steps after the checkpoint are made again: their speed and their commits count once, in the term
// that goes on.
void JournalMerge::drop_undone(std::int64_t step) {
  const KeptRow<StepRow>* const last = table<StepRow>().find(step);
  table<ThroughputRow>().erase_above(last != nullptr ? last->row.time_s : 0,
                                     [](const auto&) { return true; });
  table<EventRow>().erase_after(step, [](const KeptRow<EventRow>& kept) {
    return kept.row.kind == EventKind::commit || kept.row.kind == EventKind::checkpoint;
  });
}

// What was spent on them was spent: it stays, but nothing has come of it.
void JournalMerge::undo_after(std::int64_t step) {
  std::vector<KeptRow<GoodputRow>> undone;
  table<GoodputRow>().for_each_block(table<GoodputRow>().count_before_step_after(step),
                                     [&](std::span<const KeptRow<GoodputRow>> rows) {
                                       for (const KeptRow<GoodputRow>& kept : rows) {
                                         if (kept.row.useful_s == 0) continue;
                                         undone.push_back(kept);
                                         undone.back().row.undo();
                                       }
                                       return true;
                                     });
  for (const KeptRow<GoodputRow>& row : undone) table<GoodputRow>().replace(row);
}

template <class Row>
void JournalMerge::put(const Row& row) {
  const KeptRow<Row> kept{row, begin_.term};
  if (table<Row>().find(key_of(row)) != nullptr) {
    table<Row>().replace(kept);
  } else {
    table<Row>().insert(kept);
  }
}

// A run validates its last weights, whatever their step. Where it is resumed with more steps, only
// those validations that the longer run made again are part of it.
void JournalMerge::settle() {
  if (begin_.from_step < 0 || reached_ < begin_.from_step + begin_.delay) return;
  table<ValidationRow>().erase_after(
      begin_.from_step - begin_.delay, [&](const KeptRow<ValidationRow>& kept) {
        return kept.term != begin_.term && kept.row.step <= reached_ - begin_.delay;
      });
}

void JournalMerge::begin(const JournalBegin& begin) {
  settle();
  if (begins_again(begin, begin_.first_term)) {
    std::apply([](auto&... tables) { (tables.clear(), ...); }, tables_);
  }
  begin_ = begin;
  reached_ = begin.from_step;
  if (!begin.must_agree) drop_after(begin.from_step);
  drop_undone(begin.from_step);
  undo_after(begin.from_step);
}

Status JournalMerge::add(const Record& record) {
  if (const auto* step = std::get_if<StepRow>(&record)) {
    reached_ = std::max(reached_, step->step);
    return keep(*step, "step");
  }
  if (const auto* validation = std::get_if<ValidationRow>(&record)) {
    return keep(*validation, "the validation after step");
  }
  if (const auto* peer = std::get_if<PeerRow>(&record)) put(*peer);
  if (const auto* goodput = std::get_if<GoodputRow>(&record)) put(*goodput);
  if (const auto* event = std::get_if<EventRow>(&record)) {
    append(*event);
    const bool is_news = !begin_.carries_history || event->step >= begin_.from_step;
    if (event->kind == EventKind::incarnation && is_news) undo_after(event->step);
  }
  if (const auto* rate = std::get_if<ThroughputRow>(&record)) append(*rate);
  return {};
}

History JournalMerge::history() {
  settle();
  History history;
  for_each_table(history, [&]<class Row>(const char*, std::vector<Row>& rows) {
    for_each_block<Row>(0, [&rows](std::span<const Row> block) {
      rows.insert(rows.end(), block.begin(), block.end());
      return true;
    });
  });
  return history;
}

std::string missing_steps(JournalMerge& rows, std::int64_t last) {
  std::string missing;
  std::int64_t next = 0;  // the first step that was not seen
  const auto lacks_until = [&](std::int64_t end) {
    if (next >= end) return;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", next);
    if (next < end - 1) missing += fmt::format(" to {}", end - 1);
  };
  rows.for_each_block<StepRow>(0, [&](std::span<const StepRow> block) {
    for (const StepRow& row : block) {
      if (row.step > last) return false;
      lacks_until(row.step);
      next = row.step + 1;
    }
    return true;
  });
  lacks_until(last + 1);
  return missing;
}

}  // namespace swarmpi
