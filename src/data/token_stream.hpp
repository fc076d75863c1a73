#pragma once
// Token files as one stream.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"
#include "data/mapped_file.hpp"

namespace swarmpi {

class TokenStream {
 public:
  /// Maps the files. `key`: the deck's, which messages begin with. Errors: bad_input with key and
  /// file.
  static Result<TokenStream> open(const std::string& key, const std::vector<std::string>& paths,
                                  DataFormat format);

  /// What messages begin with.
  const std::string& key() const { return key_; }
  std::int64_t tokens() const { return tokens_; }

  /// Reads every token once: XXH3 of all of them as stored, headers left out, whatever the cut into
  /// files. Errors: bad_input with file and offset of the first token >= vocab.
  Result<std::uint64_t> scan(std::int64_t vocab) const;

  /// Copies tokens first .. first + out.size() - 1. Errors: stopped, if a file was cut
  /// shorter since it was opened.
  Status read(std::int64_t first, std::span<std::int32_t> out) const;

  /// A line for each file that looks like one of another format, with key and file.
  std::vector<std::string> warnings() const;
  /// A sentence for each file that the other stream has as well, under whatever name.
  std::vector<std::string> warnings_of_shared_files(const TokenStream& other) const;

  /// Of all files; see MappedFile::identity(). "" where that of one is not known.
  std::string identity() const;
  /// Whether the files can be read now, from where they lie.
  bool can_be_read_anew() const;

 private:
  struct Part {
    std::string path;
    MappedFile file;
    std::size_t header_bytes = 0;
    std::int64_t first = 0;  ///< number of its first token in the stream
    std::int64_t tokens = 0;

    /// The tokens as they are in the file.
    std::string_view stored() const { return file.bytes().substr(header_bytes); }
  };

  Status add(const std::string& path);
  Status check_tokens(const Part& part, std::int64_t vocab) const;
  Status was_changed(const std::string& path) const;
  Status bad_file(const std::string& path, const std::string& why) const {
    return Status::bad_input(key_ + ": " + path + ": " + why);
  }

  std::string key_;
  DataFormat format_ = DataFormat::bytes;
  std::vector<Part> parts_;
  std::int64_t tokens_ = 0;
};

}  // namespace swarmpi
