#include "data/token_stream.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/check.hpp"
#include "core/hash.hpp"

namespace swarmpi {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

// llm.c's header: 256 int32, of which magic, version and number of tokens are used.
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);
constexpr std::int32_t kHeaderMagic = 20240520;
constexpr std::int32_t kHeaderVersion = 1;

Status bad_file(const std::string& path, const std::string& why) {
  return Status::bad_input("data.paths: " + path + ": " + why);
}

std::int32_t header_field(std::string_view bytes, std::size_t index) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

bool has_header(std::string_view bytes) {
  return bytes.size() >= kHeaderBytes && header_field(bytes, 0) == kHeaderMagic;
}

template <class Token>
std::int32_t token_at(std::string_view stored, std::int64_t index) {
  Token value = 0;
  std::memcpy(&value, stored.data() + static_cast<std::size_t>(index) * sizeof value, sizeof value);
  return value;
}

template <class Token>
void copy(std::string_view stored, std::int64_t first, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = token_at<Token>(stored, first + static_cast<std::int64_t>(i));
  }
}

/// Index of the first token >= vocab, or the number of tokens. Blocks are skipped by their maximum,
/// in a loop of constant length that the compiler vectorises.
template <class Token>
std::int64_t first_beyond(std::string_view stored, std::int64_t vocab) {
  constexpr std::int64_t block_size = 4096;
  const auto count = static_cast<std::int64_t>(stored.size() / sizeof(Token));
  if (vocab > std::numeric_limits<Token>::max()) return count;
  std::int64_t index = 0;
  for (; index + block_size <= count; index += block_size) {
    std::array<Token, block_size> block;
    std::memcpy(block.data(), stored.data() + static_cast<std::size_t>(index) * sizeof(Token),
                sizeof block);
    Token largest = 0;
    for (const Token token : block) largest = std::max(largest, token);
    if (largest >= vocab) break;
  }
  while (index < count && token_at<Token>(stored, index) < vocab) ++index;
  return index;
}

}  // namespace

Result<TokenStream> TokenStream::open(const DataConfig& config) {
  if (config.paths.empty()) return Status::bad_input("data.paths: no file is named");
  TokenStream stream;
  stream.wide_ = config.format == DataFormat::tokens_u16;
  for (const std::string& path : config.paths) {
    if (const Status status = stream.add(path); !status.ok()) return status;
  }
  return stream;
}

Status TokenStream::add(const std::string& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return bad_file(path, file.status().message());
  const std::string_view bytes = file.value().bytes();
  if (bytes.empty()) return bad_file(path, "is empty");
  if (wide_ && bytes.size() % 2 != 0) {
    return bad_file(path,
                    fmt::format("holds {} bytes, an odd number, so it is not made of 16-bit tokens",
                                bytes.size()));
  }
  Part part;
  part.path = path;
  if (wide_ && has_header(bytes)) {
    part.header_bytes = kHeaderBytes;
    const std::int32_t version = header_field(bytes, 1);
    if (version != kHeaderVersion) {
      return bad_file(path, fmt::format("has version {} of llm.c's header, only {} is known",
                                        version, kHeaderVersion));
    }
  }
  part.first = tokens_;
  part.tokens = static_cast<std::int64_t>((bytes.size() - part.header_bytes) / (wide_ ? 2 : 1));
  if (part.header_bytes > 0 && header_field(bytes, 2) != part.tokens) {
    return bad_file(path, fmt::format("its header says {} tokens, but {} are there",
                                      header_field(bytes, 2), part.tokens));
  }
  tokens_ += part.tokens;
  part.file = std::move(file).value();
  parts_.push_back(std::move(part));
  return {};
}

Status TokenStream::check_tokens(const Part& part, std::int64_t vocab) const {
  const std::string_view stored = part.stored();
  const std::int64_t bad = wide_ ? first_beyond<std::uint16_t>(stored, vocab)
                                 : first_beyond<std::uint8_t>(stored, vocab);
  if (bad == part.tokens) return {};
  const std::int64_t offset = bad * (wide_ ? 2 : 1);
  const std::int32_t value =
      wide_ ? token_at<std::uint16_t>(stored, bad) : token_at<std::uint8_t>(stored, bad);
  return bad_file(part.path,
                  fmt::format("token {} at byte {} is not below model.vocab = {}", value,
                              static_cast<std::int64_t>(part.header_bytes) + offset, vocab));
}

Result<std::uint64_t> TokenStream::scan(std::int64_t vocab) const {
  StreamHash hash;
  for (const Part& part : parts_) {
    hash.add(part.stored().data(), part.stored().size());
    if (const Status status = check_tokens(part, vocab); !status.ok()) return status;
  }
  return hash.value();
}

Status TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SWARMPI_CHECK(first >= 0 && first + count <= tokens_, "tokens outside of the stream");
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](std::int64_t at, const Part& p) { return at < p.first; }) -
              1;
  for (std::int64_t done = 0; done < count; ++part) {
    if (!part->file.is_whole()) {
      return Status::stopped("data.paths: " + part->path +
                             " was cut shorter since the run began: restore it, then resume");
    }
    const std::int64_t start = first + done - part->first;
    const std::int64_t here = std::min(count - done, part->tokens - start);
    const auto piece = out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(here));
    if (wide_)
      copy<std::uint16_t>(part->stored(), start, piece);
    else
      copy<std::uint8_t>(part->stored(), start, piece);
    done += here;
  }
  return {};
}

std::string TokenStream::identity() const {
  std::string text;
  for (const Part& part : parts_) {
    const std::string own = part.file.identity();
    if (own.empty()) return "";
    text += own + ";";
  }
  return text;
}

bool TokenStream::can_be_read_anew() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.file.can_be_read_anew(); });
}

}  // namespace swarmpi
