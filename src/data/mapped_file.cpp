#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/descriptor.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

/// A process may have 65,530 mappings by default; other failures name themselves.
Status not_mapped(int error) {
  return Status::bad_input(fmt::format("cannot be mapped: {}{}", std::strerror(error),
                                       error == ENOMEM ? "; vm.max_map_count may be too low" : ""));
}

}  // namespace

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      opened_(other.opened_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(opened_, other.opened_);
  return *this;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<OpenedFile> opened = open_to_read(path);
  if (!opened.ok()) return Status::bad_input(opened.status().message());
  const int number = opened.value().file.number();
  MappedFile file;
  file.path_ = path;
  if (::fstat(number, &file.opened_) != 0) return not_mapped(errno);
  const auto size_bytes = static_cast<std::size_t>(file.opened_.st_size);
  if (size_bytes == 0) return file;
  // The mapping outlives the descriptor: a run may have more files than a process descriptors.
  void* data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, number, 0);
  if (data == MAP_FAILED) return not_mapped(errno);
  file.data_ = static_cast<const char*>(data);
  file.size_bytes_ = size_bytes;
  return file;
}

std::string MappedFile::identity() const {
  if (data_ == nullptr) return "";
  return fmt::format("{}:{}:{}:{}.{:09}", opened_.st_dev, opened_.st_ino, opened_.st_size,
                     opened_.st_mtim.tv_sec, opened_.st_mtim.tv_nsec);
}

bool MappedFile::can_be_read_anew() const {
  constexpr std::size_t kPageBytes = 4096;
  // A network file system asks its server when a file is opened; O_DIRECT asks it for the content.
  Descriptor again = Descriptor::open(path_, O_RDONLY | O_DIRECT);
  if (!again.valid()) again = Descriptor::open(path_, O_RDONLY);
  alignas(kPageBytes) char page[kPageBytes];
  return again.valid() && ::pread(again.number(), page, kPageBytes, 0) > 0;
}

bool MappedFile::is_unchanged() const {
  if (size_bytes_ == 0) return true;
  struct stat info {};
  // A file that was replaced, removed or hidden stays as it was mapped.
  if (::stat(path_.c_str(), &info) != 0) return errno != ESTALE;
  if (info.st_dev != opened_.st_dev || info.st_ino != opened_.st_ino) return true;
  return info.st_size == opened_.st_size && info.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
         info.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
}

}  // namespace swarmpi
