#include "core/archive.hpp"

#include <fmt/core.h>

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
