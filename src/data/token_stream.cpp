#include "data/token_stream.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"

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

}  // namespace

Result<TokenStream> TokenStream::open(const DataConfig& config) {
  if (config.paths.empty()) return Status::bad_input("data.paths: no file is named");
  TokenStream stream;
  stream.wide_ = config.format == "tokens_u16";
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
    return bad_file(
        path,
        format("holds %zu bytes, an odd number, so it is not made of 16-bit tokens", bytes.size()));
  }
  Part part;
  part.path = path;
  if (wide_ && has_header(bytes)) {
    part.header_bytes = kHeaderBytes;
    const std::int32_t version = header_field(bytes, 1);
    if (version != kHeaderVersion) {
      return bad_file(path, format("has version %d of llm.c's header, only %d is known", version,
                                   kHeaderVersion));
    }
  }
  part.first = tokens_;
  part.tokens = static_cast<std::int64_t>((bytes.size() - part.header_bytes) / (wide_ ? 2 : 1));
  if (part.header_bytes > 0 && header_field(bytes, 2) != part.tokens) {
    return bad_file(path, format("its header says %d tokens, but %lld are there",
                                 header_field(bytes, 2), static_cast<long long>(part.tokens)));
  }
  tokens_ += part.tokens;
  part.file = std::move(file).value();
  parts_.push_back(std::move(part));
  return {};
}

std::int32_t TokenStream::token(const Part& part, std::int64_t index) const {
  const char* bytes = part.file.bytes().data() + part.header_bytes;
  if (!wide_) return static_cast<unsigned char>(bytes[index]);
  std::uint16_t value = 0;
  std::memcpy(&value, bytes + 2 * index, sizeof value);
  return value;
}

Status TokenStream::check_tokens(const Part& part, std::int64_t vocab) const {
  if (vocab >= (wide_ ? 65536 : 256)) return {};
  for (std::int64_t i = 0; i < part.tokens; ++i) {
    const std::int32_t value = token(part, i);
    if (value >= vocab) {
      const long long offset = static_cast<long long>(part.header_bytes) + i * (wide_ ? 2 : 1);
      return bad_file(part.path, format("token %d at byte %lld is not below model.vocab = %lld",
                                        value, offset, static_cast<long long>(vocab)));
    }
  }
  return {};
}

Result<std::uint64_t> TokenStream::scan(std::int64_t vocab) const {
  StreamHash hash;
  for (const Part& part : parts_) {
    const std::string_view stored = part.file.bytes().substr(part.header_bytes);
    hash.add(stored.data(), stored.size());
    if (const Status status = check_tokens(part, vocab); !status.ok()) return status;
  }
  return hash.value();
}

void TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SWARMPI_CHECK(first >= 0 && first + count <= tokens_, "tokens outside of the stream");
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](std::int64_t at, const Part& p) { return at < p.first; }) -
              1;
  for (std::int64_t done = 0; done < count; ++part) {
    const std::int64_t start = first + done - part->first;
    const std::int64_t here = std::min(count - done, part->tokens - start);
    for (std::int64_t i = 0; i < here; ++i) {
      out[static_cast<std::size_t>(done + i)] = token(*part, start + i);
    }
    done += here;
  }
}

}  // namespace swarmpi
