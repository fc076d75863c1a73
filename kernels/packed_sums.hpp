#pragma once
// The integer sums of a gradient on the wire: exact, in the bits that are in use. Values go in
// blocks of at most kSumBlock, each with a width of its own: as many bits as its largest value
// needs with its sign.
//
// A message: one byte of width a block, the blocks' bits (8 values of b bits are b bytes; the last
// 8 are filled up with zeros), and kPackedSlack zero bytes, so that whole words can be read and
// written.

#include <cstddef>
#include <cstdint>
#include <span>

namespace swarmpi::kernels {

inline constexpr std::size_t kPackedSlack = 8;

/// Bits of two's complement that hold every one of these values: 0 where all are zero, at most 64.
std::uint8_t bits_in_use(const std::int64_t* values, std::int64_t count);

/// Bytes of `count` values of so many bits, without what a message has beside them.
constexpr std::size_t packed_block_bytes(std::int64_t count, std::uint8_t width) {
  return static_cast<std::size_t>((count + 7) / 8) * width;
}
/// Bytes that a message has beside its blocks' bits.
constexpr std::size_t packed_frame_bytes(std::int64_t blocks) {
  return static_cast<std::size_t>(blocks) + kPackedSlack;
}

/// Writes a message, block after block.
class SumsPacker {
 public:
  /// `widths`: bits_in_use() of each block. `bytes`: what the frame and all blocks take together.
  SumsPacker(std::span<std::byte> bytes, std::span<const std::uint8_t> widths);
  void add(const std::int64_t* values, std::int64_t count);
  /// To be called after the last block.
  void finish();

 private:
  std::span<std::byte> bytes_;
  std::size_t blocks_;
  std::size_t block_ = 0;
  std::size_t used_;
};

/// Reads a message, block after block, whose counts the reader knows. A message that does not hold
/// what it should ends the process: it is not what its sender wrote.
class SumsUnpacker {
 public:
  SumsUnpacker(std::span<const std::byte> bytes, std::int64_t blocks);
  /// sums (count) = addends (count) + the next block; both may be the same.
  void add(std::int64_t* sums, const std::int64_t* addends, std::int64_t count);
  /// To be called after the last block.
  void finish() const;

 private:
  std::span<const std::byte> bytes_;
  std::size_t blocks_;
  std::size_t block_ = 0;
  std::size_t used_;
};

}  // namespace swarmpi::kernels
