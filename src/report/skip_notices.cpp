#include "report/skip_notices.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "core/text.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kToldEvery = 10;  // times as many as when it was told last

// The event names them after a colon, with a blank before each: a model may have thousands.
std::int64_t tensors_of(const std::string& detail) {
  const std::size_t colon = std::min(detail.find(':'), detail.size());
  return std::count(detail.begin() + static_cast<std::ptrdiff_t>(colon), detail.end(), ' ');
}

std::string advice(const TrainConfig& train) {
  const std::string clip =
      train.clip > 0 ? fmt::format("lower train.clip ({:g})", train.clip) : "set train.clip = 1";
  return fmt::format("lower train.lr ({:g}), raise train.warmup_steps ({}) or {}", train.lr,
                     train.warmup_steps, clip);
}

}  // namespace

std::optional<EventRow> SkipNotices::told(const EventRow& row) {
  if (++skipped_ < told_next_) return std::nullopt;
  EventRow told = row;
  const std::string why = fmt::format("infinite, NaN or overflowing gradients of {}",
                                      counted(tensors_of(row.detail), "tensor"));
  if (skipped_ == 1) {
    told.detail =
        fmt::format("{}: the step changes no weights. If more follow, {}", why, advice(train_));
  } else {
    told.detail =
        fmt::format("{} steps skipped by now, this one for {}; {}", skipped_, why, advice(train_));
  }
  told_next_ = kToldEvery * skipped_;
  return told;
}

}  // namespace swarmpi
