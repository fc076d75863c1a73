#include "io/journal/term_end.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include "io/files.hpp"
#include "io/journal/format.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kFirstTailBytes = 1 << 16, kFirstPieceBytes = 1 << 20;
constexpr auto kMostBytes = static_cast<std::int64_t>(kLongestRecordBytes);

Status unread(const std::string& path, const std::string& why) {
  return Status::bad_input(fmt::format("cannot read {}: {}", path, why));
}

Result<std::string> read_bytes(const Descriptor& file, std::int64_t from, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  const std::int64_t found = read_at(file, bytes.data(), bytes.size(), from);
  if (found < 0) return unread(file.path(), std::strerror(errno));
  bytes.resize(static_cast<std::size_t>(found));
  return bytes;
}

/// What the last bytes of a file say.
struct Piece {
  std::int64_t last_step = -1;
  std::size_t end = 0;  ///< of the last whole record, beyond which nothing counts
  bool proven = false;  ///< no record before the piece can be broken
};

// A first record with another count of durable ones than the one before has that very number, so
// all records before were durable: they are whole, or damaged.
Piece look_at(std::string_view bytes, int version, std::size_t first) {
  Piece piece{.last_step = -1, .end = first, .proven = false};
  std::optional<std::uint64_t> synced;
  while (const auto frame = first_frame(bytes.substr(piece.end), version)) {
    piece.proven = piece.proven || (synced && frame->synced > *synced);
    synced = frame->synced;
    const std::optional<Record> record =
        is_begin(*frame) ? std::nullopt : decode_row(*frame, version);
    if (record) {
      if (const auto* row = std::get_if<StepRow>(&*record)) piece.last_step = row->step;
    }
    piece.end += frame->size_bytes;
  }
  return piece;
}

// Where the first whole record begins. Bytes of a row may look like the start of one, but not with
// a checksum that fits.
std::size_t first_record(std::string_view bytes, int version) {
  std::size_t at = next_frame(bytes, version, 0);
  while (at != std::string_view::npos && !first_frame(bytes.substr(at), version)) {
    at = next_frame(bytes, version, at + 1);
  }
  return at;
}

// Up to the first break, with no more than a record in memory.
Status look_from_start(const Descriptor& file, std::int64_t size_bytes, int version, TermEnd& end) {
  end.last_step = -1;
  std::int64_t wanted = kFirstTailBytes;
  for (std::int64_t at = 0; at < size_bytes;) {
    const auto bytes = read_bytes(file, at, std::min(wanted, size_bytes - at));
    if (!bytes.ok()) return bytes.status();
    const Piece piece = look_at(bytes.value(), version, 0);
    if (piece.last_step >= 0) end.last_step = piece.last_step;
    at += static_cast<std::int64_t>(piece.end);
    end.torn = piece.end == 0;
    if (end.torn && wanted >= std::min(size_bytes - at, kMostBytes)) return {};
    wanted = end.torn ? wanted * 4 : kFirstPieceBytes;
  }
  return {};
}

}  // namespace

Result<TermEnd> read_term_end(const std::string& path) {
  const Result<OpenedFile> opened = open_to_read(path);
  if (!opened.ok()) return unread(path, opened.status().message());
  const auto& [file, size_bytes] = opened.value();
  TermEnd end;
  int version = 0;
  std::size_t begin_bytes = 0;
  for (std::int64_t wanted = kFirstTailBytes; begin_bytes == 0; wanted *= 16) {
    const auto start = read_bytes(file, 0, std::min(wanted, size_bytes));
    if (!start.ok()) return start.status();
    const Result<int> known = journal_version(start.value(), path);
    if (!known.ok()) return known.status();
    version = known.value();
    const auto frame = first_frame(start.value(), version);
    if (frame && is_begin(*frame)) end.begin = decode_begin(*frame, version);
    if (frame) begin_bytes = frame->size_bytes;
    if (!frame && wanted >= std::min(size_bytes, kMostBytes)) {
      end.torn = size_bytes > 0;
      return end;
    }
  }
  if (!end.begin) return Status::failed("journal " + path + " has an invalid first record");
  const std::int64_t most = std::min(size_bytes - 1, kMostBytes);
  for (std::int64_t wanted = kFirstTailBytes; wanted <= most; wanted *= 4) {
    const auto bytes = read_bytes(file, size_bytes - wanted, wanted);
    if (!bytes.ok()) return bytes.status();
    const std::size_t first = first_record(bytes.value(), version);
    if (first == std::string_view::npos) continue;  // a break, or a record, that is longer
    const Piece piece = look_at(bytes.value(), version, first);
    end.torn = piece.end < bytes.value().size();
    end.last_step = piece.last_step;
    if (piece.proven && piece.last_step >= 0) return end;
  }
  const Status read = look_from_start(file, size_bytes, version, end);
  return read.ok() ? Result<TermEnd>(end) : read;
}

}  // namespace swarmpi
