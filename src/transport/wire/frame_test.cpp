#include "transport/wire/frame.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "protocol/messages/message.hpp"

namespace swarmpi::frame_test {
namespace {

constexpr std::size_t kFragmentBytes = 5000;

Packed message_of(std::size_t header_bytes, std::int64_t payload_bytes) {
  Packed message;
  for (std::size_t i = 0; i < header_bytes; ++i) message.header.push_back(std::byte(i * 3));
  if (payload_bytes < 0) return message;
  auto payload = std::make_shared<Payload>(static_cast<std::size_t>(payload_bytes));
  for (std::size_t i = 0; i < payload->size_bytes(); ++i) payload->data()[i] = std::byte(i * 5 + 1);
  message.payload = payload;
  return message;
}

// Sends a message piece by piece as the two ends of the transport do; says how many it took.
int carry(const Packed& message) {
  const Frame sender(message, kFragmentBytes, {PeerId(3), PeerId(70000)});
  const std::vector<std::byte> head = sender.head(message);
  const std::size_t first_bytes = sender.piece(0).size_bytes;
  const std::optional<Frame> receiver = Frame::read({head.data(), first_bytes});
  EXPECT_TRUE(receiver);
  if (!receiver) return 0;
  EXPECT_EQ(receiver->address().from, PeerId(3));
  EXPECT_EQ(receiver->address().to, PeerId(70000));
  EXPECT_EQ(receiver->has_payload(), message.payload != nullptr);
  std::vector<std::byte> head_there(receiver->head_bytes());
  std::vector<std::byte> payload_there(receiver->has_payload() ? receiver->payload_bytes() : 0);
  int pieces = 0;
  for (std::size_t at = 0; at < sender.total_bytes(); ++pieces) {
    const Piece out = sender.piece(at);
    const Piece in = receiver->piece(at);
    EXPECT_EQ(out.size_bytes, in.size_bytes);
    EXPECT_GT(out.size_bytes, 0U);
    EXPECT_LE(out.size_bytes, at == 0 ? kFirstPieceBytes : kFragmentBytes);
    const std::byte* from = out.of_payload ? message.payload->data() : head.data();
    std::byte* to = in.of_payload ? payload_there.data() : head_there.data();
    std::memcpy(to + in.offset, from + out.offset, out.size_bytes);
    at += out.size_bytes;
  }
  const auto header = receiver->header(head_there);
  EXPECT_TRUE(
      std::equal(header.begin(), header.end(), message.header.begin(), message.header.end()));
  if (receiver->in_line()) {
    const auto in_line = receiver->in_line_payload(head_there);
    payload_there.assign(in_line.begin(), in_line.end());
  }
  if (message.payload) {
    EXPECT_EQ(payload_there.size(), message.payload->size_bytes());
    EXPECT_TRUE(std::equal(payload_there.begin(), payload_there.end(), message.payload->data()));
  }
  return pieces;
}

TEST(Frame, SmallMessagesAreOnePiece) {
  EXPECT_EQ(carry(message_of(1, -1)), 1);
  EXPECT_EQ(carry(message_of(100, 0)), 1);
  EXPECT_EQ(carry(message_of(100, 3800)), 1);
}

TEST(Frame, LargeOnesAreCutIntoFragments) {
  EXPECT_EQ(carry(message_of(100, 3900)), 2);
  EXPECT_EQ(carry(message_of(100, 3 * kFragmentBytes)), 4);
  EXPECT_EQ(carry(message_of(100, 3 * kFragmentBytes + 1)), 5);
  EXPECT_EQ(carry(message_of(4000 - 24 + kFragmentBytes, -1)), 2);
  EXPECT_EQ(carry(message_of(4000 - 24 + kFragmentBytes + 1, 0)), 3);
}

TEST(Frame, AnySizesArrive) {
  for (const std::size_t header : {1, 3975, 3976, 3977, 8976, 8977, 20000}) {
    for (const int payload : {-1, 0, 1, 3976, 4000, 4999, 5000, 5001, 123456}) {
      SCOPED_TRACE(testing::Message() << header << " " << payload);
      carry(message_of(header, payload));
    }
  }
}

TEST(Frame, OfAHollowPayloadOnlyTheSizeTravels) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{3} << 30}) {
    Packed message = message_of(100, -1);
    message.payload = Payload::hollow(size);
    const Frame sender(message, kFragmentBytes, {PeerId(3), PeerId(4)});
    const std::vector<std::byte> head = sender.head(message);
    EXPECT_EQ(sender.total_bytes(), head.size());
    EXPECT_EQ(sender.piece(0).size_bytes, head.size()) << "one piece";
    EXPECT_EQ(sender.modelled_bytes(), head.size() + size);
    const std::optional<Frame> receiver = Frame::read(head);
    ASSERT_TRUE(receiver);
    EXPECT_TRUE(receiver->is_hollow());
    EXPECT_EQ(receiver->payload_bytes(), size);
    EXPECT_EQ(receiver->total_bytes(), head.size());
  }
  const Packed real = message_of(100, 9000);
  const Frame frame(real, kFragmentBytes);
  EXPECT_FALSE(frame.is_hollow());
  EXPECT_EQ(frame.modelled_bytes(), frame.total_bytes());
}

TEST(Frame, NonsenseIsNotTakenForAFrame) {
  const Packed message = message_of(100, 9000);
  const std::vector<std::byte> head = Frame(message, kFragmentBytes).head(message);
  ASSERT_TRUE(Frame::read(head));
  EXPECT_FALSE(Frame::read({}));
  EXPECT_FALSE(Frame::read({head.data(), 23}));
  EXPECT_FALSE(Frame::read({head.data(), head.size() - 1}));
  for (const std::size_t at : {0, 4, 23}) {  // no fragments, a longer header, a negative payload
    std::vector<std::byte> damaged = head;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(at), at == 23 ? 1 : 4,
                at == 0 ? std::byte{0} : std::byte{0xff});
    EXPECT_FALSE(Frame::read(damaged)) << at;
  }
}

}  // namespace
}  // namespace swarmpi::frame_test
