#include "kernels/packed_sums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/check.hpp"

namespace swarmpi::kernels {
namespace {

static_assert(std::endian::native == std::endian::little,
              "messages hold the words of little-endian machines");

constexpr std::int64_t kGroup = 8;  // values that fill whole bytes, whatever their width
constexpr int kWordBits = 64;
constexpr std::size_t kWidths = kWordBits + 1;

std::uint64_t load(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

void store(std::byte* to, std::uint64_t word) { std::memcpy(to, &word, sizeof word); }

// Both loops are unrolled for one width, so that every shift is a constant. `kWidth` bytes a group
// are written as whole words: what is too much is zero, and the next group's place.
template <int kWidth, std::size_t... kIndex>
void pack_groups(std::byte* to, const std::int64_t* values, std::int64_t groups,
                 std::index_sequence<kIndex...>) {
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> (kWordBits - kWidth);
  for (std::int64_t g = 0; g < groups; ++g, to += kWidth, values += kGroup) {
    std::uint64_t word = 0;
    std::byte* place = to;
    const auto append = [&]<int kFirstBit>(std::uint64_t value) {
      constexpr int kShift = kFirstBit % kWordBits;
      word |= value << kShift;
      if constexpr (kShift + kWidth >= kWordBits) {
        store(place, word);
        place += sizeof word;
        word = 0;
        if constexpr (kShift > 0 && kShift + kWidth > kWordBits)
          word = value >> (kWordBits - kShift);
      }
    };
    (append.template operator()<static_cast<int>(kIndex) * kWidth>(
         static_cast<std::uint64_t>(values[kIndex]) & kMask),
     ...);
    if constexpr (kWidth % 8 != 0) store(place, word);
  }
}

template <int kWidth, std::size_t... kIndex>
void unpack_groups(std::int64_t* sums, const std::int64_t* addends, const std::byte* from,
                   std::int64_t groups, std::index_sequence<kIndex...>) {
  for (std::int64_t g = 0; g < groups; ++g, from += kWidth, sums += kGroup, addends += kGroup) {
    const auto extract = [&]<int kFirstBit>() {
      constexpr int kShift = kFirstBit % 8;
      // The value's bits, moved to the top of the word; the way down repeats the sign.
      std::uint64_t top = 0;
      if constexpr (kShift + kWidth <= kWordBits) {
        top = load(from + kFirstBit / 8) << (kWordBits - kWidth - kShift);
      } else {
        const auto last = static_cast<std::uint64_t>(from[kFirstBit / 8 + 8]);
        top = (load(from + kFirstBit / 8) >> kShift | last << (kWordBits - kShift))
              << (kWordBits - kWidth);
      }
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(top) >> (kWordBits - kWidth));
    };
    ((sums[kIndex] = static_cast<std::int64_t>(
          static_cast<std::uint64_t>(addends[kIndex]) +
          extract.template operator()<static_cast<int>(kIndex) * kWidth>())),
     ...);
  }
}

using Pack = void (*)(std::byte*, const std::int64_t*, std::int64_t groups);
using Unpack = void (*)(std::int64_t* sums, const std::int64_t* addends, const std::byte*,
                        std::int64_t groups);

template <int kWidth>
void pack(std::byte* to, const std::int64_t* values, std::int64_t groups) {
  if constexpr (kWidth > 0) {
    pack_groups<kWidth>(to, values, groups, std::make_index_sequence<kGroup>());
  }
}
template <int kWidth>
void unpack(std::int64_t* sums, const std::int64_t* addends, const std::byte* from,
            std::int64_t groups) {
  if constexpr (kWidth > 0) {
    unpack_groups<kWidth>(sums, addends, from, groups, std::make_index_sequence<kGroup>());
  } else if (sums != addends) {
    std::copy_n(addends, groups * kGroup, sums);
  }
}

template <std::size_t... kWidth>
constexpr std::array<Pack, kWidths> packs(std::index_sequence<kWidth...>) {
  return {pack<static_cast<int>(kWidth)>...};
}
template <std::size_t... kWidth>
constexpr std::array<Unpack, kWidths> unpacks(std::index_sequence<kWidth...>) {
  return {unpack<static_cast<int>(kWidth)>...};
}
constexpr std::array<Pack, kWidths> kPack = packs(std::make_index_sequence<kWidths>());
constexpr std::array<Unpack, kWidths> kUnpack = unpacks(std::make_index_sequence<kWidths>());

}  // namespace

std::uint8_t bits_in_use(const std::int64_t* values, std::int64_t count) {
  // Where a value's neighbouring bits differ, it is not yet down to copies of its sign; the zero
  // that is shifted in marks the sign's own bit.
  const auto edges = [&](std::int64_t i) {
    const auto value = static_cast<std::uint64_t>(values[i]);
    return value ^ (value << 1);
  };
  constexpr std::int64_t kLanes = 8;
  std::uint64_t lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] |= edges(i + lane);
  }
  std::uint64_t all = 0;
  for (; i < count; ++i) all |= edges(i);
  for (const std::uint64_t lane : lanes) all |= lane;
  return static_cast<std::uint8_t>(std::bit_width(all));
}

SumsPacker::SumsPacker(std::span<std::byte> bytes, std::span<const std::uint8_t> widths)
    : bytes_(bytes), blocks_(widths.size()), used_(widths.size()) {
  SWARMPI_CHECK(bytes.size() >= blocks_ + kPackedSlack, "room for the frame");
  std::memcpy(bytes_.data(), widths.data(), widths.size());
}

void SumsPacker::add(const std::int64_t* values, std::int64_t count) {
  SWARMPI_CHECK(block_ < blocks_, "no more blocks than widths");
  const auto width = static_cast<std::uint8_t>(bytes_[block_++]);
  SWARMPI_CHECK(
      width < kWidths && used_ + packed_block_bytes(count, width) + kPackedSlack <= bytes_.size(),
      "the block has its place");
  std::byte* const to = bytes_.data() + used_;
  const std::int64_t groups = count / kGroup;
  kPack[width](to, values, groups);
  if (const std::int64_t rest = count % kGroup; rest > 0) {
    std::int64_t last[kGroup] = {};
    std::copy_n(values + groups * kGroup, rest, last);
    kPack[width](to + groups * width, last, 1);
  }
  used_ += packed_block_bytes(count, width);
}

void SumsPacker::finish() {
  SWARMPI_CHECK(block_ == blocks_ && used_ + kPackedSlack == bytes_.size(),
                "the message is as long as it was measured");
  std::memset(bytes_.data() + used_, 0, kPackedSlack);
}

SumsUnpacker::SumsUnpacker(std::span<const std::byte> bytes, std::int64_t blocks)
    : bytes_(bytes),
      blocks_(static_cast<std::size_t>(blocks)),
      used_(static_cast<std::size_t>(blocks)) {
  SWARMPI_CHECK(bytes.size() >= packed_frame_bytes(blocks), "packed sums hold all their widths");
}

void SumsUnpacker::add(std::int64_t* sums, const std::int64_t* addends, std::int64_t count) {
  SWARMPI_CHECK(block_ < blocks_, "no more blocks than widths");
  const auto width = static_cast<std::uint8_t>(bytes_[block_++]);
  SWARMPI_CHECK(
      width < kWidths && used_ + packed_block_bytes(count, width) + kPackedSlack <= bytes_.size(),
      "packed sums hold all their blocks");
  const std::byte* const from = bytes_.data() + used_;
  const std::int64_t groups = count / kGroup;
  kUnpack[width](sums, addends, from, groups);
  if (const std::int64_t rest = count % kGroup; rest > 0) {
    std::int64_t last[kGroup] = {};
    std::copy_n(addends + groups * kGroup, rest, last);
    kUnpack[width](last, last, from + groups * width, 1);
    std::copy_n(last, rest, sums + groups * kGroup);
  }
  used_ += packed_block_bytes(count, width);
}

void SumsUnpacker::finish() const {
  SWARMPI_CHECK(block_ == blocks_ && used_ + kPackedSlack == bytes_.size(),
                "packed sums hold nothing but their blocks");
}

}  // namespace swarmpi::kernels
