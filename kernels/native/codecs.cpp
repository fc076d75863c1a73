#include "kernels/native/codecs.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/prefetch.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/codec_element.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

namespace {

/// Elements that a loop below is given at a time, of which it may keep what is between. By
/// measurement: of 64 to 512 the fastest.
constexpr std::int64_t kChunk = 192;
/// What one worker does at a time: whole blocks.
constexpr std::int64_t kElementsAtOnce = 16 * kCodedBlock;

/// Word i of those that begin at `words`, at any alignment.
template <class Word>
inline void store_word(std::byte* words, std::int64_t i, Word word) {
  std::memcpy(words + i * static_cast<std::int64_t>(sizeof word), &word, sizeof word);
}
template <class Word>
inline Word load_word(const std::byte* words, std::int64_t i) {
  Word word;
  std::memcpy(&word, words + i * static_cast<std::int64_t>(sizeof word), sizeof word);
  return word;
}

/// The same number, of which the compiler knows nothing: it makes no vector of several, and so no
/// gather of what they are places of. Loads one by one are up to twice as fast.
inline std::uint32_t single(std::uint32_t place) {
  asm("" : "+r"(place));  // NOLINT(hicpp-no-assembler): no instruction
  return place;
}

// blockwise8 without a search. No interval of fp32 with the same upper 16 bits holds more than one
// midpoint. So an entry for each of them is enough: the code at its lower end, shifted up, plus
// what the lower bits of y, counted from that end, need to reach the next code by a carry.

/// The lower half of y's bits, as they grow with y.
constexpr std::uint32_t growing_bits(float y) {
  const auto bits = std::bit_cast<std::uint32_t>(y);
  return (bits ^ static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31)) & 0xffffu;
}

/// From the lowest interval to the highest, and with them the midpoints.
constexpr auto kBlockwise8Table = [] {
  constexpr std::uint32_t kIntervals = 0x10000;
  struct {
    std::uint32_t entries[kIntervals];
  } table{};
  std::uint32_t at = 0;
  for (std::uint32_t code = 0; code < kBlockwise8Values.size(); ++code) {
    const bool is_last = code == kBlockwise8Midpoints.size();
    const float midpoint = is_last ? 0 : kBlockwise8Midpoints[code];
    const std::uint32_t upper = std::bit_cast<std::uint32_t>(midpoint) >> 16;
    const std::uint32_t end =
        is_last ? kIntervals : (upper < 0x8000u ? 0x8000u + upper : 0xffffu - upper);
    if (end < at) throw "an interval with two midpoints";  // does not compile
    for (; at < end; ++at) table.entries[at < 0x8000u ? 0xffffu - at : at - 0x8000u] = code << 16;
    if (is_last) break;
    table.entries[upper] = (code << 16) + 0xffffu - growing_bits(midpoint);
    ++at;
  }
  return table;
}();

// The loops over at most kChunk elements. `factor` is what all are multiplied by.

void encode_fp16(std::byte* __restrict to, const float* __restrict x, std::int64_t count,
                 float factor) {
  for (std::int64_t i = 0; i < count; ++i) store_word(to, i, half_from_float(x[i] * factor));
}
void decode_fp16(float* __restrict x, const std::byte* __restrict from, std::int64_t count,
                 float factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = float_from_half(load_word<std::uint16_t>(from, i)) * factor;
  }
}

void encode_bf16(std::byte* __restrict to, const float* __restrict x, std::int64_t count,
                 float /*factor*/) {
  for (std::int64_t i = 0; i < count; ++i) store_word(to, i, coded_bf16(x[i]));
}
void decode_bf16(float* __restrict x, const std::byte* __restrict from, std::int64_t count,
                 float /*factor*/) {
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = float_from_bf16(load_word<std::uint16_t>(from, i));
  }
}

void encode_uniform8(std::byte* __restrict to, const float* __restrict x, std::int64_t count,
                     float factor) {
  for (std::int64_t i = 0; i < count; ++i) store_word(to, i, uniform8_code(x[i] * factor));
}
void decode_uniform8(float* __restrict x, const std::byte* __restrict from, std::int64_t count,
                     float factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(load_word<std::int8_t>(from, i)) * factor;
  }
}

void encode_blockwise8(std::byte* __restrict to, const float* __restrict x, std::int64_t count,
                       float factor) {
  alignas(64) float y[kChunk];
  alignas(64) std::uint32_t entries[kChunk];
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < count; ++i) {
    entries[i] = kBlockwise8Table.entries[single(std::bit_cast<std::uint32_t>(y[i]) >> 16)];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store_word(to, i, static_cast<std::uint8_t>((entries[i] + growing_bits(y[i])) >> 16));
  }
}
void decode_blockwise8(float* __restrict x, const std::byte* __restrict from, std::int64_t count,
                       float factor) {
  alignas(64) float values[kChunk];
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = kBlockwise8Values[single(load_word<std::uint8_t>(from, i))];
  }
  for (std::int64_t i = 0; i < count; ++i) x[i] = values[i] * factor;
}

using EncodeLoop = void (*)(std::byte*, const float*, std::int64_t, float);
using DecodeLoop = void (*)(float*, const std::byte*, std::int64_t, float);

struct Loops {
  EncodeLoop encode;
  DecodeLoop decode;
  std::int64_t code_bytes;
};

Loops loops_of(Codec codec) {
  switch (codec) {
    case Codec::fp16:
      return {encode_fp16, decode_fp16, 2};
    case Codec::bf16:
      return {encode_bf16, decode_bf16, 2};
    case Codec::uniform8:
      return {encode_uniform8, decode_uniform8, 1};
    case Codec::blockwise8:
      break;
  }
  return {encode_blockwise8, decode_blockwise8, 1};
}

// Factors of a block with this largest magnitude, and the code of zero.
float encode_factor(Codec codec, float absmax) {
  return codec == Codec::uniform8 ? uniform8_rate(absmax) : blockwise8_rate(absmax);
}
float decode_factor(Codec codec, float absmax) {
  return codec == Codec::uniform8 ? uniform8_step(absmax) : absmax;
}
int zero_of(Codec codec) { return codec == Codec::uniform8 ? 0 : kBlockwise8Zero; }

/// Where element i is, counted row after row.
template <class T>
T* place_of(const MatrixView<T>& m, std::int64_t i) {
  return m.row(i / m.columns) + i % m.columns;
}

/// A block of a matrix: elements first .. end - 1.
template <class T>
struct Block {
  MatrixView<T> matrix;
  std::int64_t first;
  std::int64_t end;

  std::int64_t size() const { return end - first; }
  bool is_dense() const { return matrix.stride == matrix.columns || matrix.rows == 1; }
  T* data() const { return place_of(matrix, first); }

  /// Calls body(values, at) for the parts of rows that it consists of; `at` counts from `first`.
  template <class Body>
  void for_each_part(const Body& body) const {
    for (std::int64_t i = first; i < end;) {
      const std::int64_t count = std::min(end - i, matrix.columns - i % matrix.columns);
      body(place_of(matrix, i), i - first, count);
      i += count;
    }
  }

  /// Calls body(at, count) for its chunks. Meanwhile the next block comes into the second cache:
  /// the loops are too long for the processor to look that far ahead.
  template <class Body>
  void for_each_chunk(const Body& body) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const bool is_last = end == matrix.rows * matrix.columns;
    const T* const next = place_of(matrix, is_last ? first : end);
    for (std::int64_t at = 0; at < size(); at += kChunk) {
      fetch_lines<Cache::second>(next, at * kBytes, (at + kChunk) * kBytes);
      body(at, std::min(kChunk, size() - at));
    }
  }
};

/// Calls body(number, block) for all blocks.
template <class T, class Body>
void for_each_coded_block(const MatrixView<T>& x, const Body& body) {
  for_each_block(
      x.rows * x.columns, kElementsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
        for (; first < end; first += kCodedBlock) {
          body(first / kCodedBlock, Block<T>{x, first, std::min(first + kCodedBlock, end)});
        }
      });
}

/// The block's elements one after the other: where they are, or copied to `room`.
const float* gathered(const Block<const float>& block, float* room) {
  if (block.is_dense()) return block.data();
  block.for_each_part([=](const float* part, std::int64_t at, std::int64_t count) {
    std::copy_n(part, count, room + at);
  });
  return room;
}

}  // namespace

void encode(std::byte* coded, ConstMatrix x, const Coding& coding) {
  const Loops loops = loops_of(coding.codec);
  std::byte* const codes = coded + coded_start(coding.codec, x.rows * x.columns);
  for_each_coded_block(x, [&](std::int64_t number, const Block<const float>& block) {
    alignas(64) float room[kCodedBlock];
    const float* const values = gathered(block, room);
    std::byte* const to = codes + block.first * loops.code_bytes;
    float factor = coding.fp16_scale;
    if (is_blockwise(coding.codec)) {
      const float absmax = coded_absmax(largest_magnitude_of(values, block.size()));
      store_word(coded, number, absmax);
      if (!(absmax > 0)) {
        std::memset(to, zero_of(coding.codec), static_cast<std::size_t>(block.size()));
        return;
      }
      factor = encode_factor(coding.codec, absmax);
    }
    block.for_each_chunk([&](std::int64_t at, std::int64_t count) {
      loops.encode(to + at * loops.code_bytes, values + at, count, factor);
    });
  });
}

void decode(Matrix x, const std::byte* coded, const Coding& coding) {
  const Loops loops = loops_of(coding.codec);
  const std::byte* const codes = coded + coded_start(coding.codec, x.rows * x.columns);
  for_each_coded_block(x, [&](std::int64_t number, const Block<float>& block) {
    alignas(64) float room[kCodedBlock];
    float* const values = block.is_dense() ? block.data() : room;
    const std::byte* const from = codes + block.first * loops.code_bytes;
    float factor = 1 / coding.fp16_scale;
    bool is_nan = false;
    if (is_blockwise(coding.codec)) {
      const auto absmax = load_word<float>(coded, number);
      factor = decode_factor(coding.codec, absmax);
      is_nan = decodes_to_nan(absmax);
    }
    if (is_nan) {
      std::fill_n(values, block.size(), kCanonicalNan);
    } else {
      block.for_each_chunk([&](std::int64_t at, std::int64_t count) {
        loops.decode(values + at, from + at * loops.code_bytes, count, factor);
      });
    }
    if (values != room) return;
    block.for_each_part([=](float* part, std::int64_t at, std::int64_t count) {
      std::copy_n(values + at, count, part);
    });
  });
}

}  // namespace swarmpi::kernels::native
