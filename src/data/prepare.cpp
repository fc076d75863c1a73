#include "data/prepare.hpp"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "core/hash.hpp"
#include "core/utf8.hpp"
#include "data/atomic_file.hpp"
#include "data/file_collector.hpp"
#include "data/mapped_file.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

bool is_text(std::string_view bytes) {
  return bytes.find('\0') == std::string_view::npos && is_utf8(bytes);
}

Status check_out(const std::string& out) {
  const fs::path path(out);
  std::error_code error;
  if (out.empty() || !path.has_filename() || fs::is_directory(path, error)) {
    return Status::bad_input(out + ": must be a file to write, not a folder");
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(folder, error)) {
    return Status::bad_input(out + ": cannot be written: there is no folder " + folder.string());
  }
  return {};
}

/// Appends the files that are text and new, each behind a newline if it is not the first.
Status write_texts(AtomicFile& file, const std::set<std::string>& paths, PreparedText& prepared) {
  std::set<std::pair<std::uint64_t, std::size_t>> seen;
  for (const std::string& path : paths) {
    const Result<MappedFile> source = MappedFile::open(path);
    if (!source.ok()) {
      ++prepared.not_text;
      continue;
    }
    const std::string_view bytes = source.value().bytes();
    if (bytes.empty()) continue;
    if (!is_text(bytes)) {
      ++prepared.not_text;
      continue;
    }
    if (!seen.insert({hash_bytes(bytes.data(), bytes.size()), bytes.size()}).second) {
      ++prepared.duplicates;
      continue;
    }
    const std::string_view separator = prepared.files > 0 ? "\n" : "";
    for (const std::string_view piece : {separator, bytes}) {
      if (Status status = file.write(piece); !status.ok()) return status;
      prepared.bytes += static_cast<std::int64_t>(piece.size());
    }
    ++prepared.files;
  }
  return {};
}

}  // namespace

Result<PreparedText> prepare_text(const std::string& out, const std::vector<std::string>& sources) {
  if (const Status status = check_out(out); !status.ok()) return status;
  FileCollector collector(out);
  for (const std::string& source : sources) {
    if (const Status status = collector.add_source(source); !status.ok()) return status;
  }
  PreparedText prepared;
  prepared.not_text = collector.unreadable_folders();
  AtomicFile file(out);
  if (const Status status = file.open(); !status.ok()) return status;
  if (const Status status = write_texts(file, collector.paths(), prepared); !status.ok()) {
    return status;
  }
  if (prepared.files == 0) {
    return Status::bad_input(out + ": not written, for no text was found in what was named");
  }
  if (const Status status = file.publish(); !status.ok()) return status;
  return prepared;
}

}  // namespace swarmpi
