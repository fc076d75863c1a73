#include "data/foreign_file.hpp"

#include <algorithm>
#include <cstddef>

namespace swarmpi {
namespace {

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  ForeignFile file;
};

constexpr std::string_view kZip = "PK\x03\x04";

constexpr Signature kSignatures[] = {
    {0, "\x1F\x8B\x08", {"compressed by gzip", "unpack it (gunzip -k)"}},
    {4, "1AY&SY", {"compressed by bzip2", "unpack it (bunzip2 -k)"}},
    {0, "\3757zXZ", {"compressed by xz", "unpack it (unxz -k)"}},
    {0, "\x28\xB5\x2F\xFD", {"compressed by zstd", "unpack it (unzstd)"}},
    {0, "\x04\x22\x4D\x18", {"compressed by lz4", "unpack it (unlz4 -k)"}},
    {0, kZip, {"a zip archive", "unpack it (unzip)"}},
    {0, "7z\xBC\xAF\x27\x1C", {"a 7z archive", "unpack it (7z x)"}},
    {257, "ustar", {"a tar archive", "unpack it (tar -xf)"}},
    {0, "PAR1", {"a Parquet table", "write its text, or its tokens, to a file of their own"}},
    {0, "ARROW1", {"an Arrow table", "write its text, or its tokens, to a file of their own"}},
    {0, "\x89HDF\r\n\x1A\n", {"an HDF5 file", "write its tokens to a file of their own"}},
    {0, "MMIDIDX", {"the index of Megatron's tokens", "name the .bin file beside it"}},
    {0, "\177ELF", {"a program or library (ELF)", "name a file of text or tokens"}},
    {0,
     "\x93NUMPY",
     {"a NumPy array (.npy)", "it is read with data.format = \"tokens_u16\" or \"tokens_u32\""}},
};

constexpr ForeignFile kNumpyArchive = {"a NumPy archive (.npz)",
                                       "save the array of tokens alone, with numpy.save"};

/// Whether the first member of a zip archive is an array of NumPy's.
bool is_numpy_archive(std::string_view file) {
  constexpr std::size_t kNameOffset = 30, kLongestName = 256;
  if (file.size() < kNameOffset) return false;
  return file.substr(kNameOffset, kLongestName).find(".npy") != std::string_view::npos;
}

}  // namespace

std::optional<ForeignFile> foreign_file(std::string_view file) {
  const auto* const found = std::ranges::find_if(kSignatures, [&](const Signature& one) {
    return file.size() > one.offset && file.substr(one.offset).starts_with(one.bytes);
  });
  if (found == std::end(kSignatures)) return std::nullopt;
  if (found->bytes == kZip && is_numpy_archive(file)) return kNumpyArchive;
  return found->file;
}

}  // namespace swarmpi
