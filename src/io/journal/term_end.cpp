#include "io/journal/term_end.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include "io/descriptor.hpp"
#include "io/journal/format.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kFirstTailBytes = 1 << 16;

Status unread(const std::string& path, int error) {
  return Status::bad_input(fmt::format("cannot read {}: {}", path, std::strerror(error)));
}

Result<std::string> read_bytes(const Descriptor& file, std::int64_t from, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  const std::int64_t found = read_at(file, bytes.data(), bytes.size(), from);
  if (found < 0) return unread(file.path(), errno);
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

}  // namespace

Result<TermEnd> read_term_end(const std::string& path) {
  const Descriptor file = Descriptor::open(path, O_RDONLY);
  struct stat found {};
  if (!file.valid() || ::fstat(file.number(), &found) != 0) return unread(path, errno);
  const std::int64_t size_bytes = found.st_size;
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
    if (frame && is_begin(*frame)) end.begin = decode_begin(*frame);
    if (frame) begin_bytes = frame->size_bytes;
    if (!frame && wanted >= size_bytes) {
      end.torn = size_bytes > 0;
      return end;
    }
  }
  if (!end.begin) return Status::failed("journal " + path + " has an invalid first record");
  for (std::int64_t wanted = kFirstTailBytes;; wanted *= 4) {
    const std::int64_t from = std::max<std::int64_t>(0, size_bytes - wanted);
    const auto bytes = read_bytes(file, from, size_bytes - from);
    if (!bytes.ok()) return bytes.status();
    const std::size_t first = from == 0 ? 0 : first_record(bytes.value(), version);
    if (first == std::string_view::npos) continue;  // a break, or a record, that is longer
    const Piece piece = look_at(bytes.value(), version, first);
    end.torn = piece.end < bytes.value().size();
    end.last_step = piece.last_step;
    if (from == 0 || (piece.proven && piece.last_step >= 0)) return end;
  }
}

}  // namespace swarmpi
