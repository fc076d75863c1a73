#pragma once
// A new HDF5 file: durable and in place once finish() says so, else gone without a trace. The first
// error sticks and finish() tells it.
//
// HDF5 does not survive a full disk (1.10.8 crashes where it cannot write its first bytes, and
// cannot close a file whose last ones found no room). So it writes into memory only, where large
// datasets are holes, and this class brings memory and datasets to the disk.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"
#include "io/files.hpp"
#include "io/hdf5/handle.hpp"
#include "io/hdf5/memory.hpp"
#include "io/hdf5/types.hpp"

namespace swarmpi {

class Hdf5Output {
 public:
  explicit Hdf5Output(const std::string& path);

  /// Attribute of the root: a variable-length UTF-8 string.
  void text_attribute(const std::string& name, const std::string& value);
  /// Datasets of one dimension. Groups on the way are created.
  template <class Value>
  void column(const std::string& name, const std::vector<Value>& values) {
    column(name, file_type<Value>(), memory_type<Value>(), values.data(), values.size());
  }
  void column(const std::string& name, const std::vector<std::string>& values);
  /// Dataset (rows, columns). `values` must stay until finish().
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
              const float* values);

  /// Brings it to the disk under its name. `hash`, if given, receives that of the file's bytes.
  Status finish(FileHash* hash = nullptr);

 private:
  /// Bytes that belong somewhere in the file and are not in memory_ yet.
  struct Part {
    std::int64_t offset = 0;
    std::string_view bytes;
  };

  void column(const std::string& name, hid_t in_file, hid_t in_memory, const void* values,
              std::size_t count);
  Hdf5Handle create_dataset(const std::string& name, hid_t in_file,
                            const std::vector<hsize_t>& shape, bool hole);
  /// Notes the first error. Before any other call of HDF5, which would clear what it says.
  void note(bool done);
  int write_to(int descriptor) const;

  Hdf5Session session_;
  std::string path_;
  SparseBytes memory_;
  Hdf5Handle file_;
  std::vector<Part> parts_;
  Status status_;
};

}  // namespace swarmpi
