#pragma once
// Rows of a run's tables, for writers of files that do not care where they are.

#include <cstddef>
#include <functional>
#include <span>

#include "core/records.hpp"
#include "io/journal/merge.hpp"

namespace swarmpi {

class TableRows {
 public:
  virtual ~TableRows() = default;
  template <class Row>
  using Use = std::function<bool(std::span<const Row>)>;

  /// How many rows a table has; and all of them, in order, until `use` returns false.
  virtual std::size_t count(const StepRow*) = 0;
  virtual std::size_t count(const ValidationRow*) = 0;
  virtual std::size_t count(const PeerRow*) = 0;
  virtual std::size_t count(const EventRow*) = 0;
  virtual std::size_t count(const ThroughputRow*) = 0;
  virtual std::size_t count(const GoodputRow*) = 0;
  virtual void for_each(const Use<StepRow>& use) = 0;
  virtual void for_each(const Use<ValidationRow>& use) = 0;
  virtual void for_each(const Use<PeerRow>& use) = 0;
  virtual void for_each(const Use<EventRow>& use) = 0;
  virtual void for_each(const Use<ThroughputRow>& use) = 0;
  virtual void for_each(const Use<GoodputRow>& use) = 0;
};

/// Those of a history in memory. It must stay.
class HistoryRows final : public TableRows {
 public:
  explicit HistoryRows(const History& history) : history_(&history) {}

  std::size_t count(const StepRow*) override { return history_->steps.size(); }
  std::size_t count(const ValidationRow*) override { return history_->validation.size(); }
  std::size_t count(const PeerRow*) override { return history_->peers.size(); }
  std::size_t count(const EventRow*) override { return history_->events.size(); }
  std::size_t count(const ThroughputRow*) override { return history_->throughput.size(); }
  std::size_t count(const GoodputRow*) override { return history_->goodput.size(); }
  void for_each(const Use<StepRow>& use) override { use(history_->steps); }
  void for_each(const Use<ValidationRow>& use) override { use(history_->validation); }
  void for_each(const Use<PeerRow>& use) override { use(history_->peers); }
  void for_each(const Use<EventRow>& use) override { use(history_->events); }
  void for_each(const Use<ThroughputRow>& use) override { use(history_->throughput); }
  void for_each(const Use<GoodputRow>& use) override { use(history_->goodput); }

 private:
  const History* history_;
};

/// Those of a merged journal. It must stay as it is.
class MergedRows final : public TableRows {
 public:
  explicit MergedRows(JournalMerge& merge) : merge_(&merge) {}

  std::size_t count(const StepRow*) override { return merge_->count<StepRow>(); }
  std::size_t count(const ValidationRow*) override { return merge_->count<ValidationRow>(); }
  std::size_t count(const PeerRow*) override { return merge_->count<PeerRow>(); }
  std::size_t count(const EventRow*) override { return merge_->count<EventRow>(); }
  std::size_t count(const ThroughputRow*) override { return merge_->count<ThroughputRow>(); }
  std::size_t count(const GoodputRow*) override { return merge_->count<GoodputRow>(); }
  void for_each(const Use<StepRow>& use) override { merge_->for_each_block(0, use); }
  void for_each(const Use<ValidationRow>& use) override { merge_->for_each_block(0, use); }
  void for_each(const Use<PeerRow>& use) override { merge_->for_each_block(0, use); }
  void for_each(const Use<EventRow>& use) override { merge_->for_each_block(0, use); }
  void for_each(const Use<ThroughputRow>& use) override { merge_->for_each_block(0, use); }
  void for_each(const Use<GoodputRow>& use) override { merge_->for_each_block(0, use); }

 private:
  JournalMerge* merge_;
};

}  // namespace swarmpi
