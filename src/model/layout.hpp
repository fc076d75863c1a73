#pragma once
// Buffers laid out one after another in one piece of memory. The same code measures (with no
// memory) and places, so that what `swarmpi check` predicts is what a stage takes.

#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace swarmpi {

class Layout {
 public:
  Layout(float* memory, const kernels::Backend& backend) : memory_(memory), backend_(backend) {}

  kernels::Matrix matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = backend_.row_stride(columns);
    return {vector(rows * stride), rows, columns, stride};
  }
  /// For what is only ever a factor of products.
  kernels::FactorMatrix factor(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = backend_.factor_stride(columns);
    const kernels::Element element = backend_.factor_element();
    const auto bytes = static_cast<std::int64_t>(kernels::size_of(element)) * rows * stride;
    constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));
    return {vector((bytes + kFloatBytes - 1) / kFloatBytes), rows, columns, stride, element};
  }
  /// For a copy of `m` as a factor, kept beside it: `m` itself where factors are fp32.
  kernels::FactorMatrix factor_beside(const kernels::Matrix& m) {
    if (backend_.factor_element() == kernels::Element::fp32) return m;
    return factor(m.rows, m.columns);
  }
  float* vector(std::int64_t count) {
    float* const place = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(count);
    return place;
  }
  std::int64_t stride(std::int64_t columns) const { return backend_.row_stride(columns); }
  std::int64_t weight_gradient_rows(std::int64_t rows) const {
    return backend_.weight_gradient_rows(rows);
  }
  std::int64_t size_bytes() const { return used_ * static_cast<std::int64_t>(sizeof(float)); }

  /// Elements rounded up to whole cache lines.
  static std::int64_t round_up(std::int64_t count) { return (count + 15) / 16 * 16; }

 private:
  float* memory_;
  const kernels::Backend& backend_;
  std::int64_t used_ = 0;  // elements
};

/// Takes memory for what `lay_out(layout)` lays out, and lays it out there.
template <class LayOut>
std::unique_ptr<kernels::Memory> allocate_layout(kernels::Backend& backend, LayOut lay_out) {
  Layout measured(nullptr, backend);
  lay_out(measured);
  auto memory = backend.allocate(static_cast<std::size_t>(measured.size_bytes()));
  Layout placed(memory->as<float>(), backend);
  lay_out(placed);
  return memory;
}

}  // namespace swarmpi
