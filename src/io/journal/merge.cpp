#include "io/journal/merge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "io/row_fields.hpp"

namespace swarmpi {

namespace {

template <class Row>
void sort_by_time(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.time_s < b.time_s; });
}

}  // namespace

template <class Row>
Status JournalMerge::keep(std::map<std::int64_t, Kept<Row>>& rows, const Row& row,
                          const JournalBegin& begin, const char* what) {
  const auto [found, fresh] = rows.try_emplace(row.step, Kept<Row>{row, begin.term});
  if (fresh) return {};
  Status status;
  const Kept<Row>& before = found->second;
  for_each_column<Row>([&](const auto& column) {
    if (!column.same_again || !begin.must_agree || !status.ok()) return;
    if (same_bits(column.of(row), column.of(before.row))) return;
    status = Status::failed(
        fmt::format("the journal contradicts itself: {} {} has {} {} in term {}, but {} in term {}",
                    what, row.step, column.name, in_full(column.of(before.row)), before.term,
                    in_full(column.of(row)), begin.term));
  });
  if (status.ok()) found->second = {row, begin.term};
  return status;
}

void JournalMerge::drop_after(std::int64_t step) {
  steps_.erase(steps_.upper_bound(step), steps_.end());
  validation_.erase(validation_.upper_bound(step), validation_.end());
  std::erase_if(peers_, [step](const auto& entry) { return entry.second.step > step; });
  std::erase_if(events_, [step](const EventRow& row) { return row.step > step; });
}

// Steps after the checkpoint are made again: their speed and their commits count once, in the term
// that goes on.
void JournalMerge::drop_undone(std::int64_t step) {
  const auto last = steps_.find(step);
  const double end_s = last != steps_.end() ? last->second.row.time_s : 0;
  std::erase_if(throughput_, [end_s](const ThroughputRow& row) { return row.time_s > end_s; });
  std::erase_if(events_, [step](const EventRow& row) {
    return row.step > step && (row.kind == EventKind::commit || row.kind == EventKind::checkpoint);
  });
}

// A run validates its last weights, whatever their step. Where it is resumed with more steps, only
// those validations that the longer run made again are part of it.
void JournalMerge::drop_overtaken_validation(const TermContent& term) {
  const JournalBegin& begin = term.begin;
  if (begin.from_step < 0) return;
  std::int64_t reached = begin.from_step;
  for (const Record& record : term.records) {
    if (const auto* row = std::get_if<StepRow>(&record)) reached = std::max(reached, row->step);
  }
  if (reached < begin.from_step + begin.delay) return;
  std::erase_if(validation_, [&](const auto& entry) {
    const bool remade = entry.second.term == begin.term;
    return !remade && entry.first > begin.from_step - begin.delay &&
           entry.first <= reached - begin.delay;
  });
}

Status JournalMerge::add(const TermContent& term) {
  if (!term.begin.must_agree) drop_after(term.begin.from_step);
  drop_undone(term.begin.from_step);
  std::unordered_set<std::string> known;
  if (term.begin.carries_history) {
    for (const EventRow& row : events_) known.insert(payload_of(row));
    for (const ThroughputRow& row : throughput_) known.insert(payload_of(row));
  }
  Status status;
  for (const Record& record : term.records) {
    if (const auto* step = std::get_if<StepRow>(&record)) {
      status = keep(steps_, *step, term.begin, "step");
    } else if (const auto* validation = std::get_if<ValidationRow>(&record)) {
      status = keep(validation_, *validation, term.begin, "the validation after step");
    } else if (const auto* peer = std::get_if<PeerRow>(&record)) {
      peers_.insert_or_assign({peer->step, peer->peer, peer->stage}, *peer);
    } else if (known.empty() || !known.contains(payload_of(record))) {
      if (const auto* event = std::get_if<EventRow>(&record)) events_.push_back(*event);
      if (const auto* rate = std::get_if<ThroughputRow>(&record)) throughput_.push_back(*rate);
    }
    if (!status.ok()) break;
  }
  drop_overtaken_validation(term);
  return status;
}

History JournalMerge::history() const {
  History history;
  for (const auto& [step, kept] : steps_) history.steps.push_back(kept.row);
  for (const auto& [step, kept] : validation_) history.validation.push_back(kept.row);
  for (const auto& [key, row] : peers_) history.peers.push_back(row);
  history.events = events_;
  history.throughput = throughput_;
  sort_by_time(history.events);
  sort_by_time(history.throughput);
  return history;
}

}  // namespace swarmpi
