#pragma once
// Watches the records of a run.

#include <deque>
#include <map>

#include "protocol/messages/record_port.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

/// Is told of the records that peers store.
class RecordObserver : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) final;
  void asked(double now_s, PeerId peer, const Action& action) final;
  /// The record is durable. Those of a peer come in the order in which it stored them.
  virtual void stored(double now_s, const StoreRecord& record) = 0;

 private:
  std::map<PeerId, std::deque<StoreRecord>> unconfirmed_;
};

}  // namespace swarmpi
