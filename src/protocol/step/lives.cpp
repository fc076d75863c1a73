#include "protocol/step/lives.hpp"

#include <algorithm>
#include <utility>

namespace swarmpi {

void Lives::enter(const GoodputRow& row, Step committed) {
  if (row.step > committed.value) {
    kept_[PeerId(static_cast<std::int32_t>(row.peer))] = row;
  } else {
    rows_.push_back(row);
  }
}

void Lives::end(PeerId peer, double GoodputRow::*column, double now_s, Step committed,
                std::int64_t incarnation, double checkpoint_s) {
  const auto told = told_until_s_.find(peer);
  if (told == told_until_s_.end()) return;
  const double untold_s = std::max(0.0, now_s - told->second);
  told_until_s_.erase(told);
  const double written_s = std::min(untold_s, checkpoint_s);
  GoodputRow last;
  if (const auto kept = kept_.extract(peer); !kept.empty()) last = kept.mapped();
  last.step = committed.next().value;
  last.peer = peer.value;
  last.run = run_.value;
  last.incarnation = incarnation;
  last.checkpoint_s += written_s;
  last.*column += untold_s - written_s;
  rows_.push_back(last);
}

void Lives::go_back(Step step) {
  for (GoodputRow& row : rows_) {
    if (row.step > step.value) row.undo();
  }
}

std::vector<GoodputRow> Lives::take() { return std::exchange(rows_, {}); }

}  // namespace swarmpi
