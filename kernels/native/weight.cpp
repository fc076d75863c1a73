#include "kernels/native/weight.hpp"

#include <algorithm>

#include "kernels/native/parallel.hpp"
#include "kernels/native/tile.hpp"

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

std::size_t NativeWeight::scratch_bytes(const Products& products, std::int64_t inputs) {
  if (!products.packs()) return 0;
  return static_cast<std::size_t>(worker_count()) * products.copy_bytes(kStripRows, inputs);
}

void NativeWeight::refresh(const Products& products, const float* master, Scratch& scratch) {
  if (backward_copy_ != nullptr) {
    refresh_panels(products, master, scratch);
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

void NativeWeight::refresh_panels(const Products& products, const float* master, Scratch& scratch) {
  const Bf16Panels forward = panels(*copy_, inputs_, forward_.panel_columns);
  const Bf16Panels backward = panels(*backward_copy_, outputs_, backward_.panel_columns);
  const std::size_t room_bytes = products.copy_bytes(kStripRows, inputs_);
  auto* const rooms =
      static_cast<char*>(scratch.take(static_cast<std::size_t>(worker_count()) * room_bytes));
  const std::int64_t step = strip_rows(forward.panel_columns);
  for_each_item(blocks_of(outputs_, step), [&](std::int64_t strip, int worker) {
    const std::int64_t first = strip * step;
    const std::int64_t rows = std::min(step, outputs_ - first);
    const std::int64_t stride = products.copy_stride(inputs_);
    auto* const rounded =
        reinterpret_cast<std::uint16_t*>(rooms + static_cast<std::size_t>(worker) * room_bytes);
    for (std::int64_t r = 0; r < rows; ++r) {
      products.copy_row(rounded + r * stride, master + (first + r) * inputs_, inputs_);
    }
    const Bf16Panels of_strip{forward.panel(first / forward.panel_columns), forward.words,
                              forward.panel_columns};
    pack_transposed(of_strip, rounded, stride, inputs_, rows);
    const Bf16Panels from_row{backward.data + first * backward.panel_columns, backward.words,
                              backward.panel_columns};
    pack(from_row, rounded, stride, rows, inputs_);
  });
}

}  // namespace swarmpi::kernels::native
