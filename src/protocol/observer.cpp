#include "protocol/observer.hpp"

namespace swarmpi {

void Observers::happened(double now_s, PeerId peer, const Event& event) {
  for (Observer* observer : all_) observer->happened(now_s, peer, event);
}

void Observers::asked(double now_s, PeerId peer, const Action& action) {
  for (Observer* observer : all_) observer->asked(now_s, peer, action);
}

void Observers::handled(double now_s, PeerId peer) {
  for (Observer* observer : all_) observer->handled(now_s, peer);
}

void Observers::died(double now_s, PeerId peer) {
  for (Observer* observer : all_) observer->died(now_s, peer);
}

void RecordObserver::asked(double, PeerId peer, const Action& action) {
  if (const auto* record = std::get_if<StoreRecord>(&action)) unconfirmed_[peer].push_back(*record);
}

void RecordObserver::happened(double now_s, PeerId peer, const Event& event) {
  if (std::holds_alternative<TermOver>(event)) unconfirmed_.erase(peer);
  const auto* durable = std::get_if<RecordDurable>(&event);
  if (durable == nullptr) return;
  std::deque<StoreRecord>& waiting = unconfirmed_[peer];
  while (!waiting.empty() && waiting.front().number <= durable->number) {
    stored(now_s, waiting.front());
    waiting.pop_front();
  }
}

}  // namespace swarmpi
