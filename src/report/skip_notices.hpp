#pragma once
// Of steps that change no weights, because gradients were infinite or NaN: a training that diverges
// has many, and one line with advice says more than a line for each.

#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "core/records.hpp"

namespace swarmpi {

class SkipNotices {
 public:
  explicit SkipNotices(const TrainConfig& train) : train_(train) {}

  /// The event of a step that was skipped as a person is to read it: the first with advice, the
  /// tenth, the hundredth and so on with their number. Nothing: enough was said.
  std::optional<EventRow> told(const EventRow& row);

 private:
  const TrainConfig& train_;
  std::int64_t skipped_ = 0;
  std::int64_t told_next_ = 1;
};

}  // namespace swarmpi
