#include "data/prepare.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "core/text.hpp"
#include "data/mapped_file.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

/// All regular files under the sources, each path once, in the order of the paths' bytes. A source
/// may be a link; links inside folders are not followed. `out` is left out, and so are temporary
/// files beside it, which earlier runs that were killed have left.
class FileCollector {
 public:
  explicit FileCollector(const std::string& out) : out_(out) {}

  /// Errors: bad_input, if the source itself is missing, unreadable, or neither file nor folder.
  Status add_source(const std::string& source);

  const std::set<std::string>& paths() const { return paths_; }
  std::int64_t unreadable_folders() const { return unreadable_folders_; }

 private:
  void add_folder(const std::string& top);
  bool is_output(const fs::path& path) const;

  fs::path out_;
  std::set<std::string> paths_;
  std::int64_t unreadable_folders_ = 0;
};

Status FileCollector::add_source(const std::string& source) {
  const auto problem = [&](const std::string& why) {
    return Status::bad_input(source + ": " + why);
  };
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status)) return problem("cannot be read: " + error.message());
  if (fs::is_directory(status)) {
    const fs::directory_iterator entries(source, error);
    if (error) return problem("cannot be read: " + error.message());
    add_folder(source);
    return {};
  }
  if (!fs::is_regular_file(status)) return problem("is neither a file nor a folder");
  // A file that was named must be readable; one found in a folder is only counted.
  const Result<MappedFile> file = MappedFile::open(source);
  if (!file.ok()) return problem("cannot be read: " + file.status().message());
  if (!is_output(source)) paths_.insert(source);
  return {};
}

void FileCollector::add_folder(const std::string& top) {
  std::vector<fs::path> folders = {top};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    if (error) ++unreadable_folders_;
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::error_code ignored;
      const fs::file_status status = entry->symlink_status(ignored);
      if (fs::is_directory(status)) folders.push_back(entry->path());
      if (fs::is_regular_file(status) && !is_output(entry->path())) {
        paths_.insert(entry->path().string());
      }
    }
  }
}

bool FileCollector::is_output(const fs::path& path) const {
  const std::string name = path.filename().string();
  if (name != out_.filename() && !is_temporary_name(name)) return false;
  std::error_code error;
  return fs::equivalent(folder_of(path), folder_of(out_), error);
}

bool is_text(std::string_view bytes) {
  return bytes.find('\0') == std::string_view::npos && is_utf8(bytes);
}

Status check_out(const std::string& out) {
  const fs::path path(out);
  std::error_code error;
  if (out.empty() || !path.has_filename() || fs::is_directory(path, error)) {
    return Status::bad_input(out + ": must be a file to write, not a folder");
  }
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, error)) {
    return Status::bad_input(out + ": cannot be written: there is no folder " + folder.string());
  }
  return {};
}

Status unwritable(const std::string& out, int error) {
  return Status::bad_input(out + ": cannot be written: " + std::strerror(error));
}

/// Writes each file that is text and whose content was not written before, with a newline between
/// two. Returns 0 or an errno.
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
      if (const int error = write_all(file, piece); error != 0) return error;
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
    return Status::bad_input(out + ": not written, for the sources hold no text");
  }
  if (error == 0) error = sync_descriptor(file);
  if (error == 0) error = file.close();
  if (error != 0) return unwritable(out, error);
  // Not `stopped`: exit status 3 means that a run can be resumed.
  const Status published = temporary.publish();
  if (!published.ok()) return Status::bad_input(published.message());
  return prepared;
}

}  // namespace swarmpi
