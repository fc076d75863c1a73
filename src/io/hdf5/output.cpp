#include "io/hdf5/output.hpp"

#include <fmt/core.h>
#include <hdf5_hl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <memory>
#include <numeric>

#include "io/descriptor.hpp"
#include "io/file_calls.hpp"

namespace swarmpi {

namespace {

constexpr std::size_t kSyncedBytes = std::size_t{1} << 26;

Hdf5Handle text_type() {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

}  // namespace

Hdf5Output::Hdf5Output(const std::string& path, const FileFormat& format, int version)
    : path_(path), memory_(pages_beside(path)), file_(create_in_memory(memory_)) {
  check(file_.valid());
  text_attribute(kFormatAttribute, format.mark(version));
}

void Hdf5Output::check(bool succeeded) {
  if (succeeded || !status_.ok()) return;
  status_ = Status::stopped(
      fmt::format("preparing {} failed: HDF5 says: {}", path_, last_hdf5_error().text));
}

void Hdf5Output::text_attribute(const std::string& name, const std::string& value) {
  text_attribute("/", name, value);
}

void Hdf5Output::text_attribute(const std::string& object, const std::string& name,
                                const std::string& value) {
  const Hdf5Handle type = text_type();
  const char* text = value.c_str();
  write_attribute(object, name, type.id(), &text);
}

void Hdf5Output::integer_attribute(const std::string& name, std::int64_t value) {
  write_attribute("/", name, file_type<std::int64_t>(), &value);
}

void Hdf5Output::write_attribute(const std::string& object, const std::string& name, hid_t type,
                                 const void* value) {
  static_assert(std::endian::native == std::endian::little, "the file's bytes are those of memory");
  if (!status_.ok()) return;
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate_by_name(file_.id(), object.c_str(), name.c_str(), type,
                                               space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  check(attribute.valid() && H5Awrite(attribute.id(), type, value) >= 0);
}

void Hdf5Output::dimension_scale(const std::string& name, const std::vector<std::string>& others) {
  if (!status_.ok()) return;
  const Hdf5Handle scale(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  check(scale.valid() && H5DSset_scale(scale.id(), name.substr(name.rfind('/') + 1).c_str()) >= 0);
  for (const std::string& other : others) {
    if (!status_.ok()) return;
    const Hdf5Handle dataset(H5Dopen2(file_.id(), other.c_str(), H5P_DEFAULT), H5Dclose);
    check(dataset.valid() && H5DSattach_scale(dataset.id(), scale.id(), 0) >= 0);
  }
}

void Hdf5Output::column(const std::string& name, const std::vector<std::string>& values) {
  std::vector<const char*> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(),
                 [](const std::string& value) { return value.c_str(); });
  const Hdf5Handle type = text_type();
  column(name, type.id(), type.id(), texts.data(), texts.size());
}

void Hdf5Output::column(const std::string& name, hid_t in_file, hid_t in_memory, const void* values,
                        std::size_t count) {
  const Hdf5Handle made = create_dataset(name, in_file, {count}, false);
  if (!made.valid() || count == 0) return;
  check(H5Dwrite(made.id(), in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
}

std::int64_t Hdf5Output::hole(const std::string& name, hid_t in_file, std::size_t count) {
  const Hdf5Handle made = create_dataset(name, in_file, {count}, count > 0);
  if (!made.valid() || count == 0) return -1;
  const haddr_t offset = H5Dget_offset(made.id());
  check(offset != HADDR_UNDEF);
  return static_cast<std::int64_t>(offset);
}

Hdf5Output::TextColumn Hdf5Output::text_column(const std::string& name, std::size_t count) {
  const Hdf5Handle type = text_type();
  return {*this, create_dataset(name, type.id(), {count}, false)};
}

void Hdf5Output::TextColumn::append(const std::vector<std::string>& values) {
  if (!file_.status_.ok() || values.empty()) return;
  std::vector<const char*> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(),
                 [](const std::string& value) { return value.c_str(); });
  const Hdf5Handle type = text_type();
  const hsize_t start = filled_, count = values.size();
  const Hdf5Handle in_memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Hdf5Handle in_file(H5Dget_space(dataset_.id()), H5Sclose);
  file_.check(
      H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, &start, nullptr, &count, nullptr) >= 0 &&
      H5Dwrite(dataset_.id(), type.id(), in_memory.id(), in_file.id(), H5P_DEFAULT, texts.data()) >=
          0);
  filled_ += values.size();
}

void Hdf5Output::array(const std::string& name, const std::vector<std::int64_t>& shape,
                       const float* values, HostView host_view) {
  static_assert(std::endian::native == std::endian::little, "the file's bytes are those of memory");
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const std::size_t size_bytes = std::accumulate(extents.begin(), extents.end(), sizeof(float),
                                                 std::multiplies<std::size_t>());
  const Hdf5Handle made = create_dataset(name, file_type<float>(), extents, true);
  if (!made.valid() || size_bytes == 0) return;
  const haddr_t offset = H5Dget_offset(made.id());
  check(offset != HADDR_UNDEF);
  parts_.push_back({static_cast<std::int64_t>(offset), reinterpret_cast<const char*>(values),
                    size_bytes, std::move(host_view)});
}

Hdf5Handle Hdf5Output::create_dataset(const std::string& name, hid_t in_file,
                                      const std::vector<hsize_t>& shape, bool hole) {
  if (!status_.ok()) return {};
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                         H5Sclose);
  const Hdf5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.id(), 1);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.id(), false);
  H5Pset_layout(creation.id(), H5D_CONTIGUOUS);
  if (hole) {  // its offset is fixed now, and HDF5 never writes it
    H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  }
  Hdf5Handle made(H5Dcreate2(file_.id(), name.c_str(), in_file, space.id(), links.id(),
                             creation.id(), H5P_DEFAULT),
                  H5Dclose);
  check(made.valid());
  return made;
}

// Synced now and then: a sync of gigabytes at the end could not be told from one that hangs.
int Hdf5Output::write_to(const Descriptor& file) {
  // HDF5 refuses a file that is shorter than what it has allocated, also where nothing was written.
  const std::uint64_t size_bytes = memory_.size_bytes();
  if (::ftruncate(file.number(), static_cast<off_t>(size_bytes)) != 0) return errno;
  std::size_t unsynced_bytes = 0;
  const auto write_page = [&](std::uint64_t offset, std::string_view page) {
    if (offset >= size_bytes) return 0;
    const std::string_view bytes = page.substr(0, size_bytes - offset);
    if (const int error = write_all_at(file, bytes, static_cast<std::int64_t>(offset))) {
      return error;
    }
    unsynced_bytes += bytes.size();
    if (unsynced_bytes < kSyncedBytes) return 0;
    unsynced_bytes = 0;
    return sync_descriptor(file);
  };
  if (const int error = memory_.for_each_page(write_page)) return error;
  if (memory_.failed()) return EIO;
  // After the pages, whose edges reach into the parts.
  for (const Part& part : parts_) {
    if (const int error = write_part(file, part)) return error;
  }
  for (const auto& write : writes_) {
    if (const int error = write(file)) return error;
  }
  return 0;
}

int Hdf5Output::write_part(const Descriptor& file, const Part& part) {
  const std::size_t most = std::min(part.size_bytes, kSyncedBytes);
  const std::unique_ptr<char[]> room(part.host_view ? new char[most]
                                                    : nullptr);  // not touched here
  for (std::size_t done = 0; done < part.size_bytes;) {
    const std::size_t count = std::min(part.size_bytes - done, kSyncedBytes);
    const void* bytes = part.data + done;
    // A lane that was given up touches nothing any more: the memory may be somebody else's by now.
    if (FileCalls::given_up()) return ECANCELED;
    if (part.host_view) bytes = part.host_view(bytes, count, room.get());
    const auto offset = part.offset + static_cast<std::int64_t>(done);
    if (const int error = write_all_at(file, {static_cast<const char*>(bytes), count}, offset)) {
      return error;
    }
    done += count;
    if (done == part.size_bytes) return 0;
    if (const int error = sync_descriptor(file)) return error;
  }
  return 0;
}

Status Hdf5Output::finish(FileHash* hash, const MayPublish& may_publish) {
  if (status_.ok()) check(file_.close());
  if (!status_.ok()) return status_;
  session_.reset();  // a disk that hangs must not keep others from HDF5
  return status_ = write_file_durably(
             path_, [this](const Descriptor& file) { return write_to(file); }, hash, may_publish);
}

}  // namespace swarmpi
