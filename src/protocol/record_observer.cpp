#include "protocol/record_observer.hpp"

namespace swarmpi {

void RecordObserver::asked(double, PeerId peer, const Action& action) {
  if (const auto* record = get_if<StoreRecord>(&action)) unconfirmed_[peer].push_back(*record);
}

void RecordObserver::happened(double now_s, PeerId peer, const Event& event) {
  if (holds_alternative<TermOver>(event)) unconfirmed_.erase(peer);
  const auto* durable = get_if<RecordDurable>(&event);
  if (durable == nullptr) return;
  std::deque<StoreRecord>& waiting = unconfirmed_[peer];
  while (!waiting.empty() && waiting.front().number <= durable->number) {
    stored(now_s, waiting.front());
    waiting.pop_front();
  }
}

}  // namespace swarmpi
