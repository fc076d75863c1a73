#pragma once
// Rows of factors in either storage: read as fp32, written rounded.

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/native/vectors.hpp"

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
void store_row(T* to, const float* from, std::int64_t count) {
  for_each_vector(count, [=](const auto& at, const auto& put) { put(to, at(from)); });
}

/// Row r of `to`, which may be empty, becomes `from`.
inline void copy_row(const FactorMatrix& to, std::int64_t r, const float* from) {
  if (to.empty()) return;
  with_rows(to, [&](const auto rows) { store_row(rows.row(r), from, to.columns); });
}

}  // namespace swarmpi::kernels::native
