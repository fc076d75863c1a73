#include "data/prepare.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "core/missing_file.hpp"
#include "core/text.hpp"
#include "data/foreign_file.hpp"
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
  const LeftOut& unreadable_folders() const { return unreadable_folders_; }

 private:
  void add_folder(const std::string& top);
  bool is_output(const fs::path& path) const;

  fs::path out_;
  std::set<std::string> paths_;
  LeftOut unreadable_folders_;
};

Status FileCollector::add_source(const std::string& source) {
  const auto problem = [&](const std::string& why) {
    return Status::bad_input(source + ": " + why);
  };
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status)) return problem("cannot be read: " + file_error(source, error.value()));
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
    if (error) unreadable_folders_.add(folder.string());
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

/// Where a file with this content counts as left out; null where it is text.
LeftOut* kind_of(std::string_view bytes, PreparedText& prepared) {
  // UTF-32 of little-endian machines begins like UTF-16.
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF") ||
      bytes.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
    return &prepared.utf16;
  }
  const bool has_nul = bytes.find('\0') != std::string_view::npos;
  if (!has_nul && is_utf8(bytes)) return nullptr;
  if (const std::optional<ForeignFile> foreign = foreign_file(bytes); foreign) {
    return &prepared.foreign[fmt::format("{}: {}", foreign->is, foreign->remedy)];
  }
  return has_nul ? &prepared.binary : &prepared.not_utf8;
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

/// Takes the next bytes of the joined texts; false ends the joining.
using TakeBytes = std::function<bool(std::string_view)>;

/// Hands on each file that is text and whose content did not come before, with a newline between
/// two. Returns whether all of it was taken.
bool join_texts(const std::set<std::string>& paths, const TakeBytes& take, PreparedText& prepared) {
  std::set<std::pair<std::uint64_t, std::size_t>> seen;
  for (const std::string& path : paths) {
    const Result<MappedFile> source = MappedFile::open(path);
    if (!source.ok()) {
      prepared.unreadable.add(path);
      continue;
    }
    const std::string_view bytes = source.value().bytes();
    if (bytes.empty()) continue;
    if (LeftOut* const kind = kind_of(bytes, prepared); kind != nullptr) {
      kind->add(path);
      continue;
    }
    if (!seen.insert({hash_bytes(bytes.data(), bytes.size()), bytes.size()}).second) {
      ++prepared.duplicates;
      continue;
    }
    const std::string_view separator = prepared.files > 0 ? "\n" : "";
    ++prepared.files;
    for (const std::string_view piece : {separator, bytes}) {
      if (!take(piece)) return false;
      prepared.bytes += static_cast<std::int64_t>(piece.size());
    }
  }
  return true;
}

/// Returns 0 or an errno.
int write_texts(const Descriptor& file, const std::set<std::string>& paths,
                PreparedText& prepared) {
  int error = 0;
  join_texts(
      paths,
      [&](std::string_view piece) {
        error = write_all(file, piece);
        return error == 0;
      },
      prepared);
  return error;
}

bool have_equal_content(const std::string& a, const std::string& b) {
  const Result<MappedFile> file_a = MappedFile::open(a), file_b = MappedFile::open(b);
  return file_a.ok() && file_b.ok() && file_a.value().bytes() == file_b.value().bytes();
}

Status no_text(const std::string& out, const PreparedText& prepared) {
  const std::string advice = prepared.advice();
  return Status::bad_input(out + ": not written, for the sources hold no text" +
                           (advice.empty() ? "" : "\n" + advice));
}

Status holds_other(const std::string& out) {
  return Status::bad_input(
      out +
      ": exists, and is not what these texts give: it was left as it is. The first name is "
      "that of the file to write (swarmpi prepare OUT.bin PATH...): choose another one, or "
      "replace it with --force");
}

/// ok where `out` is what these texts give. Reads no further than to the first text that differs:
/// where `out` is a text that was named by mistake the others may be large. Errors: bad_input.
Status compare_with_texts(const std::string& out, const std::set<std::string>& paths,
                          PreparedText& prepared) {
  const Result<MappedFile> file = MappedFile::open(out);
  if (!file.ok()) return holds_other(out);
  std::string_view left = file.value().bytes();
  const auto take = [&left](std::string_view piece) {
    if (!left.starts_with(piece)) return false;
    left.remove_prefix(piece.size());
    return true;
  };
  if (!join_texts(paths, take, prepared)) return holds_other(out);
  if (prepared.files == 0) return no_text(out, prepared);
  return left.empty() ? Status() : holds_other(out);
}

}  // namespace

std::int64_t PreparedText::not_text() const {
  std::int64_t count = binary.files + utf16.files + not_utf8.files + unreadable.files;
  for (const auto& [what, kind] : foreign) count += kind.files;
  return count;
}

std::string PreparedText::advice() const {
  std::string text;
  const auto add = [&text](const LeftOut& kind, const std::string& what) {
    if (kind.files == 0) return;
    const std::string more = kind.files == 1 ? "" : fmt::format(" and {} more", kind.files - 1);
    text += (text.empty() ? "" : "\n") + fmt::format("{}{}: {}", kind.first, more, what);
  };
  for (const auto& [what, kind] : foreign) add(kind, what);
  add(not_utf8, fmt::format("not UTF-8; if it is Latin-1: iconv -f latin1 -t utf8 {} > NEW.txt",
                            not_utf8.first));
  add(utf16, fmt::format("UTF-16 or UTF-32, not UTF-8: iconv -f utf16 -t utf8 {} > NEW.txt (or "
                         "-f utf32)",
                         utf16.first));
  add(binary, "not text: NUL bytes");
  add(unreadable, "cannot be read");
  return text;
}

Result<PreparedText> prepare_text(const std::string& out, const std::vector<std::string>& sources,
                                  Existing existing) {
  if (const Status status = check_out(out); !status.ok()) return status;
  FileCollector collector(out);
  for (const std::string& source : sources) {
    if (const Status status = collector.add_source(source); !status.ok()) return status;
  }
  PreparedText prepared;
  prepared.unreadable = collector.unreadable_folders();
  if (existing == Existing::keep && holds_something(out)) {
    const Status same = compare_with_texts(out, collector.paths(), prepared);
    if (!same.ok()) return same;
    prepared.was_there = true;
    return prepared;
  }
  if (const Status status = refuse_what_is_no_file(out); !status.ok()) return status;
  TemporaryFile temporary(behind_links(out));
  Descriptor file = Descriptor::open(temporary.name(), O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) return unwritable(out, errno);
  int error = write_texts(file, collector.paths(), prepared);
  if (error == 0 && prepared.files == 0) return no_text(out, prepared);
  if (error == 0) error = sync_descriptor(file);
  if (error == 0) error = file.close();
  if (error != 0) return unwritable(out, error);
  // Another one may have written it meanwhile.
  if (existing == Existing::keep && holds_something(out)) {
    prepared.was_there = have_equal_content(out, temporary.name());
    if (prepared.was_there) return prepared;
    return holds_other(out);
  }
  // Not `stopped`: exit status 3 means that a run can be resumed.
  const Status published = temporary.publish();
  if (!published.ok()) return Status::bad_input(published.message());
  return prepared;
}

}  // namespace swarmpi
