#pragma once
// What all HDF5 files of SwarMPI share: the types of values, in files (always little-endian) and in
// memory, and where the format stands.

#include <hdf5.h>

#include <cstdint>
#include <type_traits>

namespace swarmpi {

/// The root's attribute with a file's format and version.
inline constexpr char kFormatAttribute[] = "format";

/// HDF5's names for its types are calls, so these are functions.
template <class Value>
hid_t file_type() {
  if constexpr (std::is_same_v<Value, std::int64_t>) return H5T_STD_I64LE;
  if constexpr (std::is_same_v<Value, std::uint64_t>) return H5T_STD_U64LE;
  if constexpr (std::is_same_v<Value, std::int16_t>) return H5T_STD_I16LE;
  if constexpr (std::is_same_v<Value, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::is_same_v<Value, double>) return H5T_IEEE_F64LE;
  if constexpr (std::is_same_v<Value, float>) return H5T_IEEE_F32LE;
}

template <class Value>
hid_t memory_type() {
  if constexpr (std::is_same_v<Value, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<Value, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<Value, std::int16_t>) return H5T_NATIVE_INT16;
  if constexpr (std::is_same_v<Value, std::uint8_t>) return H5T_NATIVE_UINT8;
  if constexpr (std::is_same_v<Value, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<Value, float>) return H5T_NATIVE_FLOAT;
}

}  // namespace swarmpi
