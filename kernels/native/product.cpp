#include "kernels/native/product.hpp"

#include <dnnl.h>

#include <algorithm>

#include "core/check.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/native/amx/tile.hpp"
#include "kernels/native/bf16_product.hpp"
#include "kernels/native/copy.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/pointwise.hpp"
#include "kernels/native/stored.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 32;

void round_into(float* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = round_to_bf16(from[i]);
}

}  // namespace

Products::Products(Precision precision) : Products(precision, Bf16Products::has_amx()) {}

Products::Products(Precision precision, bool packs) : precision_(precision) {
  if (precision == Precision::bf16) bf16_ = Bf16Products::make();
  packs_ = packs && bf16_ != nullptr;
  has_tiles_ = packs_ && Bf16Products::has_amx() && may_use_tiles();
}

Products::~Products() = default;

std::int64_t Products::element_bytes() const {
  return bf16_ != nullptr ? static_cast<std::int64_t>(sizeof(std::uint16_t))
                          : static_cast<std::int64_t>(sizeof(float));
}

std::int64_t Products::stride(std::int64_t columns, Element element) const {
  return packs_ ? columns : padded_stride(columns, static_cast<std::int64_t>(size_of(element)));
}

std::int64_t Products::copy_stride(std::int64_t columns) const {
  return stride(columns, element());
}

std::size_t Products::copy_bytes(std::int64_t rows, std::int64_t columns) const {
  return static_cast<std::size_t>(rows * copy_stride(columns) * element_bytes());
}

std::int64_t Products::panel_columns(std::int64_t inner, std::int64_t columns) const {
  if (has_tiles_) return kAmxBlock;
  return packs_ ? bf16_->panel_columns(inner, columns) : 0;
}

void Products::copy_row(void* to, const float* row, std::int64_t columns) const {
  if (!rounds()) {
    std::copy_n(row, columns, static_cast<float*>(to));
  } else if (bf16_ != nullptr) {
    store_row(static_cast<std::uint16_t*>(to), row, columns);
  } else {
    round_into(static_cast<float*>(to), row, columns);
  }
}

void Products::copy(void* to, ConstMatrix m) const {
  const std::int64_t row_bytes = copy_stride(m.columns) * element_bytes();
  for_each_block(m.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) {
      copy_row(static_cast<char*>(to) + r * row_bytes, m.row(r), m.columns);
    }
  });
}

Factor Products::factor(ConstFactor m, Scratch& scratch) const {
  if (m.element == Element::bf16) {
    SWARMPI_CHECK(bf16_ != nullptr, "factors in bf16 where oneDNN multiplies none");
    return {m.data, m.stride};
  }
  if (!rounds()) return {m.data, m.stride};
  void* const rounded = scratch.take(copy_bytes(m.rows, m.columns));
  copy(rounded, m.matrix());
  return {rounded, copy_stride(m.columns)};
}

Need Products::factor_need(std::int64_t rows, std::int64_t columns, Scratch& scratch) const {
  const bool copies = rounds() && element() == Element::fp32;
  return {scratch, copies ? copy_bytes(rows, columns) : 0};
}

Factor Products::part(const Factor& whole, std::int64_t row) const {
  SWARMPI_CHECK(whole.panel_columns == 0, "a packed factor has no parts");
  const std::int64_t bytes = row * whole.stride * element_bytes();
  return {static_cast<const char*>(whole.data) + bytes, whole.stride, whole.is_transposed};
}

Need Products::blocks_need() {
  const std::size_t bytes = has_tiles_ ? most_amx_scratch_bytes(kMostBlockInner) : 0;
  return {rooms_, bytes};
}

void Products::multiply_in_blocks(Matrix c, const AmxProduct& product, Write write) {
  for (std::int64_t first = 0; first < product.inner; first += kMostBlockInner) {
    const std::int64_t count = std::min(kMostBlockInner, product.inner - first);
    const bool adds = write == Write::add || first > 0;
    const AmxReads reads = adds ? AmxReads::of(c) : AmxReads();
    multiply_amx(product.part(first, count), rooms_, reads, [&](const AmxBlock& block) {
      const Matrix to = block.of(c);
      if (adds) return add_residual(to, block.sums, nullptr);
      put(to, block.sums, c.rows * c.columns);
    });
  }
}

void Products::multiply(Matrix c, const Factor& a, const Factor& b, std::int64_t inner,
                        Write write) {
  if (multiplies_blocks(b)) return multiply_in_blocks(c, {c.rows, c.columns, inner, a, b}, write);
  if (bf16_ != nullptr) {
    bf16_->multiply({c.rows, c.columns, inner, a, b, c.stride, write}, c.data, a.data, b.data,
                    nullptr);
    return;
  }
  const dnnl_status_t status = dnnl_sgemm(
      a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', c.rows, c.columns, inner, 1.0f,
      static_cast<const float*>(a.data), a.stride, static_cast<const float*>(b.data), b.stride,
      write == Write::add ? 1.0f : 0.0f, c.data, c.stride);
  SWARMPI_CHECK(status == dnnl_success, "oneDNN refused a product of " + std::to_string(c.rows) +
                                            " x " + std::to_string(inner) + " x " +
                                            std::to_string(c.columns));
}

void Products::multiply_to_factor(FactorMatrix c, const Factor& a, const Factor& b,
                                  std::int64_t inner, const float* bias) {
  if (c.element == Element::fp32) {
    multiply(c.matrix(), a, b, inner, Write::set);
    return add_bias(c.matrix(), bias);
  }
  SWARMPI_CHECK(bf16_ != nullptr, "factors in bf16 where oneDNN multiplies none");
  if (has_blocks(b, inner)) {
    return multiply_blocks(c.rows, c.columns, a, b, inner, {}, [&](const AmxBlock& block) {
      if (bias != nullptr) add_bias(block.sums, bias + block.column);
      native::copy_factor(block.of(c), block.sums);
    });
  }
  ProductShape shape(c.rows, c.columns, inner, a, b, c.stride, Write::set);
  shape.rounds_result = true;
  shape.has_bias = bias != nullptr;
  bf16_->multiply(shape, c.data, a.data, b.data, bias);
}

}  // namespace swarmpi::kernels::native
