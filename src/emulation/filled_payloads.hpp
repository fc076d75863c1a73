#pragma once
// Peers that compute nothing, on a network that is there: where the deck emulates no links nothing
// else would take time for a payload, so it travels, as many zeros as it has bytes. A decorator of
// any transport; who receives it gets the size alone.

#include <memory>
#include <optional>

#include "config/config.hpp"
#include "protocol/messages/message.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

/// Whether payloads have no content, and no emulated link charges for their size.
bool fills_payloads(const Config& config);

class FilledPayloads final : public Transport {
 public:
  /// `below` carries all messages and outlives this.
  explicit FilledPayloads(Transport& below) : below_(below) {}

  void send(PeerId to, Message message) override;
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override {
    below_.wait(wake_descriptor, timeout_s);
  }
  void kill(PeerId peer) override { below_.kill(peer); }
  void spawn() override { below_.spawn(); }
  bool ended() const override { return below_.ended(); }
  void drop_kill_order() override { below_.drop_kill_order(); }
  double carried_s() const override { return below_.carried_s(); }
  bool flush(double timeout_s) override { return below_.flush(timeout_s); }

 private:
  /// Memory that all payloads share: it is only read.
  std::shared_ptr<std::byte> zeros(std::size_t size_bytes);

  Transport& below_;
  std::shared_ptr<std::byte> zeros_;
  std::size_t zeros_bytes_ = 0;
};

}  // namespace swarmpi
