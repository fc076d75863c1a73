#pragma once
// The HDF5 types of our value types, in files (always little-endian) and in memory.

#include <hdf5.h>

#include <cstdint>
#include <type_traits>

namespace swarmpi {

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
