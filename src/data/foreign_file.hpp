#pragma once
// Files of other formats than tokens or text: compressed files, archives, tables, programs.

#include <optional>
#include <string_view>

namespace swarmpi {

struct ForeignFile {
  std::string_view is;      ///< "compressed by gzip", "a tar archive": what follows "is"
  std::string_view remedy;  ///< "unpack it (gunzip -k)": what to do
};

/// The format whose signature a file has; nothing where it has none. Signatures have four bytes or
/// more, but for gzip's three, so files of tokens or text hardly ever have one by chance.
std::optional<ForeignFile> foreign_file(std::string_view file);

}  // namespace swarmpi
