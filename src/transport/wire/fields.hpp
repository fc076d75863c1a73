#pragma once
// fields(archive, object) of what messages are made of: numbers, enumerators, ids, and containers
// of types that have fields.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/bitmap.hpp"
#include "protocol/messages/messages.hpp"
#include "transport/wire/archive.hpp"

namespace swarmpi::wire {

template <class Archive, class T>
void fields(Archive& archive, T& value) requires Number<std::remove_const_t<T>> {
  archive.number(value);
}

void fields(auto& archive, Is<bool> auto& value) {
  auto byte = static_cast<std::uint8_t>(value);
  archive.number(byte);
  if constexpr (std::decay_t<decltype(archive)>::kReading) {
    if (byte > 1) archive.refuse("bool", byte);
    value = byte == 1;
  }
}

// Enumerators count from 0 to `last`.
template <class Enum>
void enumerator(auto& archive, auto& value, Enum last) {
  auto byte = static_cast<std::uint8_t>(value);
  archive.number(byte);
  if constexpr (std::decay_t<decltype(archive)>::kReading) {
    if (byte > static_cast<std::uint8_t>(last)) archive.refuse("enumerator", byte);
    value = static_cast<Enum>(byte);
  }
}
void fields(auto& archive, Is<Purpose> auto& value) {
  enumerator(archive, value, Purpose::validate);
}
void fields(auto& archive, Is<ExitStatus> auto& value) {
  enumerator(archive, value, ExitStatus::stopped);
}
void fields(auto& archive, Is<Phase> auto& value) { enumerator(archive, value, Phase::over); }

template <class Archive, class Tag, class Value>
void fields(Archive& archive, const Id<Tag, Value>& id) {
  archive(id.value);
}
template <class Archive, class Tag, class Value>
void fields(Archive& archive, Id<Tag, Value>& id) {
  archive(id.value);
}

void fields(auto& archive, Is<PayloadRef> auto& payload) { archive.payload(payload); }

// ---- containers

// How many elements follow. Each takes a byte at least, so a count beyond what is left is invalid.
inline std::size_t count(Reader& archive) {
  std::uint64_t value = 0;
  archive.number(value);
  if (value > archive.remaining()) archive.refuse("list length", value);
  return archive.good() ? static_cast<std::size_t>(value) : 0;
}
template <class T>
void list(Writer& archive, const T& values) {
  archive.number(static_cast<std::uint64_t>(values.size()));
  for (const auto& value : values) archive(value);
}
// Into a set or map: keys must come in strictly ascending order, as they were written.
template <class Entry, class Sorted>
void read_sorted(Reader& archive, Sorted& values) {
  values.clear();
  for (std::size_t left = count(archive); left > 0 && archive.good(); --left) {
    Entry entry;
    archive(entry);
    if (!values.empty() && !values.value_comp()(*values.rbegin(), entry)) {
      archive.refuse("keys out of order in a set or map");
    }
    if (archive.good()) values.insert(values.end(), std::move(entry));
  }
}

inline void fields(Writer& archive, const std::string& text) { list(archive, text); }
inline void fields(Reader& archive, std::string& text) {
  text.resize(count(archive));
  for (char& character : text) archive(character);
}

template <class T>
void fields(Writer& archive, const std::vector<T>& values) {
  list(archive, values);
}
template <class T>
void fields(Reader& archive, std::vector<T>& values) {
  values.clear();
  for (std::size_t left = count(archive); left > 0 && archive.good(); --left) {
    archive(values.emplace_back());
  }
}

template <class T>
void fields(Writer& archive, const std::set<T>& values) {
  list(archive, values);
}
template <class T>
void fields(Reader& archive, std::set<T>& values) {
  read_sorted<T>(archive, values);
}

template <class First, class Second>
void fields(Writer& archive, const std::pair<First, Second>& pair) {
  archive(pair.first, pair.second);
}
template <class First, class Second>
void fields(Reader& archive, std::pair<First, Second>& pair) {
  archive(pair.first, pair.second);
}

template <class Key, class Value>
void fields(Writer& archive, const std::map<Key, Value>& values) {
  list(archive, values);
}
template <class Key, class Value>
void fields(Reader& archive, std::map<Key, Value>& values) {
  read_sorted<std::pair<Key, Value>>(archive, values);
}

template <class T>
void fields(Writer& archive, const std::optional<T>& value) {
  archive(value.has_value());
  if (value) archive(*value);
}
template <class T>
void fields(Reader& archive, std::optional<T>& value) {
  bool present = false;
  archive(present);
  value.reset();
  if (present) archive(value.emplace());
}

// An object that messages of one process share is written into each of them.
template <class T>
std::shared_ptr<const T> read_shared(Reader& archive) {
  const auto object = std::make_shared<T>();
  archive(*object);
  return object;
}
template <class T>
void write_or_null(Writer& archive, const std::shared_ptr<const T>& pointer) {
  archive(pointer != nullptr);
  if (pointer) archive(*pointer);
}
template <class T>
void read_or_null(Reader& archive, std::shared_ptr<const T>& pointer) {
  bool present = false;
  archive(present);
  pointer = present ? read_shared<T>(archive) : nullptr;
}

inline void fields(Writer& archive, const Bitmap& bitmap) {
  archive.number(bitmap.size());
  for (std::int64_t first = 0; first < bitmap.size(); first += 8) {
    unsigned byte = 0;
    for (int bit = 0; bit < 8; ++bit) byte |= bitmap.contains(first + bit) ? 1U << bit : 0U;
    archive.number(static_cast<std::uint8_t>(byte));
  }
}
inline void fields(Reader& archive, Bitmap& bitmap) {
  std::int64_t size = 0;
  archive.number(size);
  const auto bytes_left = static_cast<std::int64_t>(archive.remaining());
  if (size < 0 || size / 8 > bytes_left) {
    archive.refuse("bitmap size", static_cast<std::uint64_t>(size));
  }
  if (!archive.good()) return;
  bitmap = Bitmap(size);
  for (std::int64_t first = 0; first < size; first += 8) {
    std::uint8_t byte = 0;
    archive.number(byte);
    for (int bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1) == 0) continue;
      if (first + bit < size) {
        bitmap.insert(first + bit);
      } else {
        archive.refuse("bitmap byte", byte);
      }
    }
  }
}

// ---- ids

void fields(auto& archive, Is<MicrobatchId> auto& object) {
  auto& [step, purpose, index] = object;
  archive(step, purpose, index);
}
void fields(auto& archive, Is<WorkId> auto& object) {
  auto& [microbatch, stage] = object;
  archive(microbatch, stage);
}
void fields(auto& archive, Is<SealId> auto& object) {
  auto& [incarnation, term, number] = object;
  archive(incarnation, term, number);
}
void fields(auto& archive, Is<ViewNumber> auto& object) {
  auto& [term, number] = object;
  archive(term, number);
}

}  // namespace swarmpi::wire
