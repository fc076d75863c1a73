#include "transport/wire/frame.hpp"

#include <algorithm>
#include <limits>

#include "core/archive.hpp"
#include "core/check.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kPrefixBytes = 4 + 4 + 4 + 4 + 8;
constexpr std::int64_t kPayloadLimitBytes = std::int64_t{1} << 40;
constexpr std::uint32_t kHeaderLimitBytes = 1U << 30;
// In a prefix the size of a hollow payload is this less its bytes.
constexpr std::int64_t kHollow = -2;

}  // namespace

Frame::Frame(const Packed& message, std::size_t fragment_bytes, Address address)
    : fragment_bytes_(static_cast<std::uint32_t>(fragment_bytes)),
      header_bytes_(static_cast<std::uint32_t>(message.header.size())),
      address_(address) {
  SWARMPI_CHECK(fragment_bytes > 0 && fragment_bytes <= std::numeric_limits<int>::max(),
                "mpi fragments have 1 byte at least, and no more than an int can count");
  SWARMPI_CHECK(message.header.size() <= kHeaderLimitBytes, "a header of more than a GiB");
  if (message.payload) payload_bytes_ = static_cast<std::int64_t>(message.payload->size_bytes());
  SWARMPI_CHECK(payload_bytes_ <= kPayloadLimitBytes, "a payload of more than a TiB");
  hollow_ = message.payload && message.payload->data() == nullptr;
}

std::optional<Frame> Frame::read(std::span<const std::byte> first_piece) {
  Frame frame;
  ArchiveReader reader(first_piece);
  reader.number(frame.fragment_bytes_);
  reader.number(frame.header_bytes_);
  reader.number(frame.address_.from.value);
  reader.number(frame.address_.to.value);
  reader.number(frame.payload_bytes_);
  frame.hollow_ = frame.payload_bytes_ <= kHollow;
  if (frame.hollow_) frame.payload_bytes_ = kHollow - frame.payload_bytes_;
  const bool good = reader.good() && frame.fragment_bytes_ > 0 &&
                    frame.fragment_bytes_ <= std::numeric_limits<int>::max() &&
                    frame.header_bytes_ <= kHeaderLimitBytes && frame.payload_bytes_ >= -1 &&
                    frame.payload_bytes_ <= kPayloadLimitBytes &&
                    first_piece.size() == frame.piece(0).size_bytes;
  if (!good) return std::nullopt;
  return frame;
}

std::vector<std::byte> Frame::head(const Packed& message) const {
  ArchiveWriter writer;
  writer.number(fragment_bytes_);
  writer.number(header_bytes_);
  writer.number(address_.from.value);
  writer.number(address_.to.value);
  writer.number(hollow_ ? kHollow - payload_bytes_ : payload_bytes_);
  std::vector<std::byte> head = writer.take_bytes();
  head.reserve(head_bytes());
  head.insert(head.end(), message.header.begin(), message.header.end());
  if (in_line()) {
    head.insert(head.end(), message.payload->data(), message.payload->data() + payload_bytes());
  }
  return head;
}

std::span<const std::byte> Frame::header(std::span<const std::byte> head) const {
  return head.subspan(kPrefixBytes, header_bytes_);
}

std::span<const std::byte> Frame::in_line_payload(std::span<const std::byte> head) const {
  return head.subspan(kPrefixBytes + header_bytes_, payload_bytes());
}

bool Frame::in_line() const {
  return has_payload() && !hollow_ &&
         kPrefixBytes + header_bytes_ + payload_bytes() <= kFirstPieceBytes;
}

std::size_t Frame::head_bytes() const {
  return kPrefixBytes + header_bytes_ + (in_line() ? payload_bytes() : 0);
}

std::size_t Frame::total_bytes() const {
  return head_bytes() + (has_payload() && !in_line() && !hollow_ ? payload_bytes() : 0);
}

std::size_t Frame::modelled_bytes() const {
  return total_bytes() + (hollow_ ? payload_bytes() : 0);
}

Piece Frame::piece(std::size_t at) const {
  if (at == 0) return {false, 0, std::min(head_bytes(), kFirstPieceBytes)};
  const bool of_payload = at >= head_bytes();
  const std::size_t end = of_payload ? total_bytes() : head_bytes();
  const std::size_t size_bytes = std::min<std::size_t>(fragment_bytes_, end - at);
  return {of_payload, of_payload ? at - head_bytes() : at, size_bytes};
}

}  // namespace swarmpi
