#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/missing_file.hpp"

namespace swarmpi {
namespace {

Status failure() { return Status::bad_input(std::strerror(errno)); }

}  // namespace

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      written_(other.written_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(written_, other.written_);
  return *this;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait here for its writer.
  Descriptor descriptor = Descriptor::open(path, O_RDONLY | O_NONBLOCK);
  if (!descriptor.valid()) return Status::bad_input(file_error(path, errno));

  struct stat info {};
  if (::fstat(descriptor.number(), &info) != 0) return failure();
  if (S_ISDIR(info.st_mode)) return Status::bad_input("is a folder, not a file");
  if (!S_ISREG(info.st_mode)) return Status::bad_input("is not a regular file");
  MappedFile file;
  if (info.st_size == 0) return file;
  const auto size_bytes = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
  if (data == MAP_FAILED) return failure();
  file.data_ = static_cast<const char*>(data);
  file.size_bytes_ = size_bytes;
  file.written_ = info.st_mtim;
  file.descriptor_ = std::move(descriptor);
  return file;
}

std::string MappedFile::identity() const {
  struct stat info {};
  if (data_ == nullptr || ::fstat(descriptor_.number(), &info) != 0) return "";
  return fmt::format("{}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

bool MappedFile::can_be_read_anew() const {
  constexpr std::size_t kPageBytes = 4096;
  // A network file system asks its server when a file is opened; O_DIRECT asks it for the content.
  Descriptor again = Descriptor::open(descriptor_.path(), O_RDONLY | O_DIRECT);
  if (!again.valid()) again = Descriptor::open(descriptor_.path(), O_RDONLY);
  alignas(kPageBytes) char page[kPageBytes];
  return again.valid() && ::pread(again.number(), page, kPageBytes, 0) > 0;
}

bool MappedFile::is_unchanged() const {
  if (size_bytes_ == 0) return true;
  struct stat info {};
  return ::fstat(descriptor_.number(), &info) == 0 &&
         info.st_size == static_cast<off_t>(size_bytes_) &&
         info.st_mtim.tv_sec == written_.tv_sec && info.st_mtim.tv_nsec == written_.tv_nsec;
}

}  // namespace swarmpi
