#pragma once
// HDF5's library, handles and errors: one thread at a time, for HDF5 is rarely built thread-safe.

#include <hdf5.h>

#include <mutex>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// Version of the HDF5 library that is linked, e.g. "1.10.8".
std::string hdf5_version();

/// Held around every use of HDF5: locks the library for this thread and keeps it from printing
/// errors.
class Hdf5Session {
 public:
  Hdf5Session();

 private:
  std::scoped_lock<std::recursive_mutex> lock_;
};

/// Whether another thread is in an Hdf5Session, perhaps for as long as a disk hangs. What can wait
/// does not begin then.
bool hdf5_is_in_use();

/// A handle that closes itself.
class Hdf5Handle {
 public:
  using Closer = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Hdf5Handle() { close(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept;
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept;

  bool valid() const { return id_ >= 0; }
  hid_t id() const { return id_; }
  /// False if HDF5 could not close it; the handle is kept then.
  bool close();

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

/// HDF5's last error: the innermost message and, where it holds one, the errno in it.
struct Hdf5Error {
  std::string text;
  int error = 0;
};
Hdf5Error last_hdf5_error();

/// File access for all files of this program: without locks, which fail on some shared file
/// systems. None are needed, for a file is private until it is complete.
Hdf5Handle file_access();

}  // namespace swarmpi
