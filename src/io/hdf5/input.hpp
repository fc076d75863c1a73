#pragma once
// An HDF5 file that is read. status() has the first error; after it, nothing more is read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/records.hpp"
#include "core/status.hpp"
#include "io/format_version.hpp"
#include "io/hdf5/handle.hpp"
#include "io/hdf5/types.hpp"

namespace swarmpi {

class Hdf5Input {
 public:
  /// A file that does not say which format it has is of version 1: those had no such attribute.
  Hdf5Input(const std::string& path, const FileFormat& expected);

  /// ok, or bad_input: missing, not HDF5, cut off, of another format or version.
  const Status& status() const { return status_; }
  /// Whether it says that it is of another format.
  bool is_of_another_format() const { return is_of_another_format_; }

  std::string text_attribute(const std::string& name);
  /// A text, or an integer in decimal.
  std::string attribute_as_text(const std::string& name);
  bool has(const std::string& name);
  bool has_attribute(const std::string& name);
  /// How many values a column of numbers or texts has; 0 after an error.
  template <class Value>
  std::int64_t column_size(const std::string& name) {
    return values_in(open(name, class_of<Value>()), name, {}).count;
  }
  /// `range`: those of its values that are read, which it must have; nothing: all.
  template <class Value>
  std::vector<Value> column(const std::string& name,
                            const std::optional<ElementRange>& range = {}) {
    const Hdf5Handle dataset = open(name, class_of<Value>());
    const ElementRange wanted = values_in(dataset, name, range);
    std::vector<Value> values(static_cast<std::size_t>(wanted.count));
    read_values(dataset, name, memory_type<Value>(), wanted, values.data());
    return values;
  }
  std::vector<std::string> text_column(const std::string& name,
                                       const std::optional<ElementRange>& range = {});
  /// Reads of a dataset of just this shape, (rows, columns) or (elements), a range of elements
  /// into `values`; no others are read.
  void elements(const std::string& name, const std::vector<std::int64_t>& shape,
                const ElementRange& range, float* values);
  /// Sets the status, if this is the first error: the file is not what it should be.
  void refuse(const std::string& why);

 private:
  template <class Value>
  static constexpr H5T_class_t class_of() {
    if constexpr (std::is_same_v<Value, std::string>) return H5T_STRING;
    return std::is_floating_point_v<Value> ? H5T_FLOAT : H5T_INTEGER;
  }
  void check_format();
  Hdf5Handle open(const std::string& name, H5T_class_t expected);
  std::vector<hsize_t> shape_of(const Hdf5Handle& dataset, const std::string& name);
  /// The range, or all values of a column; none after an error.
  ElementRange values_in(const Hdf5Handle& dataset, const std::string& name,
                         const std::optional<ElementRange>& range);
  void read_values(const Hdf5Handle& dataset, const std::string& name, hid_t in_memory,
                   const ElementRange& range, void* values);
  void read(const Hdf5Handle& dataset, const std::string& name, hid_t in_memory, void* values,
            hid_t memory_space = H5S_ALL, hid_t file_space = H5S_ALL);

  Hdf5Session session_;
  std::string path_;
  FileFormat format_;
  double size_bytes_ = 0;
  Hdf5Handle file_;
  Status status_;
  bool is_of_another_format_ = false;
};

}  // namespace swarmpi
