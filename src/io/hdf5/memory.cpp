#include "io/hdf5/memory.hpp"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace swarmpi {

namespace {

/// What HDF5 holds as the open file: its own part comes first.
struct MemoryFile {
  H5FD_t common;
  SparseBytes* bytes;
  haddr_t end_of_bytes;  // that HDF5 has written; the size is what it has allocated
};

/// Handed from create_in_memory() to the driver within one call; the session's lock guards it.
SparseBytes* bytes_to_open = nullptr;

MemoryFile* ours(H5FD_t* file) { return reinterpret_cast<MemoryFile*>(file); }
const MemoryFile* ours(const H5FD_t* file) { return reinterpret_cast<const MemoryFile*>(file); }

H5FD_t* open_file(const char*, unsigned, hid_t, haddr_t) {
  auto* file = new (std::nothrow) MemoryFile{};
  if (file == nullptr) return nullptr;
  file->bytes = bytes_to_open;
  return &file->common;
}

herr_t close_file(H5FD_t* file) {
  delete ours(file);
  return 0;
}

/// Lets HDF5 gather its small pieces.
herr_t query_features(const H5FD_t*, unsigned long* features) {
  *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_end_of_space(const H5FD_t* file, H5FD_mem_t) { return ours(file)->bytes->size_bytes(); }

herr_t set_end_of_space(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  ours(file)->bytes->set_size(end);
  return 0;
}

haddr_t get_end_of_bytes(const H5FD_t* file, H5FD_mem_t) { return ours(file)->end_of_bytes; }

herr_t read_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t size, void* buffer) {
  try {
    ours(file)->bytes->read(offset, buffer, size);
  } catch (const std::bad_alloc&) {
    return -1;
  }
  return 0;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t size,
                   const void* buffer) {
  try {
    ours(file)->bytes->write(offset, buffer, size);
  } catch (const std::bad_alloc&) {
    return -1;
  }
  ours(file)->end_of_bytes = std::max<haddr_t>(ours(file)->end_of_bytes, offset + size);
  return 0;
}

hid_t register_driver() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = 400;  // HDF5 leaves 256 to 511 to private drivers
#endif
  driver.name = "swarmpi_memory";
  driver.maxaddr = HADDR_MAX;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query_features;
  driver.get_eoa = get_end_of_space;
  driver.set_eoa = set_end_of_space;
  driver.get_eof = get_end_of_bytes;
  driver.read = read_bytes;
  driver.write = write_bytes;
  return H5FDregister(&driver);
}

}  // namespace

void SparseBytes::write(std::uint64_t offset, const void* data, std::size_t size_bytes) {
  const char* from = static_cast<const char*>(data);
  while (size_bytes > 0) {
    std::string& page = load(offset / kPageBytes);
    const std::size_t within = offset % kPageBytes;
    const std::size_t count = std::min(size_bytes, kPageBytes - within);
    std::memcpy(page.data() + within, from, count);
    from += count;
    offset += count;
    size_bytes -= count;
  }
}

void SparseBytes::read(std::uint64_t offset, void* data, std::size_t size_bytes) {
  char* to = static_cast<char*>(data);
  while (size_bytes > 0) {
    const std::size_t within = offset % kPageBytes;
    const std::size_t count = std::min(size_bytes, kPageBytes - within);
    if (!pages_.contains(offset / kPageBytes)) {
      std::memset(to, 0, count);
    } else {
      std::memcpy(to, load(offset / kPageBytes).data() + within, count);
    }
    to += count;
    offset += count;
    size_bytes -= count;
  }
}

std::string& SparseBytes::load(std::uint64_t number) {
  Page& page = pages_[number];
  if (!page.bytes.empty()) return page.bytes;
  make_room(number);
  if (page.slot.offset >= 0) (void)scratch_.get(page.slot, page.bytes);
  page.bytes.resize(kPageBytes);
  in_memory_.push_back(number);
  return page.bytes;
}

// A page that finds no room in the file stays in memory, for good.
void SparseBytes::make_room(std::uint64_t for_number) {
  while (in_memory_.size() >= kPagesInMemory) {
    const std::uint64_t number = in_memory_.front();
    in_memory_.pop_front();
    Page& oldest = pages_[number];
    if (number == for_number || !scratch_.put(oldest.bytes, oldest.slot)) continue;
    std::string().swap(oldest.bytes);  // an assignment would keep the memory
  }
}

int SparseBytes::for_each_page(
    const std::function<int(std::uint64_t offset, std::string_view bytes)>& use) {
  std::string bytes;
  for (const auto& [number, page] : pages_) {
    const bool in_memory = !page.bytes.empty();
    if (!in_memory && !scratch_.get(page.slot, bytes)) return EIO;
    if (const int error = use(number * kPageBytes, in_memory ? page.bytes : bytes)) return error;
  }
  return 0;
}

Hdf5Handle create_in_memory(SparseBytes& bytes) {
  // For good: HDF5 reads a file's driver while it closes the file.
  static const hid_t driver = register_driver();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.id(), false);
  if (H5Pset_driver(access.id(), driver, nullptr) < 0) return {};
  bytes_to_open = &bytes;
  return {H5Fcreate("memory", H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose};
}

}  // namespace swarmpi
