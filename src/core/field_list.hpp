#pragma once
// The fields of a struct, listed by name behind it. From the list come its bytes
// (core/archive.hpp), its text in a trace, and its hash.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace swarmpi {

/// Made by SWARMPI_FIELDS for each struct that has a list.
template <class T>
struct FieldList;

/// SWARMPI_FIELDS(Type, field, ...); stands behind a struct, in namespace swarmpi, and names all of
/// its fields in order. With one too few or too many it does not compile.
#define SWARMPI_FIELDS(Type, ...)                                                \
  template <>                                                                    \
  struct FieldList<Type> {                                                       \
    static constexpr std::string_view kType = #Type;                             \
    static constexpr std::string_view kNames{__VA_OPT__(#__VA_ARGS__)};          \
    template <class T>                                                           \
    static auto tie([[maybe_unused]] T& object) {                                \
      static_assert(!kNames.empty() || std::is_empty_v<T>, #Type " has fields"); \
      __VA_OPT__(auto& [__VA_ARGS__] = object;)                                  \
      return std::tie(__VA_ARGS__);                                              \
    }                                                                            \
  }

/// A struct with a list, const or not.
template <class T>
concept HasFields = requires {
  FieldList<std::remove_const_t<T>>::kType;
};

/// The struct's own name: "ViewMessage".
template <HasFields T>
inline constexpr std::string_view kTypeName = FieldList<std::remove_const_t<T>>::kType;

/// References to all fields of `object`, in order.
template <HasFields T>
auto fields_of(T& object) {
  return FieldList<std::remove_const_t<T>>::tie(object);
}

/// "a, b, c" cut at the commas.
template <std::size_t kCount>
constexpr std::array<std::string_view, kCount> split_names(std::string_view list) {
  std::array<std::string_view, kCount> names;
  for (std::string_view& name : names) {
    name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), name.size() + 2));
  }
  return names;
}

/// visit(name, field) for all fields of `object`, in order.
template <HasFields T, class Visit>
void for_each_field(T& object, Visit&& visit) {
  const auto visit_all = [&visit](auto&... fields) {
    [[maybe_unused]] static constexpr auto kNames =
        split_names<sizeof...(fields)>(FieldList<std::remove_const_t<T>>::kNames);
    [[maybe_unused]] std::size_t i = 0;
    (visit(kNames[i++], fields), ...);
  };
  std::apply(visit_all, fields_of(object));
}

}  // namespace swarmpi
