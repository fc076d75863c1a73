#pragma once
// A new HDF5 file: durable and in place once finish() returns ok, else nothing of it is left.
// finish() returns the first error.
//
// HDF5 does not survive a full disk (1.10.8 crashes where it cannot write its first bytes, and
// cannot close a file whose last bytes found no room). So it writes into memory only, where large
// datasets are holes, and this class writes memory and datasets to the disk.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "io/files.hpp"
#include "io/format_version.hpp"
#include "io/hdf5/handle.hpp"
#include "io/hdf5/memory.hpp"
#include "io/hdf5/types.hpp"

namespace swarmpi {

/// The path of the scratch files in which pages of a file are kept while it is made.
inline std::string pages_beside(const std::string& path) { return path + ".pages"; }

class Hdf5Output {
 public:
  /// The root has the attribute `format`, with the format's newest version or the one that is
  /// given.
  Hdf5Output(const std::string& path, const FileFormat& format)
      : Hdf5Output(path, format, format.newest) {}
  Hdf5Output(const std::string& path, const FileFormat& format, int version);

  /// Attribute of the root: a variable-length UTF-8 string.
  void text_attribute(const std::string& name, const std::string& value);
  /// The same of a dataset, or of a group.
  void text_attribute(const std::string& object, const std::string& name, const std::string& value);
  /// Attribute of the root: an integer of 8 bytes.
  void integer_attribute(const std::string& name, std::int64_t value);
  /// Makes a dataset of one dimension the scale (coordinate) of others that are as long.
  void dimension_scale(const std::string& name, const std::vector<std::string>& others);
  /// Datasets of one dimension. Groups on the way are created.
  template <class Value>
  void column(const std::string& name, const std::vector<Value>& values) {
    column(name, file_type<Value>(), memory_type<Value>(), values.data(), values.size());
  }
  void column(const std::string& name, const std::vector<std::string>& values);
  /// Bytes of an array where the host can read them: where they lie, or copied into `room`, of as
  /// many bytes.
  using HostView =
      std::function<const void*(const void* array, std::size_t size_bytes, void* room)>;
  /// Dataset of that shape. `values` must stay until finish(), which reads them by `host_view`;
  /// null: they lie on the host.
  void array(const std::string& name, const std::vector<std::int64_t>& shape, const float* values,
             HostView host_view = nullptr);

  /// A dataset of one dimension whose values come later. They are not in memory: where
  /// write_later() writes them, as they are in memory, is returned; -1 where there are none.
  template <class Value>
  std::int64_t later_column(const std::string& name, std::size_t count) {
    return hole(name, file_type<Value>(), count);
  }
  /// `write` is called by finish(), when all else is in the file; it returns 0 or an errno.
  void write_later(std::function<int(const Descriptor& file)> write) {
    writes_.push_back(std::move(write));
  }
  /// A dataset of texts, which come in pieces.
  class TextColumn {
   public:
    void append(const std::vector<std::string>& values);

   private:
    friend class Hdf5Output;
    TextColumn(Hdf5Output& file, Hdf5Handle dataset) : file_(file), dataset_(std::move(dataset)) {}
    Hdf5Output& file_;
    Hdf5Handle dataset_;
    std::size_t filled_ = 0;
  };
  TextColumn text_column(const std::string& name, std::size_t count);

  /// Writes the file to the disk, syncs it and renames it into place. With `hash` it gets a
  /// trailer (io/files.hpp), which readers of HDF5 pass over.
  Status finish(FileHash* hash = nullptr, const MayPublish& may_publish = {});

 private:
  /// Bytes of the file that are not in memory_: a dataset of array().
  struct Part {
    std::int64_t offset = 0;
    const char* data = nullptr;
    std::size_t size_bytes = 0;
    HostView host_view;
  };

  void column(const std::string& name, hid_t in_file, hid_t in_memory, const void* values,
              std::size_t count);
  Hdf5Handle create_dataset(const std::string& name, hid_t in_file,
                            const std::vector<hsize_t>& shape, bool hole);
  /// Sets the status to HDF5's last error where a call has failed. Must come before the next call
  /// of HDF5, which clears that error.
  void check(bool succeeded);
  void write_attribute(const std::string& object, const std::string& name, hid_t type,
                       const void* value);
  std::int64_t hole(const std::string& name, hid_t in_file, std::size_t count);
  int write_to(const Descriptor& file);
  static int write_part(const Descriptor& file, const Part& part);

  std::optional<Hdf5Session> session_{std::in_place};
  std::string path_;
  SparseBytes memory_;
  Hdf5Handle file_;
  std::vector<Part> parts_;
  std::vector<std::function<int(const Descriptor& file)>> writes_;
  Status status_;
};

}  // namespace swarmpi
