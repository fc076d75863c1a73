#include "data/file_collector.hpp"

#include <system_error>
#include <vector>

#include "data/mapped_file.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

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

}  // namespace swarmpi
