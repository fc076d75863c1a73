#pragma once
// For the one source that says `template class OpaqueVariant<Kinds>;`. All kinds are complete
// there.

#include <memory>

#include "core/opaque_variant.hpp"

namespace swarmpi {

template <class Kinds>
OpaqueVariant<Kinds>::OpaqueVariant() : OpaqueVariant(typename Kinds::First()) {}

template <class Kinds>
OpaqueVariant<Kinds>::OpaqueVariant(const OpaqueVariant& other) : number_(other.number_) {
  visit([this]<class Kind>(const Kind& kind) { ::new (static_cast<void*>(bytes_)) Kind(kind); },
        other);
}

template <class Kinds>
OpaqueVariant<Kinds>::OpaqueVariant(OpaqueVariant&& other) noexcept : number_(other.number_) {
  visit(
      [this]<class Kind>(Kind& kind) { ::new (static_cast<void*>(bytes_)) Kind(std::move(kind)); },
      other);
}

template <class Kinds>
OpaqueVariant<Kinds>& OpaqueVariant<Kinds>::operator=(const OpaqueVariant& other) {
  return *this = OpaqueVariant(other);
}

template <class Kinds>
OpaqueVariant<Kinds>& OpaqueVariant<Kinds>::operator=(OpaqueVariant&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(other));
}

template <class Kinds>
OpaqueVariant<Kinds>::~OpaqueVariant() {
  visit([]<class Kind>(Kind& kind) { std::destroy_at(&kind); }, *this);
}

}  // namespace swarmpi
