#pragma once
// The bytes of a journal: little-endian, field by field, never a struct. Every record is framed:
//
//   magic "SWJN"  4 bytes, the version of the format in it
//   type          4 bytes, 0 for JournalBegin, else the number in RecordKinds
//   length        8 bytes, of the payload
//   synced        8 bytes, how many records of this file were durable before this one was written
//   checksum      8 bytes, XXH3 of type, length, synced and payload
//   payload
//
// `synced` tells a crash from damage: after a crash any record that was not yet synced may be
// broken, even with whole ones behind it; a broken record that by the `synced` of a later one was
// durable is damage.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

/// No record is longer: a reader that finds none in as many bytes has found a break.
inline constexpr std::size_t kLongestRecordBytes = std::size_t{64} << 20;

/// A framed record, ready to be appended.
std::string encode(const JournalBegin& begin);
std::string encode(const Record& record, std::uint64_t synced);

/// Equal if and only if all fields hold the same bits.
std::string payload_of(const Record& record);

/// A whole frame at the start of some bytes, which it refers to.
struct RecordFrame {
  std::uint32_t type = 0;
  std::uint64_t synced = 0;
  std::string_view payload;
  std::size_t size_bytes = 0;
};

/// The version of the journal that begins so, if this build reads it; the newest, where so little
/// of the start is there that it may be any. Errors: bad_input (of another version, not a journal);
/// `path` is the file's in messages.
Result<int> journal_version(std::string_view start, const std::string& path);
/// Nothing where no whole frame begins there.
std::optional<RecordFrame> first_frame(std::string_view bytes, int version);
bool is_begin(const RecordFrame& frame);
std::optional<JournalBegin> decode_begin(const RecordFrame& frame, int version);
std::optional<Record> decode_row(const RecordFrame& frame, int version);
/// Where the next frame may begin, from this byte on; npos: nowhere.
std::size_t next_frame(std::string_view bytes, int version, std::size_t from);
/// Whether by a whole record in `bytes` record `number` of the file was durable before it.
bool was_durable(std::string_view bytes, int version, std::uint64_t number);

}  // namespace swarmpi
