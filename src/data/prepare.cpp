#include "data/prepare.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "core/hash.hpp"
#include "core/text.hpp"
#include "data/file_collector.hpp"
#include "data/mapped_file.hpp"
#include "io/descriptor.hpp"
#include "io/temporary_file.hpp"

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

Status unwritable(const std::string& out, int error) {
  return Status::bad_input(out + ": cannot be written: " + std::strerror(error));
}

/// Appends the files that are text and new, each behind a newline if it is not the first. Returns 0
/// or an errno.
int write_texts(const Descriptor& file, const std::set<std::string>& paths,
                PreparedText& prepared) {
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
      if (const int error = write_all(file.number(), piece); error != 0) return error;
      prepared.bytes += static_cast<std::int64_t>(piece.size());
    }
    ++prepared.files;
  }
  return 0;
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
  TemporaryFile temporary(out);
  Descriptor file = Descriptor::open(temporary.name(), O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) return unwritable(out, errno);
  int error = write_texts(file, collector.paths(), prepared);
  if (error == 0 && prepared.files == 0) {
    return Status::bad_input(out + ": not written, for no text was found in what was named");
  }
  if (error == 0) error = sync_descriptor(file.number());
  if (error == 0) error = file.close();
  if (error != 0) return unwritable(out, error);
  // Status 3 would promise that this can be resumed.
  const Status published = temporary.publish();
  if (!published.ok()) return Status::bad_input(published.message());
  return prepared;
}

}  // namespace swarmpi
