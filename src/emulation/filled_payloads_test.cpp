#include "emulation/filled_payloads.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "transport/loopback.hpp"

namespace swarmpi::filled_payloads_test {
namespace {

constexpr PeerId kSelf{1};

Message message_with(PayloadRef payload) {
  ForwardMessage forward;
  forward.activations = std::move(payload);
  return {{}, {}, std::move(forward)};
}

// What comes from below, as it was sent there.
PayloadRef received(Transport& transport) {
  const std::optional<Event> event = transport.receive();
  return payload_in(get<MessageArrived>(event.value()).message);
}

TEST(FilledPayloads, AHollowPayloadTravelsAsZerosAndArrivesHollow) {
  LoopbackTransport below(kSelf);
  FilledPayloads filled(below);
  for (const std::size_t size : {100, 10, 1000}) {
    filled.send(kSelf, message_with(Payload::hollow(size)));
    const PayloadRef carried = received(below);
    ASSERT_NE(carried->data(), nullptr);
    EXPECT_EQ(std::count(carried->data(), carried->data() + size, std::byte{}),
              static_cast<std::ptrdiff_t>(size));
    filled.send(kSelf, message_with(Payload::hollow(size)));
    const PayloadRef arrived = received(filled);
    EXPECT_EQ(arrived->data(), nullptr);
    EXPECT_EQ(arrived->size_bytes(), size);
  }
}

TEST(FilledPayloads, WithoutAPayloadThereIsNothingToFill) {
  LoopbackTransport below(kSelf);
  FilledPayloads filled(below);
  filled.send(kSelf, message_with(nullptr));
  EXPECT_EQ(received(filled), nullptr);
}

TEST(FilledPayloads, OnlyPeersThatComputeNothingOnRealLinksHaveThem) {
  Config config;
  EXPECT_FALSE(fills_payloads(config));
  config.compute.kernels = Kernels::none;
  EXPECT_TRUE(fills_payloads(config));
  config.compute.fidelity = Fidelity::emulated;
  EXPECT_TRUE(fills_payloads(config));
  config.links = {{"slow", 0.1, 0, 0, 0}};
  config.peer_classes = {{{}, "", PeerKernels::as_all, "slow"}};
  EXPECT_FALSE(fills_payloads(config));
}

}  // namespace
}  // namespace swarmpi::filled_payloads_test
