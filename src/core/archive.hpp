#pragma once
// Objects to bytes and back: numbers little-endian and of fixed width, structs field by field as
// their SWARMPI_FIELDS say, lists behind their length. Every read is checked against the end.
// A type of another kind has functions write(ArchiveWriter&, const T&) and read(ArchiveReader&, T&)
// beside it.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/choices.hpp"
#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/opaque_variant.hpp"
#include "core/payload.hpp"
#include "core/shared_doubles.hpp"
#include "core/status.hpp"

namespace swarmpi {

template <class T>
concept Number = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

/// The unsigned integer with the bits of a number.
template <Number T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

class ArchiveWriter {
 public:
  template <class... Ts>
  void operator()(const Ts&... values) {
    (write(*this, values), ...);
  }
  template <Number T>
  void number(T value) {
    auto bits = std::bit_cast<BitsOf<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(bits & 0xff));
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
  }
  /// Notes whether there is one; its bytes travel beside the archive, and are never copied.
  /// REQUIRES: at most one payload that is not null in all that is written.
  void payload(const PayloadRef& payload);

  std::vector<std::byte> take_bytes() { return std::move(bytes_); }
  PayloadRef take_payload() { return std::move(payload_); }

 private:
  std::vector<std::byte> bytes_;
  PayloadRef payload_;
};

/// After a first error nothing more is read, and all numbers are 0.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::span<const std::byte> bytes, PayloadRef payload = nullptr)
      : bytes_(bytes), payload_(std::move(payload)) {}

  template <class... Ts>
  void operator()(Ts&... values) {
    (read(*this, values), ...);
  }
  template <Number T>
  void number(T& value) {
    BitsOf<T> bits = 0;
    if (remaining() < sizeof(T)) refuse("truncated data");
    if (good()) {
      for (std::size_t i = sizeof(T); i-- > 0;) {
        if constexpr (sizeof(T) > 1) bits <<= 8;
        bits |= static_cast<BitsOf<T>>(bytes_[at_ + i]);
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
  void refuse(const char* what, const std::string& value);
  /// What is read from now on, for error(): "ViewMessage".
  void begin(std::string_view part) { part_ = part; }
  std::size_t remaining() const { return bytes_.size() - at_; }

  /// The first error and the part that was read last, "" if there is none; bytes or a payload that
  /// are left over are an error too.
  std::string error() const;
  bool good() const { return error_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  PayloadRef payload_;
  std::string_view part_;
  std::string error_;
};

// ---- numbers, enumerators, ids, statuses, payloads

template <Number T>
void write(ArchiveWriter& archive, const T& value) {
  archive.number(value);
}
template <Number T>
void read(ArchiveReader& archive, T& value) {
  archive.number(value);
}

template <std::same_as<bool> T>
void write(ArchiveWriter& archive, const T& value) {
  archive.number(static_cast<std::uint8_t>(value));
}
template <std::same_as<bool> T>
void read(ArchiveReader& archive, T& value) {
  std::uint8_t byte = 0;
  archive.number(byte);
  if (byte > 1) archive.refuse("bool", byte);
  value = byte == 1;
}

/// Enumerators without names: they count from 0 to last_of(), which stands beside them.
template <class T>
concept Numbered = std::is_enum_v<T> && !Choice<T>;

template <Numbered Enum>
void write(ArchiveWriter& archive, const Enum& value) {
  archive.number(static_cast<std::uint8_t>(value));
}
template <Numbered Enum>
void read(ArchiveReader& archive, Enum& value) {
  std::uint8_t byte = 0;
  archive.number(byte);
  if (byte > static_cast<std::uint8_t>(last_of(value))) archive.refuse("enumerator", byte);
  value = static_cast<Enum>(byte);
}

template <class Tag, class Value>
void write(ArchiveWriter& archive, const Id<Tag, Value>& id) {
  archive(id.value);
}
template <class Tag, class Value>
void read(ArchiveReader& archive, Id<Tag, Value>& id) {
  archive(id.value);
}

/// Each as its difference from the one before, in groups of 7 bits: a byte a peer where ids lie
/// close to each other.
void write(ArchiveWriter& archive, const std::vector<PeerId>& peers);
void read(ArchiveReader& archive, std::vector<PeerId>& peers);

inline void write(ArchiveWriter& archive, const Status& status) {
  archive(status.code(), status.message());
}
inline void read(ArchiveReader& archive, Status& status) {
  ExitStatus code = ExitStatus::good;
  std::string message;
  archive(code, message);
  status = Status::error(code, std::move(message));
}

inline void write(ArchiveWriter& archive, const PayloadRef& payload) { archive.payload(payload); }
inline void read(ArchiveReader& archive, PayloadRef& payload) { archive.payload(payload); }

// ---- structs

template <HasFields T>
void write(ArchiveWriter& archive, const T& object) {
  std::apply(archive, fields_of(object));
}
template <HasFields T>
void read(ArchiveReader& archive, T& object) {
  std::apply(archive, fields_of(object));
}

// ---- lists

template <class List>
void write_list(ArchiveWriter& archive, const List& values) {
  archive.number(static_cast<std::uint64_t>(values.size()));
  for (const auto& value : values) archive(value);
}
/// How many elements follow. Each takes a byte at least, so a count beyond what is left is invalid.
inline std::size_t read_count(ArchiveReader& archive) {
  std::uint64_t value = 0;
  archive.number(value);
  if (value > archive.remaining()) archive.refuse("list length", value);
  return archive.good() ? static_cast<std::size_t>(value) : 0;
}
/// Into a set or map: keys must come in strictly ascending order, as they were written.
template <class Entry, class Sorted>
void read_sorted(ArchiveReader& archive, Sorted& values) {
  values.clear();
  for (std::size_t left = read_count(archive); left > 0 && archive.good(); --left) {
    Entry entry;
    archive(entry);
    if (!values.empty() && !values.value_comp()(*values.rbegin(), entry)) {
      archive.refuse("keys out of order in a set or map");
    }
    if (archive.good()) values.insert(values.end(), std::move(entry));
  }
}

inline void write(ArchiveWriter& archive, const std::string& text) { write_list(archive, text); }
inline void read(ArchiveReader& archive, std::string& text) {
  text.resize(read_count(archive));
  for (char& character : text) archive(character);
}

/// As its name.
template <Choice T>
void write(ArchiveWriter& archive, const T& choice) {
  archive(name_of(choice));
}
template <Choice T>
void read(ArchiveReader& archive, T& choice) {
  std::string name;
  archive(name);
  const std::optional<T> known = value_named<T>(name);
  if (!known) archive.refuse("name", name);
  choice = known.value_or(T{});
}

template <class T>
void write(ArchiveWriter& archive, const std::vector<T>& values) {
  write_list(archive, values);
}
template <class T>
void read(ArchiveReader& archive, std::vector<T>& values) {
  values.clear();
  for (std::size_t left = read_count(archive); left > 0 && archive.good(); --left) {
    archive(values.emplace_back());
  }
}

/// As what they share.
inline void write(ArchiveWriter& archive, const SharedDoubles& values) {
  write_list(archive, values);
}
inline void read(ArchiveReader& archive, SharedDoubles& values) {
  std::vector<double> own;
  archive(own);
  values = std::move(own);
}

template <class T>
void write(ArchiveWriter& archive, const std::set<T>& values) {
  write_list(archive, values);
}
template <class T>
void read(ArchiveReader& archive, std::set<T>& values) {
  read_sorted<T>(archive, values);
}

template <class First, class Second>
void write(ArchiveWriter& archive, const std::pair<First, Second>& pair) {
  archive(pair.first, pair.second);
}
template <class First, class Second>
void read(ArchiveReader& archive, std::pair<First, Second>& pair) {
  archive(pair.first, pair.second);
}

template <class Key, class Value>
void write(ArchiveWriter& archive, const std::map<Key, Value>& values) {
  write_list(archive, values);
}
template <class Key, class Value>
void read(ArchiveReader& archive, std::map<Key, Value>& values) {
  read_sorted<std::pair<Key, Value>>(archive, values);
}

// ---- what may be absent, and one of several

template <class T>
void write(ArchiveWriter& archive, const std::optional<T>& value) {
  archive(value.has_value());
  if (value) archive(*value);
}
template <class T>
void read(ArchiveReader& archive, std::optional<T>& value) {
  bool present = false;
  archive(present);
  value.reset();
  if (present) archive(value.emplace());
}

/// An object that several share in memory is written for each of them.
template <class T>
void write(ArchiveWriter& archive, const std::shared_ptr<const T>& pointer) {
  archive(pointer != nullptr);
  if (pointer) archive(*pointer);
}
template <class T>
std::shared_ptr<const T> read_shared(ArchiveReader& archive) {
  const auto object = std::make_shared<T>();
  archive(*object);
  return object;
}
template <class T>
void read(ArchiveReader& archive, std::shared_ptr<const T>& pointer) {
  bool present = false;
  archive(present);
  pointer = present ? read_shared<T>(archive) : nullptr;
}

/// As the number in its table.
template <class Kinds>
void write(ArchiveWriter& archive, const OpaqueVariant<Kinds>& choice) {
  archive.number(choice.number());
  visit(archive, choice);
}
template <class Kinds>
void read(ArchiveReader& archive, OpaqueVariant<Kinds>& choice) {
  std::uint8_t number = 0;
  archive.number(number);
  if (!Kinds::has_number(number)) archive.refuse("kind", number);
  if (!archive.good()) return;
  Kinds::for_each_row([&]<std::uint8_t kNumber, class Kind>() {
    if (number != kNumber) return;
    archive.begin(kTypeName<Kind>);
    choice = Kind();
    archive(*get_if<Kind>(&choice));
  });
}

// ---- a whole

template <HasFields T>
std::string to_bytes(const T& object) {
  ArchiveWriter archive;
  archive(object);
  const std::vector<std::byte> bytes = archive.take_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
/// Reads what to_bytes() has written. Errors: failed, with what is invalid and in which struct.
template <HasFields T>
Result<T> from_bytes(std::span<const std::byte> bytes, PayloadRef payload = nullptr) {
  ArchiveReader archive(bytes, std::move(payload));
  archive.begin(kTypeName<T>);
  T object;
  archive(object);
  if (const std::string error = archive.error(); !error.empty()) return Status::failed(error);
  return object;
}

template <HasFields T>
Result<T> from_bytes(std::string_view bytes) {
  return from_bytes<T>(std::as_bytes(std::span<const char>(bytes)));
}

}  // namespace swarmpi
