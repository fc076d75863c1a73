#include "io/journal/format.hpp"

#include <fmt/core.h>

#include <cctype>
#include <optional>
#include <utility>

#include "core/archive.hpp"
#include "core/hash.hpp"
#include "io/format_version.hpp"

namespace swarmpi {
namespace {

const std::string kMagic = kJournalFormat.mark();  // of this version; all have 4 bytes
constexpr std::uint32_t kBeginType = 0;

/// What stands between the magic and the payload.
struct FrameHead {
  std::uint32_t type = 0;
  std::uint64_t length = 0;
  std::uint64_t synced = 0;
  std::uint64_t checksum = 0;
};

}  // namespace

SWARMPI_FIELDS(FrameHead, type, length, synced, checksum);

namespace {

constexpr std::size_t kHeadBytes = 28;
constexpr std::size_t kCheckedBytes = 20;  // of these: all but the checksum

std::uint64_t checksum_of(std::string_view head, std::string_view payload) {
  return hash_bytes(payload.data(), payload.size(), hash_bytes(head.data(), kCheckedBytes));
}

std::string frame(std::uint32_t type, std::uint64_t synced, const std::string& payload) {
  FrameHead head{type, payload.size(), synced, 0};
  head.checksum = checksum_of(to_bytes(head), payload);
  return kMagic + to_bytes(head) + payload;
}

struct Frame {
  FrameHead head;
  std::string_view payload;

  std::size_t size_bytes() const { return kMagic.size() + kHeadBytes + payload.size(); }
};

std::string magic_of(int version) { return kJournalFormat.name + std::to_string(version); }

/// The frame at the start of `bytes`, if it is there and whole. `magic`: of the file's version.
std::optional<Frame> whole_frame(std::string_view bytes, const std::string& magic) {
  if (!bytes.starts_with(magic)) return {};
  bytes.remove_prefix(magic.size());
  if (bytes.size() < kHeadBytes) return {};
  const std::string_view head_bytes = bytes.substr(0, kHeadBytes);
  const FrameHead head = from_bytes<FrameHead>(head_bytes).value();
  if (head.length > bytes.size() - kHeadBytes) return {};
  const std::string_view payload = bytes.substr(kHeadBytes, head.length);
  if (checksum_of(head_bytes, payload) != head.checksum) return {};
  return Frame{head, payload};
}

/// Bytes of the columns that this kind of row has got since the version; all of them are its last.
template <class Row>
std::size_t bytes_added_since(int version) {
  constexpr bool kGrewIn3 = std::is_same_v<Row, PeerRow> || std::is_same_v<Row, ThroughputRow>;
  constexpr bool kGrewIn4 = std::is_same_v<Row, PeerRow>;
  const int columns = (kGrewIn3 && version < 3 ? 1 : 0) + (kGrewIn4 && version < 4 ? 1 : 0);
  return static_cast<std::size_t>(columns) * sizeof(double);
}

/// What a row of an earlier version lacks reads as zeros.
std::optional<Record> decode_record(const RecordFrame& frame, int version) {
  std::optional<Record> record;
  RecordKinds::for_each_row([&]<std::uint8_t kNumber, class Row>() {
    if (frame.type != kNumber) return;
    const std::string payload =
        std::string(frame.payload) + std::string(bytes_added_since<Row>(version), '\0');
    const auto row = from_bytes<Row>(payload);
    if (row.ok()) record = row.value();
  });
  return record;
}

/// Whether by a whole record in `bytes` record `number` was durable before it.
bool was_synced(std::string_view bytes, const std::string& magic, std::uint64_t number) {
  for (std::size_t at = bytes.find(magic); at != std::string_view::npos;
       at = bytes.find(magic, at + 1)) {
    const std::optional<Frame> frame = whole_frame(bytes.substr(at), magic);
    if (frame && frame->head.synced > number) return true;
  }
  return false;
}

/// The version of the journal that begins so, if this build reads it.
Result<int> version_at_start(std::string_view bytes, const std::string& path) {
  const std::string start(bytes.substr(0, kMagic.size()));
  // After a power loss the file may have its size but not its content.
  if (start == kMagic.substr(0, start.size()) || start == std::string(start.size(), '\0'))
    return kJournalFormat.newest;
  const std::string name = kJournalFormat.name;
  if (start.rfind(name, 0) != 0 || std::isdigit(start.back()) == 0) {
    return Status::bad_input(path + " is not a journal of SwarMPI, or its start is damaged");
  }
  const Status known = check_version(kJournalFormat, start.substr(name.size()), path);
  if (!known.ok()) return known;
  return start.back() - '0';
}

}  // namespace

std::string encode(const JournalBegin& begin) { return frame(kBeginType, 0, to_bytes(begin)); }

std::string payload_of(const Record& record) {
  return std::visit([](const auto& row) { return to_bytes(row); }, record);
}

std::string encode(const Record& record, std::uint64_t synced) {
  return frame(number_of(record), synced, payload_of(record));
}

Result<int> journal_version(std::string_view start, const std::string& path) {
  return version_at_start(start, path);
}

std::optional<RecordFrame> first_frame(std::string_view bytes, int version) {
  const std::optional<Frame> frame = whole_frame(bytes, magic_of(version));
  if (!frame) return {};
  return RecordFrame{frame->head.type, frame->head.synced, frame->payload, frame->size_bytes()};
}

bool is_begin(const RecordFrame& frame) { return frame.type == kBeginType; }

std::optional<JournalBegin> decode_begin(const RecordFrame& frame, int version) {
  const bool has_first_term = version >= 6;
  const std::string payload =
      std::string(frame.payload) + std::string(has_first_term ? 0 : sizeof(std::int64_t), '\0');
  Result<JournalBegin> begin = from_bytes<JournalBegin>(payload);
  return begin.ok() ? std::optional(std::move(begin).value()) : std::nullopt;
}

std::optional<Record> decode_row(const RecordFrame& frame, int version) {
  return decode_record(frame, version);
}

std::size_t next_frame(std::string_view bytes, int version, std::size_t from) {
  return bytes.find(magic_of(version), from);
}

bool was_durable(std::string_view bytes, int version, std::uint64_t number) {
  return was_synced(bytes, magic_of(version), number);
}

}  // namespace swarmpi
