#include "kernels/native/amx/product.hpp"

#include <algorithm>
#include <cstring>

#include "core/check.hpp"
#include "core/prefetch.hpp"
#include "kernels/native/amx/tile.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/tile.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

namespace {

using Bf16 = std::uint16_t;

static_assert(kAmxBlock == kBlockSide);
constexpr std::int64_t kTileRows = kBlockSide / 2;

/// Blocks of the inner dimension.
std::int64_t steps_of(std::int64_t inner) { return blocks_of(inner, kBlockSide); }
std::int64_t panel_elements(std::int64_t inner) { return steps_of(inner) * kBlockElements; }

/// Panels that are multiplied by all rows before the next ones come: they stay in the second cache,
/// of which they take half, beside the sums of a block.
constexpr std::int64_t kCacheElements = std::int64_t{1} << 19;
constexpr std::int64_t kMostPanels = 32;
std::int64_t panels_at_once(std::int64_t inner) {
  return std::clamp<std::int64_t>(kCacheElements / panel_elements(inner), 1, kMostPanels);
}
/// Floats from row to row of a block: rows a multiple of 4 KiB apart compete for the same lines.
constexpr std::int64_t sums_stride(std::int64_t panels) { return panels * kAmxBlock + 16; }

/// `count` <= 32 elements, and zeros. Copies of unknown size are calls of the C library.
VectorBits line_of(const Bf16* from, std::int64_t count) {
  VectorBits line = {};
  if (count == kLineElements) {
    std::memcpy(&line, from, sizeof line);
    return line;
  }
  std::memcpy(&line, from, static_cast<std::size_t>(count) * sizeof(Bf16));
  return line;
}

/// The tiles of a left block from its transpose (inner, rows), rows <= 32, filled up with zeros.
void transpose_into_tiles(Bf16* to, const Bf16* from, std::int64_t stride, std::int64_t rows,
                          std::int64_t inner) {
  for (std::int64_t first = 0; first < inner; first += kBlockSide, to += kBlockElements) {
    // Of rows: words of two elements of the inner dimension.
    VectorBits even[kVectorLanes], odd[kVectorLanes];
    const std::int64_t count = std::min(kBlockSide, inner - first);
    if (count < kBlockSide) {
      std::fill_n(even, kVectorLanes, VectorBits{});
      std::fill_n(odd, kVectorLanes, VectorBits{});
    }
    for (std::int64_t k = 0; k < count; k += 2) {
      const Bf16* const row = from + (first + k) * stride;
      const VectorBits a = line_of(row, rows);
      const VectorBits b = k + 1 < count ? line_of(row + stride, rows) : VectorBits{};
      even[k / 2] = (a & 0xffffu) | b << 16;
      odd[k / 2] = a >> 16 | (b & 0xffff0000u);
    }
    // Rows 2 i and 2 i + 1 of the result, of which the second tile lies behind the first.
    transpose_words(to, 2 * kTileLineBytes, even, kTileLineBytes);
    transpose_words(to + kBlockSide, 2 * kTileLineBytes, odd, kTileLineBytes);
  }
}

/// A worker's share of a product: some panels, and one block of rows after the other.
class PanelsOfProduct {
 public:
  PanelsOfProduct(const AmxProduct& product, const AmxReads& reads, std::int64_t first_panel,
                  std::int64_t panels, float* sums, Bf16* room, int worker)
      : product_(product),
        reads_(reads),
        steps_(steps_of(product.inner)),
        first_panel_(first_panel),
        panels_(panels),
        left_room_(room),
        right_room_(room + panel_elements(product.inner)),
        sums_(sums),
        worker_(worker) {
    right_ = product.b.panel_columns == 0
                 ? pack_right()
                 : static_cast<const Bf16*>(product.b.data) + first_panel * panel_step();
  }

  void multiply(FinishAmxBlock finish, const void* context) {
    const TilesInUse tiles;
    const std::int64_t first_column = first_panel_ * kAmxBlock;
    const std::int64_t columns = std::min(panels_ * kAmxBlock, product_.columns - first_column);
    for (std::int64_t row = 0; row < product_.rows; row += kAmxBlock) {
      const std::int64_t rows = std::min(kAmxBlock, product_.rows - row);
      row_ = row;
      multiply_rows(row, rows);
      finish(context, {row, first_column, {sums_, rows, columns, sums_stride(panels_)}, worker_});
    }
    fence_streams();
  }

 private:
  const Bf16* left() const { return static_cast<const Bf16*>(product_.a.data); }
  std::int64_t panel_step() const {
    return panel_elements(product_.b.panel_columns == 0 ? product_.inner : product_.whole_inner);
  }

  void multiply_rows(std::int64_t row, std::int64_t rows) {
    const bool in_place = !product_.a.is_transposed && rows == kAmxBlock;
    const std::int64_t whole = in_place ? product_.inner / kBlockSide : 0;  // steps
    const TilePairs there{left() + row * product_.a.stride, product_.a.stride,
                          kTileRows * product_.a.stride, kBlockSide};
    const TilePairs copied = tiles_of(left_room_);
    if (whole < steps_) copy_left(row, rows, whole);
    for (std::int64_t step = 0; step < whole; step += steps_at_once()) {
      multiply_panels(there.from(step), step, std::min(step + steps_at_once(), whole));
    }
    for (std::int64_t step = whole; step < steps_; step += steps_at_once()) {
      multiply_panels(copied.from(step - whole), step, std::min(step + steps_at_once(), steps_));
    }
  }

  /// So many steps of a left block stay in the first cache for all panels. With few panels, the way
  /// of the sums to the second cache and back would cost more than that saves.
  std::int64_t steps_at_once() const {
    constexpr std::int64_t kFewPanels = 8, kStepsInCache = 8;
    return panels_ < kFewPanels ? steps_ : kStepsInCache;
  }

  void multiply_panels(const TilePairs& left, std::int64_t step, std::int64_t end) {
    const Write write = step == 0 ? Write::set : Write::add;
    for (std::int64_t p = 0; p < panels_; ++p) {
      if (step == 0) fetch_reads(p);
      const TilePairs right{right_ + p * panel_step(), 2 * kAmxBlock, kBlockSide, kBlockElements};
      multiply_tile_pairs(sums_ + p * kAmxBlock, sums_stride(panels_), left, right.from(step),
                          end - step, write);
      fetch_next_left(step + (end - step) * p / panels_, step + (end - step) * (p + 1) / panels_);
    }
  }

  /// Asks memory for these steps of the next left block, while this one is multiplied, where it is
  /// transposed: a line of each row, too far apart for the processor to guess them.
  void fetch_next_left(std::int64_t step, std::int64_t end) const {
    const std::int64_t next_row = row_ + kAmxBlock;
    if (!product_.a.is_transposed || next_row >= product_.rows) return;
    const std::int64_t last = std::min(end * kBlockSide, product_.inner);
    for (std::int64_t k = step * kBlockSide; k < last; ++k) {
      fetch_line<Cache::second>(left() + k * product_.a.stride + next_row);
    }
  }

  /// Asks memory for what finishing the block reads of this panel's columns.
  void fetch_reads(std::int64_t panel) const {
    if (reads_.data == nullptr) return;
    const std::int64_t column = (first_panel_ + panel) * kAmxBlock;
    const std::int64_t end = std::min(column + kAmxBlock, product_.columns);
    for (std::int64_t row = row_; row < std::min(row_ + kAmxBlock, product_.rows); ++row) {
      fetch_lines<Cache::second>(static_cast<const char*>(reads_.data) + row * reads_.row_bytes,
                                 column * reads_.element_bytes, end * reads_.element_bytes);
    }
  }

  const Bf16* pack_right() const {
    const std::int64_t first = first_panel_ * kAmxBlock;
    const std::int64_t columns = std::min(panels_ * kAmxBlock, product_.columns - first);
    const std::int64_t words = steps_ * kTileRows;
    const RightFactor<Bf16> to{right_room_, words, kAmxBlock};
    const auto* const from = static_cast<const Bf16*>(product_.b.data);
    const std::int64_t stride = product_.b.stride;
    if (product_.b.is_transposed) {
      pack_transposed(to, from + first * stride, stride, product_.inner, columns);
    } else {
      pack(to, from + first, stride, product_.inner, columns);
    }
    const std::int64_t used = words_of<Bf16>(product_.inner);
    for (std::int64_t p = 0; p < panels_; ++p) {
      Bf16* const panel = to.panel(p);
      std::fill(panel + used * 2 * kAmxBlock, panel + words * 2 * kAmxBlock, Bf16{0});
    }
    return right_room_;
  }

  /// The block's elements from this step on, as tiles, filled up with zeros.
  void copy_left(std::int64_t row, std::int64_t rows, std::int64_t first_step) {
    const std::int64_t first = first_step * kBlockSide;
    const std::int64_t count = product_.inner - first;
    const std::int64_t stride = product_.a.stride;
    if (product_.a.is_transposed) {
      return transpose_into_tiles(left_room_, left() + row, stride, rows, count);
    }
    std::fill_n(left_room_, (steps_ - first_step) * kBlockElements, Bf16{0});
    for (std::int64_t r = 0; r < rows; ++r) {
      const Bf16* const from = left() + (row + r) * stride + first;
      for (std::int64_t k = 0; k < count; k += kBlockSide) {
        std::copy_n(from + k, std::min(kBlockSide, count - k),
                    left_room_ + k * kAmxBlock + r * kBlockSide);
      }
    }
  }

  const AmxProduct& product_;
  const AmxReads& reads_;
  std::int64_t steps_;
  std::int64_t first_panel_, panels_;
  Bf16* left_room_;
  Bf16* right_room_;
  float* sums_;
  const Bf16* right_ = nullptr;
  std::int64_t row_ = 0;  // of the block that is multiplied
  int worker_;
};

/// What each worker takes: a block of sums, and one of left rows with some panels.
struct Room {
  std::int64_t floats, elements;

  static Room of(std::int64_t panels, std::int64_t packed, std::int64_t inner) {
    return {kAmxBlock * sums_stride(panels), (1 + packed) * panel_elements(inner)};
  }
  std::int64_t bytes() const {
    return floats * static_cast<std::int64_t>(sizeof(float)) +
           elements * static_cast<std::int64_t>(sizeof(Bf16));
  }
};

}  // namespace

AmxProduct AmxProduct::part(std::int64_t first, std::int64_t count) const {
  const auto from = [](const Factor& factor, std::int64_t elements) {
    Factor part = factor;
    part.data = static_cast<const Bf16*>(factor.data) + elements;
    return part;
  };
  const std::int64_t a_step = a.is_transposed ? a.stride : 1;
  const std::int64_t b_step = b.panel_columns > 0 ? b.panel_columns
                              : b.is_transposed   ? 1
                                                  : b.stride;
  return {rows, columns, count, from(a, first * a_step), from(b, first * b_step), whole_inner};
}

std::size_t most_amx_scratch_bytes(std::int64_t inner) {
  const std::int64_t packed = std::max(panel_elements(inner), kCacheElements);
  const Room most{Room::of(kMostPanels, 0, inner).floats, panel_elements(inner) + packed};
  return static_cast<std::size_t>(worker_count() * most.bytes());
}

void multiply_amx(const AmxProduct& product, Scratch& scratch, const AmxReads& reads,
                  FinishAmxBlock finish, const void* context) {
  SWARMPI_CHECK(product.b.panel_columns == 0 || product.b.panel_columns == kAmxBlock,
                "panels of another width");
  const std::int64_t panels = blocks_of(product.columns, kAmxBlock);
  // Parts are dealt in turn: where one worker had one more, the others would wait.
  const std::int64_t parts_each = blocks_of(panels, panels_at_once(product.inner) * worker_count());
  const std::int64_t step = blocks_of(panels, parts_each * worker_count());
  const Room room = Room::of(step, product.b.panel_columns == 0 ? step : 0, product.inner);
  char* const rooms = scratch.take_array<char>(worker_count() * room.bytes());
  for_each_item(blocks_of(panels, step), [&](std::int64_t part, int worker) {
    const std::int64_t first = part * step;
    auto* const sums = reinterpret_cast<float*>(rooms + worker * room.bytes());
    auto* const elements = reinterpret_cast<Bf16*>(sums + room.floats);
    PanelsOfProduct(product, reads, first, std::min(step, panels - first), sums, elements, worker)
        .multiply(finish, context);
  });
}

}  // namespace swarmpi::kernels::native
