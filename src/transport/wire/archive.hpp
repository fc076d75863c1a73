#pragma once
// Numbers to bytes and back: little-endian, of fixed width; every read is checked against the end
// of the header. One function fields(archive, object) per type serves both directions.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/payload.hpp"

namespace swarmpi::wire {

/// An object of type M, to be written (const) or read into.
template <class T, class M>
concept Is = std::same_as<std::remove_const_t<T>, M>;

/// The unsigned integer that stands for a number on the wire.
template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
concept Number = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

class Writer {
 public:
  static constexpr bool kReading = false;

  template <class... Fields>
  void operator()(const Fields&... values) {
    (fields(*this, values), ...);
  }
  template <Number T>
  void number(T value) {
    auto bits = std::bit_cast<Bits<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(bits & 0xff));
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
  }
  /// REQUIRES: at most one payload that is not null in all that is written.
  void payload(const PayloadRef& payload);

  std::vector<std::byte> take_bytes() { return std::move(bytes_); }
  PayloadRef take_payload() { return std::move(payload_); }

 private:
  std::vector<std::byte> bytes_;
  PayloadRef payload_;
};

/// After a first error nothing more is read, and all numbers are 0.
class Reader {
 public:
  static constexpr bool kReading = true;

  Reader(std::span<const std::byte> bytes, PayloadRef payload)
      : bytes_(bytes), payload_(std::move(payload)) {}

  template <class... Fields>
  void operator()(Fields&... values) {
    (fields(*this, values), ...);
  }
  template <Number T>
  void number(T& value) {
    Bits<T> bits = 0;
    if (remaining() < sizeof(T)) refuse("truncated header");
    if (good()) {
      for (std::size_t i = sizeof(T); i-- > 0;) {
        if constexpr (sizeof(T) > 1) bits <<= 8;
        bits |= static_cast<Bits<T>>(bytes_[at_ + i]);
      }
      at_ += sizeof(T);
    }
    value = std::bit_cast<T>(bits);
  }
  void payload(PayloadRef& payload);
  /// The first error counts.
  void refuse(const char* what);
  /// `invalid WHAT (VALUE)`.
  void refuse(const char* what, std::uint64_t value);
  /// What is read from now on, for error().
  void begin(std::string part) { part_ = std::move(part); }
  std::size_t remaining() const { return bytes_.size() - at_; }

  /// The first error and the part that was read last, "" if there is none; bytes or a payload that
  /// are left over are an error too.
  std::string error() const;
  bool good() const { return error_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  PayloadRef payload_;
  std::string part_ = "a message";
  std::string error_;
};

}  // namespace swarmpi::wire
