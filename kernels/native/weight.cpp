#include "kernels/native/weight.hpp"

#include <algorithm>

#include "core/prefetch.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/tile.hpp"
#include "kernels/native/vector_hash.hpp"

namespace swarmpi::kernels::native {

namespace {

/// Rows that are rounded at once, and packed from the cache: whole panels of any kind, but for
/// those of 48 columns.
constexpr std::int64_t kStripRows = 64;

std::int64_t strip_rows(std::int64_t panel_columns) {
  return kStripRows / panel_columns * panel_columns;
}

std::int64_t whole(std::int64_t count, std::int64_t unit) { return blocks_of(count, unit) * unit; }

std::size_t panel_bytes(std::int64_t inner, std::int64_t columns, std::int64_t panel_columns) {
  return static_cast<std::size_t>(whole(inner, kPanelRows) * whole(columns, panel_columns)) *
         sizeof(std::uint16_t);
}

PanelColumns panels_of(const Products& products, std::int64_t outputs, std::int64_t inputs) {
  return {products.panel_columns(inputs, outputs), products.panel_columns(outputs, inputs)};
}

/// Rounded, or with rows that are multiples of 2 KiB apart: products of fp32 are slower then, by
/// 10 % to half.
bool is_copied(const Products& products, std::int64_t inputs) {
  constexpr std::int64_t kSlowBytes = 2048;
  return products.rounds() || inputs * static_cast<std::int64_t>(sizeof(float)) % kSlowBytes == 0;
}

using Bf16Panels = RightFactor<std::uint16_t>;
/// Panels of a factor with so many rows.
Bf16Panels panels(AlignedMemory& memory, std::int64_t inner, std::int64_t panel_columns) {
  return {static_cast<std::uint16_t*>(memory.data()),
          whole(inner, kPanelRows) / kPerWord<std::uint16_t>, panel_columns};
}

/// Words of the inner dimension [begin, end) of `count` panels.
struct PanelRows {
  Bf16Panels panels;
  std::int64_t first_panel, count;
  std::int64_t begin, end;

  /// Their part of the hash of the copy.
  std::uint64_t hash() const {
    std::uint64_t sum = 0;
    for (std::int64_t p = first_panel; p < first_panel + count; ++p) {
      sum += vector_hash_of_words(panels.data + offset_of(p) * kPerWord<std::uint16_t>,
                                  words_of_panel(), offset_of(p));
    }
    return sum;
  }
  /// Asks memory for a part of each panel. Where all parts are asked for while rows are made, they
  /// are there when these rows are packed.
  void fetch(std::int64_t part, std::int64_t parts) const {
    constexpr std::int64_t kWordBytes = sizeof(std::uint32_t);
    for (std::int64_t p = first_panel; p < first_panel + count; ++p) {
      fetch_lines<Cache::second>(panels.data + offset_of(p) * kPerWord<std::uint16_t>,
                                 words_of_panel() * part / parts * kWordBytes,
                                 words_of_panel() * (part + 1) / parts * kWordBytes);
    }
  }

 private:
  std::int64_t words_of_panel() const { return (end - begin) * panels.panel_columns; }
  /// Words of the copy before those of the panel.
  std::int64_t offset_of(std::int64_t panel) const {
    return (panel * panels.words + begin) * panels.panel_columns;
  }
};

/// The panels with these columns.
PanelRows columns_of(const Bf16Panels& panels, std::int64_t first, std::int64_t columns) {
  return {panels, first / panels.panel_columns, blocks_of(columns, panels.panel_columns), 0,
          panels.words};
}

/// Rows [first, end) of all panels; end < 0: with what fills them up.
PanelRows rows_of(const Bf16Panels& panels, std::int64_t first, std::int64_t end,
                  std::int64_t columns) {
  const std::int64_t end_word = end < 0 ? panels.words : words_of<std::uint16_t>(end);
  return {panels, 0, blocks_of(columns, panels.panel_columns), words_of<std::uint16_t>(first),
          end_word};
}

/// Of both copies.
struct CopyPair {
  std::uint64_t forward = 0, backward = 0;

  CopyPair& operator+=(const CopyPair& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
  std::uint64_t as_one() const { return joined_hash(joined_hash(0, forward), backward); }
};
struct StripHashes {
  CopyPair before, after;
};

/// Strips are of 48 rows or more.
std::int64_t most_strips(std::int64_t outputs) { return blocks_of(outputs, kStripRows * 3 / 4); }

std::size_t refresh_bytes(const Products& products, std::int64_t outputs, std::int64_t inputs) {
  return static_cast<std::size_t>(most_strips(outputs)) * sizeof(StripHashes) +
         static_cast<std::size_t>(worker_count()) * products.copy_bytes(kStripRows, inputs);
}

}  // namespace

NativeWeight::NativeWeight(const Products& products, std::int64_t outputs, std::int64_t inputs)
    : NativeWeight(products, outputs, inputs, panels_of(products, outputs, inputs)) {}

NativeWeight::NativeWeight(const Products& products, std::int64_t outputs, std::int64_t inputs,
                           PanelColumns columns)
    : outputs_(outputs), inputs_(inputs) {
  if (columns.packed()) {
    copy_ = std::make_unique<AlignedMemory>(panel_bytes(inputs, outputs, columns.forward));
    backward_copy_ =
        std::make_unique<AlignedMemory>(panel_bytes(outputs, inputs, columns.backward));
    forward_ = {copy_->data(), 0, false, columns.forward};
    backward_ = {backward_copy_->data(), 0, false, columns.backward};
    return;
  }
  backward_.stride = inputs;
  if (is_copied(products, inputs)) {
    copy_ = std::make_unique<AlignedMemory>(products.copy_bytes(outputs, inputs));
    backward_ = {copy_->data(), products.copy_stride(inputs)};
  }
  forward_ = backward_.transposed();
}

std::size_t NativeWeight::bytes(const Products& products, std::int64_t outputs,
                                std::int64_t inputs) {
  const PanelColumns columns = panels_of(products, outputs, inputs);
  if (columns.packed()) {
    return panel_bytes(inputs, outputs, columns.forward) +
           panel_bytes(outputs, inputs, columns.backward);
  }
  return is_copied(products, inputs) ? products.copy_bytes(outputs, inputs) : 0;
}

std::size_t NativeWeight::scratch_bytes(const Products& products, std::int64_t outputs,
                                        std::int64_t inputs) {
  return products.packs() ? refresh_bytes(products, outputs, inputs) : 0;
}

void NativeWeight::refresh(const Products& products, const float* master, Scratch& scratch) {
  if (backward_copy_ != nullptr) {
    refresh_panels(products, master, scratch, nullptr, nullptr);
  } else if (copy_ != nullptr) {
    products.copy(copy_->data(), {master, outputs_, inputs_});
  } else {
    forward_.data = master;
    backward_.data = master;
  }
}

std::vector<std::span<std::byte>> NativeWeight::copies() {
  std::vector<std::span<std::byte>> list;
  for (AlignedMemory* const memory : {copy_.get(), backward_copy_.get()}) {
    if (memory == nullptr) continue;
    list.emplace_back(static_cast<std::byte*>(memory->data()), memory->size_bytes());
  }
  return list;
}

NativeWeight::CopyHashes NativeWeight::refresh_panels(const Products& products, const float* master,
                                                      Scratch& scratch, MakeRow make_row,
                                                      const void* context) {
  const Bf16Panels forward = panels(*copy_, inputs_, forward_.panel_columns);
  const Bf16Panels backward = panels(*backward_copy_, outputs_, backward_.panel_columns);
  const std::int64_t step = strip_rows(forward.panel_columns);
  const std::int64_t strips = blocks_of(outputs_, step);
  const std::size_t room_bytes = products.copy_bytes(kStripRows, inputs_);
  auto* const hashes =
      static_cast<StripHashes*>(scratch.take(refresh_bytes(products, outputs_, inputs_)));
  auto* const rooms = reinterpret_cast<char*>(hashes + most_strips(outputs_));
  for_each_item(strips, [&](std::int64_t strip, int worker) {
    const std::int64_t first = strip * step;
    const std::int64_t rows = std::min(step, outputs_ - first);
    const std::int64_t stride = products.copy_stride(inputs_);
    auto* const rounded =
        reinterpret_cast<std::uint16_t*>(rooms + static_cast<std::size_t>(worker) * room_bytes);
    const PanelRows forward_part = columns_of(forward, first, rows);
    const PanelRows backward_part =
        rows_of(backward, first, strip + 1 < strips ? first + step : -1, inputs_);
    for (std::int64_t r = 0; r < rows; ++r) {
      forward_part.fetch(r, rows);
      backward_part.fetch(r, rows);
      if (make_row != nullptr) make_row(context, first + r);
      products.copy_row(rounded + r * stride, master + (first + r) * inputs_, inputs_);
    }
    StripHashes& hash = hashes[strip];
    if (make_row != nullptr) hash.before = {forward_part.hash(), backward_part.hash()};
    const Bf16Panels of_strip{forward.panel(first / forward.panel_columns), forward.words,
                              forward.panel_columns};
    pack_transposed(of_strip, rounded, stride, inputs_, rows);
    const Bf16Panels from_row{backward.data + first * backward.panel_columns, backward.words,
                              backward.panel_columns};
    pack(from_row, rounded, stride, rows, inputs_);
    if (make_row != nullptr) hash.after = {forward_part.hash(), backward_part.hash()};
  });
  if (make_row == nullptr) return {};
  CopyPair before, after;
  for (std::int64_t strip = 0; strip < strips; ++strip) {
    before += hashes[strip].before;
    after += hashes[strip].after;
  }
  return {before.as_one(), after.as_one()};
}

}  // namespace swarmpi::kernels::native
