#include "io/journal/format.hpp"

#include <fmt/core.h>

#include <bit>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include "core/hash.hpp"
#include "io/format_version.hpp"
#include "io/row_fields.hpp"

namespace swarmpi {

namespace {

const std::string kMagic = kJournalFormat.mark();  // 4 bytes
constexpr std::size_t kHeaderBytes = 32;
constexpr std::uint64_t kBeginType = 0;
constexpr std::uint64_t kFirstRowType = 1;

void put(std::string& out, std::uint64_t value, int size_bytes = 8) {
  for (int i = 0; i < size_bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}
void put(std::string& out, std::int64_t value) { put(out, static_cast<std::uint64_t>(value)); }
void put(std::string& out, double value) { put(out, std::bit_cast<std::uint64_t>(value)); }
void put(std::string& out, bool value) { put(out, std::uint64_t{value}, 1); }
void put(std::string& out, const std::string& value) {
  put(out, std::uint64_t{value.size()});
  out += value;
}

std::uint64_t number_at(std::string_view bytes, std::size_t position, int size_bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < size_bytes; ++i) {
    value |=
        std::uint64_t{static_cast<unsigned char>(bytes[position + static_cast<std::size_t>(i)])}
        << (8 * i);
  }
  return value;
}

/// Reads fields from the front of a payload; `ok` turns false where it is too short.
struct FieldReader {
  std::string_view rest;
  bool ok = true;

  std::uint64_t number(int size_bytes) {
    const auto size = static_cast<std::size_t>(size_bytes);
    ok = ok && rest.size() >= size;
    if (!ok) return 0;
    const std::uint64_t value = number_at(rest, 0, size_bytes);
    rest.remove_prefix(size);
    return value;
  }
  void read(std::uint64_t& value) { value = number(8); }
  void read(std::int64_t& value) { value = static_cast<std::int64_t>(number(8)); }
  void read(double& value) { value = std::bit_cast<double>(number(8)); }
  void read(bool& value) { value = number(1) != 0; }
  void read(std::string& value) {
    const std::uint64_t size = number(8);
    ok = ok && size <= rest.size();
    if (!ok) return;
    value = rest.substr(0, size);
    rest.remove_prefix(size);
  }
};

/// use(field) for each field of the first record, in order. Begin may be const.
template <class Begin, class Use>
void for_each_begin_field(Begin& begin, Use&& use) {
  use(begin.term);
  use(begin.incarnation);
  use(begin.from_step);
  use(begin.delay);
  use(begin.carries_history);
  use(begin.must_agree);
  for (const auto& field : kOriginFields) use(begin.*field.member);
}

std::string frame(std::uint64_t type, std::uint64_t synced, const std::string& payload) {
  std::string checked;
  put(checked, type, 4);
  put(checked, std::uint64_t{payload.size()});
  put(checked, synced);
  std::string framed(kMagic);
  framed += checked;
  put(framed,
      hash_bytes(payload.data(), payload.size(), hash_bytes(checked.data(), checked.size())));
  return framed + payload;
}

struct Frame {
  std::uint64_t type = 0;
  std::uint64_t synced = 0;
  std::string_view payload;
  std::size_t size_bytes = 0;
};

/// The frame at the start of `bytes`, if it is there and whole.
std::optional<Frame> whole_frame(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) return {};
  const std::uint64_t length = number_at(bytes, 8, 8);
  if (length > bytes.size() - kHeaderBytes) return {};
  const std::string_view payload = bytes.substr(kHeaderBytes, length);
  const std::uint64_t checksum =
      hash_bytes(payload.data(), payload.size(), hash_bytes(bytes.data() + 4, 20));
  if (checksum != number_at(bytes, 24, 8)) return {};
  return Frame{number_at(bytes, 4, 4), number_at(bytes, 16, 8), payload, kHeaderBytes + length};
}

template <class Row>
std::optional<Record> decode_row(std::string_view payload) {
  Row row;
  FieldReader reader{payload};
  for_each_field<Row>([&](const auto& field) { reader.read(row.*field.member); });
  if (!reader.ok || !reader.rest.empty()) return {};
  return row;
}

/// Of type kFirstRowType + i is the row that is alternative i of Record.
template <std::size_t i = 0>
std::optional<Record> decode_record(const Frame& frame) {
  if constexpr (i < std::variant_size_v<Record>) {
    using Row = std::variant_alternative_t<i, Record>;
    if (frame.type == kFirstRowType + i) return decode_row<Row>(frame.payload);
    return decode_record<i + 1>(frame);
  }
  return {};
}

/// Whether by a whole record in `bytes` record `number` was durable before it.
bool was_synced(std::string_view bytes, std::uint64_t number) {
  for (std::size_t at = bytes.find(kMagic); at != std::string_view::npos;
       at = bytes.find(kMagic, at + 1)) {
    const std::optional<Frame> frame = whole_frame(bytes.substr(at));
    if (frame && frame->synced > number) return true;
  }
  return false;
}

/// Whether the file's start can be that of a journal that this build reads.
Status check_start(std::string_view bytes, const std::string& path) {
  const std::string start(bytes.substr(0, kMagic.size()));
  // After a power loss the file may have its size but not its content.
  if (start == kMagic.substr(0, start.size()) || start == std::string(start.size(), '\0'))
    return {};
  const std::string name = kJournalFormat.name;
  if (start.rfind(name, 0) != 0 || std::isdigit(start.back()) == 0) {
    return Status::bad_input(path + " is not a journal of SwarMPI, or its start is damaged");
  }
  return check_version(kJournalFormat, start.substr(name.size()), path);
}

}  // namespace

std::string encode(const JournalBegin& begin) {
  std::string payload;
  for_each_begin_field(begin, [&payload](const auto& value) { put(payload, value); });
  return frame(kBeginType, 0, payload);
}

std::string payload_of(const Record& record) {
  std::string payload;
  std::visit(
      [&payload]<class Row>(const Row& row) {
        for_each_field<Row>([&](const auto& field) { put(payload, row.*field.member); });
      },
      record);
  return payload;
}

std::string encode(const Record& record, std::uint64_t synced) {
  return frame(kFirstRowType + record.index(), synced, payload_of(record));
}

Result<TermContent> decode_term(std::string_view bytes, const std::string& name) {
  const auto broken = [&name](const std::string& why) {
    return Status::failed(fmt::format("journal {} {}", name, why));
  };
  if (Status known = check_start(bytes, name); !known.ok()) return known;
  TermContent content;
  std::uint64_t number = 0;
  std::size_t at = 0;
  for (; at < bytes.size(); ++number) {
    const std::optional<Frame> frame = whole_frame(bytes.substr(at));
    if (!frame) break;
    if ((number == 0) != (frame->type == kBeginType)) return broken("has records out of order");
    if (number == 0) {
      FieldReader reader{frame->payload};
      for_each_begin_field(content.begin, [&reader](auto& value) { reader.read(value); });
      if (!reader.ok) return broken("has an invalid first record");
      content.begun = true;
    } else {
      std::optional<Record> record = decode_record(*frame);
      if (!record) return broken(fmt::format("has an invalid record at byte {}", at));
      content.records.push_back(*std::move(record));
    }
    at += frame->size_bytes;
  }
  content.torn = at < bytes.size();
  if (content.torn && was_synced(bytes.substr(at), number)) {
    return broken(
        fmt::format("is damaged at byte {}: records that were durable cannot be read", at));
  }
  return content;
}

}  // namespace swarmpi
