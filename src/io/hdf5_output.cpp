#include "io/hdf5_output.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/text.hpp"
#include "io/descriptor.hpp"

namespace swarmpi {

namespace {

Hdf5Handle text_type() {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

Hdf5Handle create_file(const std::string& name) {
  const Hdf5Handle access = file_access();
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.id(), false);
  return {H5Fcreate(name.c_str(), H5F_ACC_EXCL, creation.id(), access.id()), H5Fclose};
}

}  // namespace

Hdf5Output::Hdf5Output(const std::string& path) : path_(path), temporary_(path) {
  file_ = create_file(temporary_.name());
  note(file_.valid(), "creating");
}

Hdf5Output::~Hdf5Output() { abandon(); }

void Hdf5Output::note(bool done, const char* doing) {
  if (done || !status_.ok()) return;
  const Hdf5Error found = last_hdf5_error();
  status_ = found.error != 0 ? io_error(doing, path_, found.error)
                             : Status::stopped(format("%s %s failed: HDF5 says: %s", doing,
                                                      path_.c_str(), found.text.c_str()));
}

void Hdf5Output::text_attribute(const std::string& name, const std::string& value) {
  if (!status_.ok()) return;
  const Hdf5Handle type = text_type();
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate2(file_.id(), name.c_str(), type.id(), space.id(),
                                        H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  const char* text = value.c_str();
  note(attribute.valid() && H5Awrite(attribute.id(), type.id(), &text) >= 0, "writing");
}

void Hdf5Output::column(const std::string& name, const std::vector<std::string>& values) {
  std::vector<const char*> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(),
                 [](const std::string& value) { return value.c_str(); });
  const Hdf5Handle type = text_type();
  dataset(name, type.id(), type.id(), {texts.size()}, texts.data());
}

void Hdf5Output::matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
                        const float* values) {
  dataset(name, file_type<float>(), memory_type<float>(),
          {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)}, values);
}

void Hdf5Output::dataset(const std::string& name, hid_t in_file, hid_t in_memory,
                         const std::vector<hsize_t>& shape, const void* values) {
  if (!status_.ok()) return;
  const Hdf5Handle space(
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  const Hdf5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.id(), 1);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.id(), false);
  Hdf5Handle made(H5Dcreate2(file_.id(), name.c_str(), in_file, space.id(), links.id(),
                             creation.id(), H5P_DEFAULT),
                  H5Dclose);
  bool done = made.valid();
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (done && !empty) {
    done = H5Dwrite(made.id(), in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  }
  note(done && made.close(), "writing");
}

Status Hdf5Output::finish(FileHash* hash) {
  if (status_.ok()) note(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL) >= 0, "writing");
  if (status_.ok()) note(file_.close(), "closing");
  if (!status_.ok()) {
    abandon();
    return status_;
  }
  if (hash != nullptr) {
    Result<FileHash> found = hash_file(temporary_.name());
    if (!found.ok()) return Status::stopped(found.status().message());
    *hash = found.value();
  }
  return status_ = temporary_.publish();
}

void Hdf5Output::abandon() {
  if (!file_.valid()) return;
  // A file whose disk is full cannot be closed: HDF5 would keep it and fail again at exit. So what it still wants to
  // write goes into memory, and then nowhere.
  int* descriptor = nullptr;
  const int memory = ::memfd_create("abandoned", MFD_CLOEXEC);
  if (memory >= 0 &&
      H5Fget_vfd_handle(file_.id(), H5P_DEFAULT, reinterpret_cast<void**>(&descriptor)) >= 0) {
    ::dup2(memory, *descriptor);
  }
  if (memory >= 0) ::close(memory);
  file_.close();
}

}  // namespace swarmpi
