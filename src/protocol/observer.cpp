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

}  // namespace swarmpi
