#include "data/token_stream.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "data/token_format.hpp"

namespace swarmpi {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

/// What `use` gives for the type of the tokens as they are stored.
template <class Use>
auto with_token_type(DataFormat format, const Use& use) {
  switch (format) {
    case DataFormat::tokens_u16:
      return use(std::uint16_t{});
    case DataFormat::tokens_u32:
      return use(std::uint32_t{});
    case DataFormat::bytes:
      break;
  }
  return use(std::uint8_t{});
}

template <class Token>
Token token_at(std::string_view stored, std::int64_t index) {
  Token value = 0;
  std::memcpy(&value, stored.data() + static_cast<std::size_t>(index) * sizeof value, sizeof value);
  return value;
}

template <class Token>
void copy(std::string_view stored, std::int64_t first, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<std::int32_t>(token_at<Token>(stored, first + static_cast<std::int64_t>(i)));
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

Result<TokenStream> TokenStream::open(const std::string& key, const std::vector<std::string>& paths,
                                      DataFormat format) {
  if (paths.empty()) return Status::bad_input(key + ": no file is named");
  TokenStream stream;
  stream.key_ = key;
  stream.format_ = format;
  for (const std::string& path : paths) {
    if (const Status status = stream.add(path); !status.ok()) return status;
  }
  return stream;
}

Status TokenStream::add(const std::string& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return bad_file(path, file.status().message());
  const std::string_view bytes = file.value().bytes();
  if (bytes.empty()) return bad_file(path, "is empty");
  const Result<std::size_t> header = header_bytes(bytes, format_);
  if (!header.ok()) return bad_file(path, header.status().message());
  Part part;
  part.path = path;
  part.header_bytes = header.value();
  part.first = tokens_;
  part.tokens = static_cast<std::int64_t>(bytes.size() - part.header_bytes) / token_bytes(format_);
  tokens_ += part.tokens;
  part.file = std::move(file).value();
  parts_.push_back(std::move(part));
  return {};
}

Status TokenStream::check_tokens(const Part& part, std::int64_t vocab) const {
  return with_token_type(format_, [&]<class Token>(Token) -> Status {
    const std::string_view stored = part.stored();
    const std::int64_t bad = first_beyond<Token>(stored, vocab);
    if (bad == part.tokens) return {};
    const std::int64_t offset =
        static_cast<std::int64_t>(part.header_bytes) + bad * token_bytes(format_);
    const std::string doubt = part.header_bytes > 0 ? "" : doubt_about(part.file.bytes(), format_);
    return bad_file(part.path, fmt::format("token {} at byte {} is not below model.vocab = {}{}{}",
                                           std::int64_t{token_at<Token>(stored, bad)}, offset,
                                           vocab, doubt.empty() ? "" : "; the file ", doubt));
  });
}

std::vector<std::string> TokenStream::warnings() const {
  std::vector<std::string> lines;
  for (const Part& part : parts_) {
    if (part.header_bytes > 0) continue;
    const std::string doubt = doubt_about(part.file.bytes(), format_);
    if (!doubt.empty()) lines.push_back(fmt::format("{}: {} {}", key_, part.path, doubt));
  }
  return lines;
}

std::vector<std::string> TokenStream::warnings_of_shared_files(const TokenStream& other) const {
  std::vector<std::string> lines;
  for (const Part& part : parts_) {
    const auto same = std::ranges::find_if(other.parts_, [&part](const Part& one) {
      return one.file.identity() == part.file.identity();
    });
    if (same == other.parts_.end()) continue;
    lines.push_back(fmt::format("{}: {} is one of {}{}: its loss is not that of held-out data",
                                key_, part.path, other.key_,
                                same->path == part.path ? "" : ", as " + same->path));
  }
  return lines;
}

Result<std::uint64_t> TokenStream::scan(std::int64_t vocab) const {
  StreamHash hash;
  for (const Part& part : parts_) {
    hash.add(part.stored().data(), part.stored().size());
    if (const Status status = check_tokens(part, vocab); !status.ok()) return status;
  }
  return hash.value();
}

Status TokenStream::was_changed(const std::string& path) const {
  return Status::stopped(key_ + ": " + path +
                         " was changed since the run began: restore it, then resume");
}

Status TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SWARMPI_CHECK(first >= 0 && first + count <= tokens_, "tokens outside of the stream");
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](std::int64_t at, const Part& p) { return at < p.first; }) -
              1;
  for (std::int64_t done = 0; done < count; ++part) {
    if (!part->file.is_unchanged()) return was_changed(part->path);
    const std::int64_t start = first + done - part->first;
    const std::int64_t here = std::min(count - done, part->tokens - start);
    const auto piece = out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(here));
    with_token_type(format_,
                    [&]<class Token>(Token) { copy<Token>(part->stored(), start, piece); });
    if (!part->file.is_unchanged()) return was_changed(part->path);
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
