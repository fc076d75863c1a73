#include "protocol/step/run_ending.hpp"

#include <fmt/core.h>

#include "protocol/messages/record_port.hpp"

namespace swarmpi {

RunEnding::State RunEnding::state(double now_s) const {
  if (!announced()) return state_;
  const bool gives_up = gives_up_s_ && now_s >= *gives_up_s_;
  return unacknowledged_.empty() || gives_up ? State::over : State::announced;
}

std::optional<StoreEnd> RunEnding::decide(const Status& how) {
  if (decided()) return std::nullopt;
  state_ = State::decided;
  how_ = how;
  return StoreEnd{how.code(), how.message()};
}

void RunEnding::storage_failed(const Status& why) {
  if (announced()) return;
  if (!decided() || how_.ok()) how_ = why;
  state_ = State::decided;
}

std::vector<PeerId> RunEnding::announce(const View& view, PeerId self, double now_s,
                                        double stop_patience_s) {
  std::vector<PeerId> others;
  if (announced()) return others;
  state_ = State::announced;
  if (!waits_for_ever_) gives_up_s_ = now_s + kPatienceAtTheEndS;
  if (stop_requested_ && !gives_up_s_) gives_up_s_ = now_s + stop_patience_s;
  for (const auto& [peer, stages] : view.members()) {
    if (peer == self) continue;
    if (!unreachable_.contains(peer)) unacknowledged_.insert(peer);
    others.push_back(peer);
  }
  return others;
}

void RunEnding::unreachable(PeerId peer) {
  unreachable_.insert(peer);
  unacknowledged_.erase(peer);
}

std::string RunEnding::waiting_for() const {
  if (!announced()) return "storage: the mark of the run's end";
  std::string text = "acknowledgements of the run's end, from peers";
  for (const PeerId peer : unacknowledged_) text += fmt::format(" {}", peer.value);
  return text;
}

}  // namespace swarmpi
