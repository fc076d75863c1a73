#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/codec_element.hpp"
#include "kernels/cuda/codecs.hpp"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kThreads = 256;
/// Neighbours that one thread codes together: 16 bytes of fp32.
constexpr int kGroup = 4;
/// Groups of one thread: with these, a block of threads holds one coded block.
constexpr int kGroups = 4;
constexpr std::int64_t kTile = kThreads * kGroups * kGroup;
static_assert(kTile == kCodedBlock);
/// Thread blocks that go on from one coded block to the next: eight for each of an H100's
/// multiprocessors. More would only fetch the tables more often.
constexpr std::int64_t kMostBlocks = 8 * 132;

/// A matrix as the kernels see it: its elements counted row after row.
template <class T>
struct Elements {
  T* data;
  std::int64_t count, columns, stride;
  bool has_wide_groups;  ///< a group that is whole lies where 16 bytes can be loaded
};

/// blockwise8 without a search, as in the native backend: no interval of fp32 with the same upper
/// 16 bits holds more than one midpoint, so an entry for each of them is enough: the code at its
/// lower end, shifted up, plus what the lower bits of y, counted from that end, need to reach the
/// next code by a carry. Below the least midpoint and above the largest all intervals of a sign
/// have the same code; only those between, and one on either side, have entries.
struct Blockwise8Table {
  static constexpr std::uint32_t kLeast =
      (std::bit_cast<std::uint32_t>(kBlockwise8Midpoints[kBlockwise8Zero]) >> 16) - 1;
  static constexpr std::uint32_t kLargest = 0x3f80;  // of 1
  static constexpr std::uint32_t kIntervals = kLargest - kLeast + 1;

  std::uint32_t entries[2 * kIntervals];  // the upper half: of the negative
};

/// The lower half of y's bits, as they grow with y.
constexpr std::uint32_t growing_bits(std::uint32_t bits) {
  return (bits ^ ((bits >> 31) != 0 ? 0xffffu : 0u)) & 0xffffu;
}

constexpr std::uint32_t blockwise8_entry(std::uint32_t upper) {
  const std::uint32_t lowest = upper << 16 | ((upper & 0x8000u) != 0 ? 0xffffu : 0u);
  const std::uint32_t code = blockwise8_code(std::bit_cast<float>(lowest));
  if (code == kBlockwise8Midpoints.size()) return code << 16;
  const auto midpoint = std::bit_cast<std::uint32_t>(kBlockwise8Midpoints[code]);
  return midpoint >> 16 == upper ? (code << 16) + 0xffffu - growing_bits(midpoint) : code << 16;
}

constexpr Blockwise8Table blockwise8_table() {
  Blockwise8Table table{};
  for (std::uint32_t i = 0; i < Blockwise8Table::kIntervals; ++i) {
    table.entries[i] = blockwise8_entry(Blockwise8Table::kLeast + i);
    table.entries[Blockwise8Table::kIntervals + i] =
        blockwise8_entry(0x8000u + Blockwise8Table::kLeast + i);
  }
  return table;
}

//--------------------------------------------------------------------------------------------------
// Kernels

__device__ constexpr Blockwise8Table kTable = blockwise8_table();
__device__ constexpr std::array<float, 256> kValues = kBlockwise8Values;

using Group = std::array<float, kGroup>;

template <class T>
__device__ std::int64_t place_of(const Elements<T>& x, std::int64_t i) {
  if (x.stride == x.columns) return i;
  // Division of 64 bits takes many instructions.
  const std::int64_t row =
      x.count <= UINT32_MAX ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(x.columns)
                            : i / x.columns;
  return row * x.stride + (i - row * x.columns);
}

/// Elements first .. first + 3; zeros behind the end.
__device__ Group load_group(const Elements<const float>& x, std::int64_t first) {
  if (x.has_wide_groups && first + kGroup <= x.count) {
    return std::bit_cast<Group>(*reinterpret_cast<const float4*>(x.data + place_of(x, first)));
  }
  Group group;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    group[k] = first + k < x.count ? x.data[place_of(x, first + k)] : 0.0f;
  }
  return group;
}

__device__ void store_group(const Elements<float>& x, std::int64_t first, const Group& group) {
  if (x.has_wide_groups && first + kGroup <= x.count) {
    *reinterpret_cast<float4*>(x.data + place_of(x, first)) = std::bit_cast<float4>(group);
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (first + k < x.count) x.data[place_of(x, first + k)] = group[k];
  }
}

/// The codes of a group, of 1 or 2 bytes each. A word of four lies aligned: `codes` are so, as
/// coded_start() is a multiple of 4.
template <class Code>
struct alignas(kGroup * sizeof(Code)) Codes {
  Code at[kGroup];
};

template <class Code>
__device__ void store_codes(Code* codes, std::int64_t first, std::int64_t count,
                            const Codes<Code>& group) {
  if (first + kGroup <= count) {
    *reinterpret_cast<Codes<Code>*>(codes + first) = group;
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (first + k < count) codes[first + k] = group.at[k];
  }
}

/// Zeros behind the end.
template <class Code>
__device__ Codes<Code> load_codes(const Code* codes, std::int64_t first, std::int64_t count) {
  if (first + kGroup <= count) return *reinterpret_cast<const Codes<Code>*>(codes + first);
  Codes<Code> group;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) group.at[k] = first + k < count ? codes[first + k] : Code{0};
  return group;
}

/// Where group `g` of this thread begins in the tile that begins at `tile`.
__device__ std::int64_t group_start(std::int64_t tile, int g) {
  return tile + kGroup * (g * kThreads + static_cast<int>(threadIdx.x));
}

// Codes of 16 bits.

struct Fp16 {
  float factor;

  __device__ std::uint16_t code(float x) const { return half_from_float(x * factor); }
  /// A product with a NaN is the NaN, as processors have it; this device would make another one.
  __device__ float value(std::uint16_t code) const {
    const float unscaled = float_from_half(code);
    const auto quiet = std::bit_cast<float>(std::bit_cast<std::uint32_t>(unscaled) | 0x400000u);
    return unscaled == unscaled ? unscaled * factor : quiet;
  }
};

struct Bf16 {
  __device__ std::uint16_t code(float x) const { return coded_bf16(x); }
  __device__ float value(std::uint16_t code) const { return float_from_bf16(code); }
};

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    encode_words(std::uint16_t* codes, Elements<const float> x, Rule rule) {
  const std::int64_t tile = blockIdx.x * kTile;
  Group groups[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) groups[g] = load_group(x, group_start(tile, g));
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    Codes<std::uint16_t> coded;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) coded.at[k] = rule.code(groups[g][k]);
    store_codes(codes, group_start(tile, g), x.count, coded);
  }
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    decode_words(Elements<float> x, const std::uint16_t* codes, Rule rule) {
  const std::int64_t tile = blockIdx.x * kTile;
  Codes<std::uint16_t> coded[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) coded[g] = load_codes(codes, group_start(tile, g), x.count);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    Group group;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) group[k] = rule.value(coded[g].at[k]);
    store_group(x, group_start(tile, g), group);
  }
}

// Codes of 8 bits, in blocks. A rule may have a table, which a block of threads fetches once.

template <class T>
__device__ void fetch(T* to, const T* from, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = from[i];
  __syncthreads();
}

struct Uniform8 {
  struct Encoder {
    __device__ void prepare() {}
    __device__ static float rate(float absmax) { return uniform8_rate(absmax); }
    __device__ std::uint8_t code(float y) const {
      return static_cast<std::uint8_t>(uniform8_code(y));
    }
  };
  struct Decoder {
    __device__ void prepare() {}
    __device__ static float step(float absmax) { return uniform8_step(absmax); }
    __device__ float value(std::uint8_t code) const {
      return static_cast<float>(static_cast<std::int8_t>(code));
    }
  };
};

struct Blockwise8 {
  struct Encoder {
    Blockwise8Table table;

    __device__ void prepare() {
      fetch(table.entries, kTable.entries, 2 * Blockwise8Table::kIntervals);
    }
    __device__ static float rate(float absmax) { return blockwise8_rate(absmax); }
    __device__ std::uint8_t code(float y) const {
      const auto bits = std::bit_cast<std::uint32_t>(y);
      const std::uint32_t interval = min(max(bits >> 16 & 0x7fffu, Blockwise8Table::kLeast + 0),
                                         Blockwise8Table::kLargest + 0) -
                                     Blockwise8Table::kLeast;
      const std::uint32_t entry =
          table.entries[(bits >> 31) * Blockwise8Table::kIntervals + interval];
      return static_cast<std::uint8_t>((entry + growing_bits(bits)) >> 16);
    }
  };
  struct Decoder {
    float values[256];

    __device__ void prepare() { fetch(values, kValues.data(), 256); }
    __device__ static float step(float absmax) { return absmax; }
    __device__ float value(std::uint8_t code) const { return values[code]; }
  };
};

/// The largest of all threads of a block, to all of them.
__device__ std::uint32_t largest_of_block(std::uint32_t largest) {
  __shared__ std::uint32_t of_block;
  __syncthreads();  // an earlier call's may still be read
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % warpSize == 0) atomicMax(&of_block, largest);
  __syncthreads();
  return of_block;
}

/// What is stored of the block whose groups the threads hold.
__device__ float absmax_of(const Group (&groups)[kGroups]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (const Group& group : groups) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) largest = max(largest, magnitude_bits(group[k]));
  }
  return coded_absmax(largest_of_block(largest));
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    encode_blocks(float* magnitudes, std::uint8_t* codes, Elements<const float> x) {
  __shared__ typename Rule::Encoder encoder;
  encoder.prepare();
  for (std::int64_t tile = blockIdx.x * kTile; tile < x.count; tile += gridDim.x * kTile) {
    Group groups[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) groups[g] = load_group(x, group_start(tile, g));
    const float absmax = absmax_of(groups);
    if (threadIdx.x == 0) magnitudes[tile / kTile] = absmax;
    const bool has_codes = absmax > 0;
    const float rate = has_codes ? Rule::Encoder::rate(absmax) : 0.0f;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      Codes<std::uint8_t> coded;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        coded.at[k] = encoder.code(has_codes ? groups[g][k] * rate : 0.0f);
      }
      store_codes(codes, group_start(tile, g), x.count, coded);
    }
  }
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    decode_blocks(Elements<float> x, const float* magnitudes, const std::uint8_t* codes) {
  __shared__ typename Rule::Decoder decoder;
  decoder.prepare();
  for (std::int64_t tile = blockIdx.x * kTile; tile < x.count; tile += gridDim.x * kTile) {
    Codes<std::uint8_t> coded[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) coded[g] = load_codes(codes, group_start(tile, g), x.count);
    const float absmax = magnitudes[tile / kTile];
    const bool is_nan = decodes_to_nan(absmax);
    const float step = Rule::Decoder::step(absmax);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      Group group;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        group[k] = is_nan ? kCanonicalNan : decoder.value(coded[g].at[k]) * step;
      }
      store_group(x, group_start(tile, g), group);
    }
  }
}

//--------------------------------------------------------------------------------------------------
// Launchers

template <class T>
Elements<T> elements_of(const MatrixView<T>& m) {
  const bool is_dense = m.rows == 1 || m.stride == m.columns;
  const bool has_wide_rows = is_dense || (m.columns % kGroup == 0 && m.stride % kGroup == 0);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(m.data) % sizeof(float4) == 0;
  return {m.data, m.rows * m.columns, m.columns, is_dense ? m.columns : m.stride,
          has_wide_rows && is_aligned};
}

template <class T>
unsigned tiles_of(const Elements<T>& x) {
  return static_cast<unsigned>((x.count + kTile - 1) / kTile);
}
template <class T>
unsigned blocks_of(const Elements<T>& x) {
  return static_cast<unsigned>(std::min<std::int64_t>(tiles_of(x), kMostBlocks));
}

template <class To, class From>
To* as(From* p) {
  return reinterpret_cast<To*>(p);
}

}  // namespace

void encode(std::byte* coded, ConstMatrix x, const Coding& coding, cudaStream_t stream) {
  const Elements<const float> from = elements_of(x);
  if (from.count == 0) return;
  std::byte* const codes = coded + coded_start(coding.codec, from.count);
  const unsigned tiles = tiles_of(from);
  const unsigned blocks = blocks_of(from);
  switch (coding.codec) {
    case Codec::fp16:
      encode_words<<<tiles, kThreads, 0, stream>>>(as<std::uint16_t>(codes), from,
                                                   Fp16{coding.fp16_scale});
      break;
    case Codec::bf16:
      encode_words<<<tiles, kThreads, 0, stream>>>(as<std::uint16_t>(codes), from, Bf16{});
      break;
    case Codec::uniform8:
      encode_blocks<Uniform8>
          <<<blocks, kThreads, 0, stream>>>(as<float>(coded), as<std::uint8_t>(codes), from);
      break;
    case Codec::blockwise8:
      encode_blocks<Blockwise8>
          <<<blocks, kThreads, 0, stream>>>(as<float>(coded), as<std::uint8_t>(codes), from);
      break;
  }
}

void decode(Matrix x, const std::byte* coded, const Coding& coding, cudaStream_t stream) {
  const Elements<float> to = elements_of(x);
  if (to.count == 0) return;
  const std::byte* const codes = coded + coded_start(coding.codec, to.count);
  const unsigned tiles = tiles_of(to);
  const unsigned blocks = blocks_of(to);
  switch (coding.codec) {
    case Codec::fp16:
      decode_words<<<tiles, kThreads, 0, stream>>>(to, as<const std::uint16_t>(codes),
                                                   Fp16{1 / coding.fp16_scale});
      break;
    case Codec::bf16:
      decode_words<<<tiles, kThreads, 0, stream>>>(to, as<const std::uint16_t>(codes), Bf16{});
      break;
    case Codec::uniform8:
      decode_blocks<Uniform8><<<blocks, kThreads, 0, stream>>>(to, as<const float>(coded),
                                                               as<const std::uint8_t>(codes));
      break;
    case Codec::blockwise8:
      decode_blocks<Blockwise8><<<blocks, kThreads, 0, stream>>>(to, as<const float>(coded),
                                                                 as<const std::uint8_t>(codes));
      break;
  }
}

}  // namespace swarmpi::kernels::cuda
