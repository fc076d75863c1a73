#pragma once
// A new HDF5 file: written under a temporary name, durable and in place once finish() says so, else gone without a
// trace. The first error sticks and finish() tells it.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "io/files.hpp"
#include "io/hdf5_handle.hpp"
#include "io/hdf5_types.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {

class Hdf5Output {
 public:
  explicit Hdf5Output(const std::string& path);
  ~Hdf5Output();
  Hdf5Output(const Hdf5Output&) = delete;
  Hdf5Output& operator=(const Hdf5Output&) = delete;

  /// Attribute of the root: a variable-length UTF-8 string.
  void text_attribute(const std::string& name, const std::string& value);
  /// Datasets of one dimension. Groups on the way are created.
  template <class Value>
  void column(const std::string& name, const std::vector<Value>& values) {
    dataset(name, file_type<Value>(), memory_type<Value>(), {values.size()}, values.data());
  }
  void column(const std::string& name, const std::vector<std::string>& values);
  /// Dataset (rows, columns).
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
              const float* values);

  /// What the file's bytes hash to is filled in before it is published, if asked for.
  Status finish(FileHash* hash = nullptr);

 private:
  void dataset(const std::string& name, hid_t in_file, hid_t in_memory,
               const std::vector<hsize_t>& shape, const void* values);
  /// Notes the first error.
  void note(bool done, const char* doing);
  void abandon();

  Hdf5Session session_;
  std::string path_;
  TemporaryFile temporary_;
  Hdf5Handle file_;
  Status status_;
};

}  // namespace swarmpi
