#include "protocol/replica/microbatch_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/messages/message.hpp"
#include "protocol/messages/table_rows.hpp"

namespace swarmpi {

Phase Work::phase() const {
  if (backward_due) return Phase::to_backward;
  if (forward_due) return Phase::to_forward;
  return awaits_gradient ? Phase::passed_on : Phase::over;
}

Work* MicrobatchTable::find(const WorkId& id) {
  awaited_.reset();
  const auto found = works_.find(id);
  return found == works_.end() ? nullptr : &found->second;
}

const Work* MicrobatchTable::find(const WorkId& id) const {
  const auto found = works_.find(id);
  return found == works_.end() ? nullptr : &found->second;
}

Work& MicrobatchTable::enter(const WorkId& id) {
  awaited_.reset();
  return works_[id];
}

const FlatSet<PeerId>& MicrobatchTable::awaited() const {
  if (awaited_) return *awaited_;
  std::vector<PeerId> peers;
  for (const auto& [id, work] : works_) {
    // Of a validation microbatch, or one that is only sent again, this peer awaits no gradient: the
    // leader awaits what comes of it.
    const bool passed_on = id.microbatch.purpose == Purpose::validate || work.arrival.path;
    if (work.sent_to && (work.awaits_gradient || passed_on)) peers.push_back(*work.sent_to);
  }
  awaited_.emplace().insert(peers.begin(), peers.end());
  return *awaited_;
}

// ---- Passes

void MicrobatchTable::forward_due(const WorkId& id, Work& work) {
  work.forward_due = true;
  if (forwards_due_.insert(id).second) ++due_[id.stage];
}

void MicrobatchTable::backward_due(const WorkId& id, Work& work,
                                   const PayloadRef& output_gradient) {
  awaited_.reset();
  work.awaits_gradient = false;
  work.backward_due = true;
  if (backwards_due_.emplace(id, output_gradient).second) ++due_[id.stage];
}

// Both containers are ordered by step first.
std::optional<WorkId> MicrobatchTable::take_forward(
    const std::function<bool(const WorkId&)>& may_run) {
  const auto found = std::find_if(forwards_due_.begin(), forwards_due_.end(), may_run);
  if (found == forwards_due_.end()) return std::nullopt;
  --due_[found->stage];
  return forwards_due_.extract(found).value();
}

std::optional<std::pair<WorkId, PayloadRef>> MicrobatchTable::take_backward(
    const std::function<bool(const WorkId&)>& may_run) {
  const auto found = std::find_if(backwards_due_.begin(), backwards_due_.end(),
                                  [&](const auto& due) { return may_run(due.first); });
  if (found == backwards_due_.end()) return std::nullopt;
  --due_[found->first.stage];
  std::pair<WorkId, PayloadRef> taken(*found);
  backwards_due_.erase(found);
  return taken;
}

PayloadRef MicrobatchTable::read_next() const {
  const bool backward = !backwards_due_.empty();
  if (!backward && forwards_due_.empty()) return nullptr;
  if (backward && backwards_due_.begin()->second) return backwards_due_.begin()->second;
  const Work* const work = find(backward ? backwards_due_.begin()->first : *forwards_due_.begin());
  return work == nullptr ? nullptr : work->arrival.input;
}

std::int64_t MicrobatchTable::passes_due(StageId stage) const {
  const auto found = due_.find(stage);
  return found == due_.end() ? 0 : found->second;
}

// ---- What is kept

bool MicrobatchTable::keep(Work& work, const PayloadRef& payload) {
  const std::int64_t bytes = size_of(payload);
  if (!payload || kept_bytes_ + bytes > memory_bytes_) return false;
  kept_bytes_ += bytes;
  work.kept_bytes += bytes;
  return true;
}

// Only what can be made again by a repair: nothing that is to be sent, or was under way once more.
void MicrobatchTable::set_memory(std::int64_t bytes) {
  memory_bytes_ = bytes;
  std::vector<WorkId> dropped;
  for (auto it = works_.rbegin(); it != works_.rend() && kept_bytes_ > memory_bytes_; ++it) {
    auto& [id, work] = *it;
    const std::int64_t output_bytes = size_of(work.output);
    const std::int64_t all_bytes = output_bytes + size_of(work.input_gradient);
    const bool all_booked = work.kept_bytes == all_bytes && all_bytes > 0;
    if (!all_booked || work.arrival.path || work.forward_due) continue;
    work.output.reset();
    work.input_gradient.reset();
    kept_bytes_ -= std::exchange(work.kept_bytes, 0);
    dropped.push_back(id);
  }
  for (const WorkId& id : dropped) drop_if_done(id);
}

void MicrobatchTable::drop_if_done(const WorkId& id) {
  const auto entry = works_.find(id);
  Work& work = entry->second;
  if (work.active()) return;
  work.arrival.input.reset();
  // Of a repaired microbatch the receiver is remembered, because it may be sent again.
  const bool training = id.microbatch.purpose == Purpose::train;
  const bool repaired = work.arrival.path != nullptr;
  if (training && !repaired && !work.output && !work.input_gradient) works_.erase(entry);
  awaited_.reset();
}

void MicrobatchTable::forget(Step committed) {
  const WorkId next{{committed.next(), Purpose::train, 0}, StageId(0)};
  const auto end = works_.lower_bound(next);
  for (auto it = works_.begin(); it != end; ++it) kept_bytes_ -= it->second.kept_bytes;
  works_.erase(works_.begin(), end);
  awaited_.reset();
  const auto forwards_end = forwards_due_.lower_bound(next);
  for (auto it = forwards_due_.begin(); it != forwards_end; ++it) --due_[it->stage];
  forwards_due_.erase(forwards_due_.begin(), forwards_end);
  const auto backwards_end = backwards_due_.lower_bound(next);
  for (auto it = backwards_due_.begin(); it != backwards_end; ++it) --due_[it->first.stage];
  backwards_due_.erase(backwards_due_.begin(), backwards_end);
}

void MicrobatchTable::drop_stage(StageId stage) {
  for (auto work = works_.begin(); work != works_.end();) {
    if (work->first.stage != stage) {
      ++work;
      continue;
    }
    kept_bytes_ -= work->second.kept_bytes;
    forwards_due_.erase(work->first);
    backwards_due_.erase(work->first);
    work = works_.erase(work);
  }
  due_.erase(stage);
  awaited_.reset();
}

// ---- For messages and tests

std::string MicrobatchTable::text() const {
  return fmt::format("{} known here; due: {} forward passes, {} backward passes", works_.size(),
                     forwards_due_.size(), backwards_due_.size());
}

std::string MicrobatchTable::left_over(Step committed) const {
  std::int64_t kept_bytes = 0;
  for (const auto& [id, work] : works_) {
    kept_bytes += work.kept_bytes;
    const bool training = id.microbatch.purpose == Purpose::train;
    if (training && id.microbatch.step <= committed) return "a microbatch of a committed step";
  }
  return kept_bytes == kept_bytes_ ? "" : "kept bytes that belong to no microbatch";
}

}  // namespace swarmpi
