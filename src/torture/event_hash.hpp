#pragma once
// One number for all that happened in a run. Two builds have the same number if their protocols do
// the same.

#include <cstdint>

#include "protocol/observer.hpp"

namespace swarmpi {

/// Hashes every event and every action with its time, its peer and all of its fields, payloads
/// included. Texts for people are left out: they may be reworded without a change of what the
/// protocol does.
class EventHash final : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace swarmpi
