#pragma once
// How what crosses a boundary between stages is coded: which codecs there are, what their bytes
// mean. codec_element.hpp holds the rule of one element. All backends write and read the same bits.

#include <cstddef>
#include <cstdint>

namespace swarmpi::kernels {

enum class Codec : std::uint8_t {
  fp16,       ///< IEEE half of x * scale, to nearest even; what is too large becomes infinite
  bf16,       ///< to nearest even; denormals stay, unlike in the factors of products
  uniform8,   ///< blocks: 255 equal steps between plus and minus the largest magnitude
  blockwise8  ///< blocks: the dynamic code, finer towards zero (Dettmers et al., 2022)
};

struct Coding {
  Codec codec = Codec::bf16;
  float fp16_scale = 1;  ///< a power of two from 2^-126 to 2^126; only fp16 looks at it
};

/// Elements of a block: counted through a matrix row after row, whatever its shape and stride. The
/// last block may be shorter.
inline constexpr std::int64_t kCodedBlock = 4096;

constexpr bool is_blockwise(Codec codec) {
  return codec == Codec::uniform8 || codec == Codec::blockwise8;
}
constexpr std::int64_t coded_blocks(std::int64_t count) {
  return (count + kCodedBlock - 1) / kCodedBlock;
}
/// Where the first element's code is. Before it come the blocks' largest magnitudes.
constexpr std::size_t coded_start(Codec codec, std::int64_t count) {
  return is_blockwise(codec) ? static_cast<std::size_t>(coded_blocks(count)) * sizeof(float) : 0;
}
/// Bytes of a coded array of `count` elements, little-endian, at any alignment:
///   fp16, bf16             2 bytes an element;
///   uniform8, blockwise8   an fp32 a block, its largest magnitude (a NaN: the block held an
///                          infinity or a NaN; 0: nothing in it reached 2^-100); then, from
///                          coded_start() on, 1 byte an element.
constexpr std::size_t coded_bytes(Codec codec, std::int64_t count) {
  return coded_start(codec, count) +
         static_cast<std::size_t>(count) * (is_blockwise(codec) ? 1 : 2);
}

}  // namespace swarmpi::kernels
