#include "core/archive.hpp"

#include <fmt/core.h>

#include <limits>

#include "core/check.hpp"

namespace swarmpi {

void ArchiveWriter::payload(const PayloadRef& payload) {
  number<std::uint8_t>(payload ? 1 : 0);
  if (!payload) return;
  SWARMPI_CHECK(!payload_, "an archive has at most one payload beside it");
  payload_ = payload;
}

void ArchiveReader::payload(PayloadRef& payload) {
  std::uint8_t present = 0;
  number(present);
  if (present > 1) refuse("payload flag", present);
  if (present == 1 && !payload_) refuse("missing payload");
  payload = present == 1 ? std::move(payload_) : nullptr;
  payload_ = present == 1 ? nullptr : std::move(payload_);
}

namespace {

constexpr int kGroupBits = 7;
constexpr std::uint64_t kMore = 1U << kGroupBits;  // another group follows

void write_groups(ArchiveWriter& archive, std::uint64_t value) {
  for (; value >= kMore; value >>= kGroupBits) {
    archive.number(static_cast<std::uint8_t>(value % kMore + kMore));
  }
  archive.number(static_cast<std::uint8_t>(value));
}

std::uint64_t read_groups(ArchiveReader& archive) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += kGroupBits) {
    std::uint8_t group = 0;
    archive.number(group);
    value |= static_cast<std::uint64_t>(group % kMore) << shift;
    if (group < kMore) return value;
  }
  archive.refuse("number of more than 64 bits");
  return 0;
}

}  // namespace

// Of a difference the last bit is the sign.
void write(ArchiveWriter& archive, const std::vector<PeerId>& peers) {
  archive.number(static_cast<std::uint64_t>(peers.size()));
  std::int64_t before = 0;
  for (const PeerId peer : peers) {
    const std::int64_t difference = peer.value - before;
    const auto size = static_cast<std::uint64_t>(difference < 0 ? -difference - 1 : difference);
    write_groups(archive, size * 2 + (difference < 0 ? 1 : 0));
    before = peer.value;
  }
}

void read(ArchiveReader& archive, std::vector<PeerId>& peers) {
  peers.clear();
  std::int64_t before = 0;
  for (std::size_t left = read_count(archive); left > 0 && archive.good(); --left) {
    const std::uint64_t bits = read_groups(archive);
    const auto size = static_cast<std::int64_t>(bits / 2);
    const bool fits = size <= std::numeric_limits<std::uint32_t>::max();
    before += !fits ? 0 : bits % 2 == 1 ? -size - 1 : size;
    if (!fits || before != static_cast<decltype(PeerId::value)>(before)) {
      archive.refuse("difference of ids", bits);
    }
    peers.emplace_back(static_cast<decltype(PeerId::value)>(before));
  }
}

void ArchiveReader::refuse(const char* what) {
  if (good()) error_ = what;
}

void ArchiveReader::refuse(const char* what, std::uint64_t value) {
  if (good()) error_ = fmt::format("invalid {} ({})", what, value);
}

void ArchiveReader::refuse(const char* what, const std::string& value) {
  if (good()) error_ = fmt::format("invalid {} (`{}`)", what, value);
}

std::string ArchiveReader::error() const {
  std::string what = error_;
  if (good() && remaining() > 0) what = fmt::format("{} bytes after the end", remaining());
  if (what.empty() && payload_) what = "unexpected payload";
  return what.empty() ? "" : what + " in " + std::string(part_);
}

}  // namespace swarmpi
