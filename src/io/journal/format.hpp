#pragma once
// The bytes of a journal: little-endian, field by field, never a struct. Every record is framed:
//
//   magic "SWJN"  4 bytes, the version of the format in it
//   type          4 bytes, 0 for JournalBegin, else 1 + index in Record
//   length        8 bytes, of the payload
//   synced        8 bytes, how many records of this file were durable before this one was written
//   checksum      8 bytes, XXH3 of type, length, synced and payload
//   payload
//
// `synced` tells a crash from damage: after a crash any record that was not yet synced may be
// broken, even with whole ones behind it; a broken record that by the `synced` of a later one was
// durable is damage.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

/// A framed record, ready to be appended.
std::string encode(const JournalBegin& begin);
std::string encode(const Record& record, std::uint64_t synced);

/// Equal if and only if all fields hold the same bits.
std::string payload_of(const Record& record);

/// The content of one term file.
struct TermContent {
  bool begun = false;  ///< false: created, but its first record never got to disk
  JournalBegin begin;
  std::vector<Record> records;
  bool torn = false;  ///< bytes behind the last whole record were dropped
};

/// Reads a term file's bytes. Errors: failed (damaged), bad_input (of another version, not a
/// journal); `name` is the file's in messages.
Result<TermContent> decode_term(std::string_view bytes, const std::string& name);

}  // namespace swarmpi
