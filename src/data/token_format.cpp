#include "data/token_format.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text.hpp"
#include "data/foreign_file.hpp"
#include "data/numpy_header.hpp"

namespace swarmpi {
namespace {

// llm.c's header: 256 int32, of which magic, version and number of tokens are used.
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

struct Header {
  std::int32_t magic, version;
  DataFormat format;  // of the tokens behind it
};
constexpr Header kHeaders[] = {{20240520, 1, DataFormat::tokens_u16},   // of GPT-2's tokens
                               {20240801, 7, DataFormat::tokens_u32}};  // of Llama 3's

std::int32_t header_field(std::string_view bytes, std::size_t index) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// The header with which a file begins; null where there is none.
const Header* header_of(std::string_view file) {
  if (file.size() < kHeaderBytes) return nullptr;
  const auto* const found = std::find_if(std::begin(kHeaders), std::end(kHeaders), [&](auto& one) {
    return one.magic == header_field(file, 0);
  });
  return found == std::end(kHeaders) ? nullptr : found;
}

/// Whether what looks like a header of another format's may be two tokens of a plain file.
bool may_be_tokens(std::string_view file, const Header& header, DataFormat format) {
  return format == DataFormat::tokens_u16 && header_field(file, 1) != header.version;
}

Status check_size(std::string_view file, std::int64_t size) {
  const auto bytes = static_cast<std::int64_t>(file.size());
  if (bytes % size == 0) return {};
  const std::string why = size == 2 ? "an odd number" : fmt::format("no multiple of {}", size);
  return Status::bad_input(
      fmt::format("holds {} bytes, {}, so it is not made of {}-bit tokens", bytes, why, 8 * size));
}

Status check_header(std::string_view file, const Header& header, std::int64_t size) {
  const std::int32_t version = header_field(file, 1), said = header_field(file, 2);
  if (version != header.version) {
    return Status::bad_input(
        fmt::format("has version {} of llm.c's header, only {} is known", version, header.version));
  }
  const auto there = static_cast<std::int64_t>(file.size() - kHeaderBytes) / size;
  if (said == there) return {};
  return Status::bad_input(fmt::format("its header says {} tokens, but {} are there", said, there));
}

// ---- Guesses

constexpr std::size_t kLookedAtBytes = std::size_t{1} << 16;
constexpr std::size_t kLeastBytes = 1024;

/// UTF-8 without NUL; the last character may be cut off.
bool looks_like_text(std::string_view bytes) {
  if (bytes.find('\0') != std::string_view::npos) return false;
  for (std::size_t cut = 0; cut < 4 && cut <= bytes.size(); ++cut) {
    if (is_utf8(bytes.substr(0, bytes.size() - cut))) return true;
  }
  return false;
}

/// The share of small bytes (below 8) among those whose offset is i modulo 4.
std::array<double, 4> small_shares(std::string_view bytes) {
  std::array<double, 4> counts{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (static_cast<unsigned char>(bytes[i]) < 8) ++counts[i % 4];
  }
  for (double& count : counts) count /= static_cast<double>(bytes.size()) / 4;
  return counts;
}

/// The two high bytes of tokens below 2^19 are small, the highest is 0.
bool looks_like_u32(std::string_view bytes, const std::array<double, 4>& small) {
  for (std::size_t i = 3; i < bytes.size(); i += 4) {
    if (bytes[i] != '\0') return false;
  }
  return small[2] == 1 && small[0] < 0.5;
}

/// Most tokens of a text are frequent ones, which have small numbers: the high bytes are small much
/// more often than the low ones.
bool looks_like_u16(const std::array<double, 4>& small) {
  const double low = small[0] + small[2], high = small[1] + small[3];
  return std::min(small[1], small[3]) > 0.2 && high > 2 * low;
}

/// The upper half is always 0, the lower one seldom.
bool looks_like_u64(std::string_view bytes) {
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    if (bytes.substr(i + 4, 4) != std::string_view("\0\0\0\0", 4)) return false;
    if (bytes[i] == '\0' && bytes[i + 1] == '\0') ++zeros;
  }
  return zeros < bytes.size() / 16;
}

/// The bytes of a little-endian token of a file that begins with these ones; 0 if they do not tell.
int likely_token_bytes(std::string_view start, std::size_t file_size) {
  // What no byte of is 0 has no high bytes of small tokens.
  if (start.find('\0') == std::string_view::npos) return 0;
  const std::array<double, 4> small = small_shares(start);
  if (file_size % 8 == 0 && looks_like_u64(start)) return 8;
  if (file_size % 4 == 0 && looks_like_u32(start, small)) return 4;
  if (file_size % 2 == 0 && looks_like_u16(small)) return 2;
  return 0;
}

/// Whole tokens of any size, but not many.
std::string_view start_of(std::string_view file) {
  return file.substr(0, std::min(kLookedAtBytes, file.size() / 8 * 8));
}

/// "16-bit tokens", "text": what a file of that format looks like.
std::string look_of(DataFormat format) {
  if (format == DataFormat::bytes) return "text";
  return fmt::format("{}-bit tokens", 8 * token_bytes(format));
}

}  // namespace

std::int64_t token_bytes(DataFormat format) {
  switch (format) {
    case DataFormat::tokens_u16:
      return 2;
    case DataFormat::tokens_u32:
      return 4;
    case DataFormat::bytes:
      break;
  }
  return 1;
}

Result<std::size_t> header_bytes(std::string_view file, DataFormat format) {
  const std::int64_t size = token_bytes(format);
  if (size == 1) return std::size_t{0};
  if (has_numpy_header(file)) return numpy_header_bytes(file, format);
  if (const std::optional<ForeignFile> foreign = foreign_file(file); foreign) {
    return Status::bad_input(fmt::format("is {}, not a file of {}-bit tokens: {}", foreign->is,
                                         8 * size, foreign->remedy));
  }
  if (Status status = check_size(file, size); !status.ok()) return status;
  const Header* const header = header_of(file);
  if (header == nullptr) return std::size_t{0};
  if (header->format != format) {
    if (may_be_tokens(file, *header, format)) return std::size_t{0};
    return Status::bad_input(
        fmt::format("has llm.c's header of {}, but data.format is \"{}\": set data.format = \"{}\"",
                    look_of(header->format), name_of(format), name_of(header->format)));
  }
  if (Status status = check_header(file, *header, size); !status.ok()) return status;
  return kHeaderBytes;
}

std::optional<DataFormat> likely_format(std::string_view file) {
  if (const Header* const header = header_of(file); header != nullptr) return header->format;
  const std::string_view start = start_of(file);
  if (start.size() < kLeastBytes) return std::nullopt;
  if (looks_like_text(start)) return DataFormat::bytes;
  switch (likely_token_bytes(start, file.size())) {
    case 2:
      return DataFormat::tokens_u16;
    case 4:
      return DataFormat::tokens_u32;
    default:
      return std::nullopt;
  }
}

std::string doubt_about(std::string_view file, DataFormat format) {
  const std::string but = fmt::format(", but is read as data.format = \"{}\": ", name_of(format));
  if (format == DataFormat::bytes) {
    if (const std::optional<ForeignFile> foreign = foreign_file(file); foreign) {
      return fmt::format("is {}{}{}", foreign->is, but, foreign->remedy);
    }
  }
  if (const std::optional<DataFormat> likely = likely_format(file); likely) {
    if (*likely == format) return "";
    return fmt::format("looks like {}{}if it is, set data.format = \"{}\"", look_of(*likely), but,
                       name_of(*likely));
  }
  const std::string_view start = start_of(file);
  if (start.size() < kLeastBytes) return "";
  const auto numbers = [&](const char* look, int bytes, char order) {
    const int to = bytes == 2 || format == DataFormat::tokens_u16 ? 2 : 4;
    return fmt::format(
        "looks like {}{}-bit tokens{}if it is, "
        "numpy.fromfile(\"OLD\", \"{}u{}\").astype(\"<u{}\").tofile(\"NEW\")",
        look, 8 * bytes, but, order, bytes, to);
  };
  if (const int bytes = likely_token_bytes(start, file.size()); bytes != 0) {
    return numbers("", bytes, '<');
  }
  const std::string backward(start.rbegin(), start.rend());
  if (const int bytes = likely_token_bytes(backward, file.size()); bytes != 0) {
    return numbers("big-endian ", bytes, '>');
  }
  return "";
}

}  // namespace swarmpi
