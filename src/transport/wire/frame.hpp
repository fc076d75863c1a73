#pragma once
// How a message is cut into pieces, each of which is one message of MPI: sender and receiver
// compute the same cuts. First the head: prefix, header, and the payload if it is small; a head
// that is too long for the first piece goes on in more. Then the payload, straight from and to its
// memory; of a hollow one only its size travels.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "protocol/messages/message.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {

/// The largest first piece: below the eager limit of MPI over shared memory (4096 bytes, less its
/// own headers).
inline constexpr std::size_t kFirstPieceBytes = 4000;

/// Peers by id, not ranks: several may live at a rank, one after another.
struct Address {
  PeerId from;
  PeerId to;
};

struct Piece {
  bool of_payload = false;  ///< else of the head
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
};

class Frame {
 public:
  Frame() = default;
  /// REQUIRES: fragment_bytes > 0.
  Frame(const Packed& message, std::size_t fragment_bytes, Address address = {});
  /// From the first piece; nothing if that is malformed.
  static std::optional<Frame> read(std::span<const std::byte> first_piece);

  /// Prefix, header, and the payload if it is in line.
  std::vector<std::byte> head(const Packed& message) const;
  /// Where the header lies in a head.
  std::span<const std::byte> header(std::span<const std::byte> head) const;
  /// Where the payload lies in a head. REQUIRES: in_line().
  std::span<const std::byte> in_line_payload(std::span<const std::byte> head) const;

  const Address& address() const { return address_; }
  std::size_t fragment_bytes() const { return fragment_bytes_; }
  bool has_payload() const { return payload_bytes_ >= 0; }
  std::size_t payload_bytes() const { return static_cast<std::size_t>(payload_bytes_); }
  /// Of the payload there is nothing but its size.
  bool is_hollow() const { return hollow_; }
  bool in_line() const;
  std::size_t head_bytes() const;
  /// Of all pieces.
  std::size_t total_bytes() const;
  /// The same as if a hollow payload were none.
  std::size_t modelled_bytes() const;
  /// The piece that begins `at` bytes after the first. REQUIRES: at < total_bytes().
  Piece piece(std::size_t at) const;

 private:
  std::uint32_t fragment_bytes_ = 1;
  std::uint32_t header_bytes_ = 0;
  Address address_;
  std::int64_t payload_bytes_ = -1;  // -1: no payload
  bool hollow_ = false;
};

}  // namespace swarmpi
