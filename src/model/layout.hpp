#pragma once
// Buffers laid out one after another in one piece of memory. The same code measures (with no
// memory) and places, so that what `swarmpi check` predicts is what a stage takes.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/backend.hpp"

namespace swarmpi {

/// Elements from row to row of a matrix with so many columns: the backend's rule.
using StrideRule = std::function<std::int64_t(std::int64_t columns)>;

class Layout {
 public:
  Layout(float* memory, StrideRule stride) : memory_(memory), stride_(std::move(stride)) {}

  kernels::Matrix matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = stride_(columns);
    return {vector(rows * stride), rows, columns, stride};
  }
  float* vector(std::int64_t count) {
    float* const place = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(count);
    return place;
  }
  std::int64_t stride(std::int64_t columns) const { return stride_(columns); }
  std::int64_t size_bytes() const { return used_ * static_cast<std::int64_t>(sizeof(float)); }

  /// Elements rounded up to whole cache lines.
  static std::int64_t round_up(std::int64_t count) { return (count + 15) / 16 * 16; }

 private:
  float* memory_;
  StrideRule stride_;
  std::int64_t used_ = 0;  // elements
};

/// Takes memory for what `lay_out(layout)` lays out, and lays it out there.
template <class LayOut>
std::unique_ptr<kernels::Memory> allocate_layout(kernels::Backend& backend, LayOut lay_out) {
  const StrideRule stride = [&backend](std::int64_t columns) {
    return backend.row_stride(columns);
  };
  Layout measured(nullptr, stride);
  lay_out(measured);
  auto memory = backend.allocate(static_cast<std::size_t>(measured.size_bytes()));
  Layout placed(memory->as<float>(), stride);
  lay_out(placed);
  return memory;
}

}  // namespace swarmpi
