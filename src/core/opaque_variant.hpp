#pragma once
// A std::variant whose kinds need not be complete where it is stored and passed on. So a source
// includes only the kinds that it looks at. Copies, moves and the destructor are compiled once, in
// the source that includes core/opaque_variant_members.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "core/kind_table.hpp"

namespace swarmpi {

/// `Kinds`: a KindTable with a member kBytes, the size of the largest kind.
template <class Kinds>
class OpaqueVariant {
 public:
  using Table = Kinds;

  OpaqueVariant();  ///< of the first kind in the table
  template <class Given>
  requires HasKind<Kinds, std::remove_cvref_t<Given>> OpaqueVariant(Given&& given)
      : number_(kNumberIn<Kinds, std::remove_cvref_t<Given>>) {
    using Kind = std::remove_cvref_t<Given>;
    static_assert(sizeof(Kind) <= Kinds::kBytes && alignof(Kind) <= alignof(std::int64_t));
    static_assert(std::is_nothrow_move_constructible_v<Kind>);
    ::new (static_cast<void*>(bytes_)) Kind(std::forward<Given>(given));
  }
  OpaqueVariant(const OpaqueVariant& other);
  OpaqueVariant(OpaqueVariant&& other) noexcept;
  OpaqueVariant& operator=(const OpaqueVariant& other);
  OpaqueVariant& operator=(OpaqueVariant&& other) noexcept;
  ~OpaqueVariant();

  /// Of its kind, by the table.
  std::uint8_t number() const { return number_; }

 private:
  template <class Kind, class Table>
  requires HasKind<Table, Kind>
  friend const Kind* get_if(const OpaqueVariant<Table>* variant);

  alignas(std::int64_t) std::byte bytes_[Kinds::kBytes];
  std::uint8_t number_;
};

// As the functions of std::variant that have these names.

template <class Kind, class Table>
requires HasKind<Table, Kind>
bool holds_alternative(const OpaqueVariant<Table>& variant) {
  return variant.number() == kNumberIn<Table, Kind>;
}

template <class Kind, class Table>
requires HasKind<Table, Kind>
const Kind* get_if(const OpaqueVariant<Table>* variant) {
  if (variant == nullptr || !holds_alternative<Kind>(*variant)) return nullptr;
  return std::launder(reinterpret_cast<const Kind*>(variant->bytes_));
}
template <class Kind, class Table>
requires HasKind<Table, Kind> Kind* get_if(OpaqueVariant<Table>* variant) {
  return const_cast<Kind*>(get_if<Kind>(const_cast<const OpaqueVariant<Table>*>(variant)));
}

template <class Kind, class Table>
requires HasKind<Table, Kind>
const Kind& get(const OpaqueVariant<Table>& variant) {
  SWARMPI_CHECK(holds_alternative<Kind>(variant), "another kind");
  return *get_if<Kind>(&variant);
}
template <class Kind, class Table>
requires HasKind<Table, Kind> Kind& get(OpaqueVariant<Table>& variant) {
  return const_cast<Kind&>(get<Kind>(const_cast<const OpaqueVariant<Table>&>(variant)));
}
template <class Kind, class Table>
requires HasKind<Table, Kind> Kind get(OpaqueVariant<Table>&& variant) {
  return std::move(get<Kind>(variant));
}

/// One call of a visitor, for visit().
template <class Result, class Kind, class Visitor, class Variant>
Result visit_kind(Visitor& visitor, Variant& variant) {
  return visitor(*get_if<Kind>(&variant));
}

template <class Visitor, class Variant, std::uint8_t... kNumbers, class... Kinds>
decltype(auto) visit_in_table(Visitor& visitor, Variant& variant,
                              const KindTable<KindRow<kNumbers, Kinds>...>* /*table*/) {
  using Table = KindTable<KindRow<kNumbers, Kinds>...>;
  using Result = decltype(visitor(*get_if<typename Table::First>(&variant)));
  using Call = Result (*)(Visitor&, Variant&);
  static constexpr auto kCalls = [] {
    std::array<Call, Table::kEnd> calls{};
    ((calls[kNumbers] = &visit_kind<Result, Kinds, Visitor, Variant>), ...);
    return calls;
  }();
  return kCalls[variant.number()](visitor, variant);
}

/// All kinds must be complete.
template <class Visitor, class Table>
decltype(auto) visit(Visitor&& visitor, const OpaqueVariant<Table>& variant) {
  return visit_in_table(visitor, variant, static_cast<const Table*>(nullptr));
}
template <class Visitor, class Table>
decltype(auto) visit(Visitor&& visitor, OpaqueVariant<Table>& variant) {
  return visit_in_table(visitor, variant, static_cast<const Table*>(nullptr));
}

}  // namespace swarmpi
