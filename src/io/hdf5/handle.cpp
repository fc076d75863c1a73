#include "io/hdf5/handle.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace swarmpi {

namespace {

std::recursive_mutex& hdf5_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Called from the innermost frame outwards: the first one that has a text is the cause.
herr_t keep_first(unsigned, const H5E_error2_t* frame, void* target) {
  auto* found = static_cast<Hdf5Error*>(target);
  if (frame->desc == nullptr) return 0;
  if (found->text.empty()) found->text = frame->desc;
  const char* number = std::strstr(frame->desc, "errno = ");
  if (found->error == 0 && number != nullptr) found->error = std::atoi(number + 8);
  return 0;
}

}  // namespace

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Hdf5Session::Hdf5Session() : lock_(hdf5_mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

bool hdf5_is_in_use() {
  const std::unique_lock free(hdf5_mutex(), std::try_to_lock);
  return !free;
}

Hdf5Handle::Hdf5Handle(Hdf5Handle&& other) noexcept
    : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}

Hdf5Handle& Hdf5Handle::operator=(Hdf5Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(closer_, other.closer_);
  return *this;
}

bool Hdf5Handle::close() {
  if (id_ < 0) return true;
  if (closer_(id_) < 0) return false;
  id_ = -1;
  return true;
}

Hdf5Error last_hdf5_error() {
  Hdf5Error found;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &found);
  if (found.error != 0) {
    found.text = std::strerror(found.error);
  } else if (found.text.empty()) {
    found.text = "unknown HDF5 error";
  }
  return found;
}

Hdf5Handle file_access() {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_sec2(access.id());
#if H5_VERSION_GE(1, 12, 1) || (!H5_VERSION_GE(1, 12, 0) && H5_VERSION_GE(1, 10, 7))
  H5Pset_file_locking(access.id(), false, true);
#endif
  return access;
}

}  // namespace swarmpi
