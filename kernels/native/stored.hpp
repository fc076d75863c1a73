#pragma once
// Rows of factors in either storage: read as fp32, written rounded.

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/bfloat16.hpp"

namespace swarmpi::kernels::native {

inline float loaded(float value) { return value; }
inline float loaded(std::uint16_t bits) { return float_from_bf16(bits); }
inline void store(float& to, float value) { to = value; }
inline void store(std::uint16_t& to, float value) { to = bf16_from_float(value); }

/// A factor's rows as arrays of its element.
template <class T>
class StoredRows {
 public:
  template <class Void>
  explicit StoredRows(const FactorView<Void>& f)
      : data_(static_cast<T*>(f.data)), stride_(f.stride) {}
  T* row(std::int64_t r) const { return data_ + r * stride_; }

 private:
  T* data_;
  std::int64_t stride_;
};

/// Calls body(rows) with the rows of `f` in its storage.
template <class Body>
void with_rows(const FactorMatrix& f, const Body& body) {
  if (f.element == Element::bf16) return body(StoredRows<std::uint16_t>(f));
  body(StoredRows<float>(f));
}
template <class Body>
void with_rows(const ConstFactor& f, const Body& body) {
  if (f.element == Element::bf16) return body(StoredRows<const std::uint16_t>(f));
  body(StoredRows<const float>(f));
}

template <class T>
void store_row(T* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(to[i], from[i]);
}

/// Row r of `to`, which may be empty, becomes `from`.
inline void copy_row(const FactorMatrix& to, std::int64_t r, const float* from) {
  if (to.empty()) return;
  with_rows(to, [&](const auto rows) { store_row(rows.row(r), from, to.columns); });
}

/// The row as fp32: itself, or a copy in `room`.
inline const float* row_as_floats(const float* row, float* /*room*/, std::int64_t /*count*/) {
  return row;
}
inline const float* row_as_floats(const std::uint16_t* __restrict row, float* __restrict room,
                                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) room[i] = float_from_bf16(row[i]);
  return room;
}

}  // namespace swarmpi::kernels::native
