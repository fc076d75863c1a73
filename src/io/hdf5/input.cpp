#include "io/hdf5/input.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/files.hpp"

namespace swarmpi {

namespace {

constexpr char kSignature[] = "\x89HDF\r\n\x1a\n";
/// Where the file was repacked with compression, deflate shrinks to a 1032nd at most.
constexpr double kDeflateLimit = 1032;

/// "" for a file that starts like HDF5; otherwise why it cannot be one.
std::string check_start(const std::string& path, double& size_bytes) {
  const Result<OpenedFile> opened = open_to_read(path);
  if (!opened.ok()) return opened.status().message();
  if (opened.value().size_bytes == 0) return "it is empty";
  size_bytes = static_cast<double>(opened.value().size_bytes);
  char start[8] = {};
  if (::pread(opened.value().file.number(), start, sizeof start, 0) < 0) {
    return std::strerror(errno);
  }
  return std::memcmp(start, kSignature, sizeof start) == 0 ? "" : "it is no HDF5 file";
}

/// Elements that follow each other and are a block of the dataset.
struct Block {
  std::int64_t count = 0;
  Hdf5Handle in_memory, in_file;
};

/// The first block of a range: as many whole rows as there are, or what it has of its first row.
Block first_block(const Hdf5Handle& dataset, const std::vector<std::int64_t>& shape,
                  const ElementRange& range) {
  const std::int64_t columns = shape.back(), column = range.first % columns;
  const std::int64_t width = std::min(columns - column, range.count);
  const std::int64_t rows = width == columns ? range.count / columns : 1;
  const hsize_t start[] = {static_cast<hsize_t>(range.first / columns),
                           static_cast<hsize_t>(column)};
  const hsize_t extents[] = {static_cast<hsize_t>(rows), static_cast<hsize_t>(width)};
  const hsize_t count = extents[0] * extents[1];
  const std::size_t unused = 2 - shape.size();  // of one dimension it is one row
  Block block{rows * width,
              {H5Screate_simple(1, &count, nullptr), H5Sclose},
              {H5Dget_space(dataset.id()), H5Sclose}};
  H5Sselect_hyperslab(block.in_file.id(), H5S_SELECT_SET, start + unused, nullptr, extents + unused,
                      nullptr);
  return block;
}

}  // namespace

Hdf5Input::Hdf5Input(const std::string& path, const FileFormat& expected)
    : path_(path), format_(expected) {
  const std::string why_not = check_start(path, size_bytes_);
  if (!why_not.empty()) {
    status_ =
        Status::bad_input(fmt::format("cannot read {} as {}: {}", path, format_.what, why_not));
    return;
  }
  const Hdf5Handle access = file_access();
  file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file_.valid()) {
    status_ = Status::bad_input(
        fmt::format("cannot read {} as {}: the file is cut off or damaged (HDF5 says: {})", path,
                    format_.what, last_hdf5_error().text));
    return;
  }
  check_format();
}

void Hdf5Input::check_format() {
  if (H5Aexists(file_.id(), kFormatAttribute) <= 0) return;
  const std::string found = text_attribute(kFormatAttribute);
  const std::string name = format_.name;
  is_of_another_format_ = found.rfind(name, 0) != 0;
  if (is_of_another_format_) return refuse("its format is `" + found + "`");
  status_ = check_version(format_, found.substr(name.size()), path_);
}

void Hdf5Input::refuse(const std::string& why) {
  if (!status_.ok()) return;
  status_ = Status::bad_input(fmt::format("{} is not {} of SwarMPI: {}", path_, format_.what, why));
}

bool Hdf5Input::has(const std::string& name) {
  return status_.ok() && H5Lexists(file_.id(), name.c_str(), H5P_DEFAULT) > 0;
}

bool Hdf5Input::has_attribute(const std::string& name) {
  return status_.ok() && H5Aexists(file_.id(), name.c_str()) > 0;
}

std::string Hdf5Input::text_attribute(const std::string& name) {
  if (!status_.ok()) return "";
  const Hdf5Handle attribute(H5Aopen(file_.id(), name.c_str(), H5P_DEFAULT), H5Aclose);
  const Hdf5Handle type(attribute.valid() ? H5Aget_type(attribute.id()) : -1, H5Tclose);
  const Hdf5Handle space(attribute.valid() ? H5Aget_space(attribute.id()) : -1, H5Sclose);
  if (!type.valid() || H5Tis_variable_str(type.id()) <= 0 ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    refuse("it has no text attribute `" + name + "`");
    return "";
  }
  char* text = nullptr;
  if (H5Aread(attribute.id(), type.id(), &text) < 0) {
    refuse("its attribute `" + name + "` cannot be read: " + last_hdf5_error().text);
    return "";
  }
  std::string value = text != nullptr ? text : "";
  H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, &text);
  return value;
}

std::string Hdf5Input::attribute_as_text(const std::string& name) {
  if (!status_.ok()) return "";
  const Hdf5Handle attribute(H5Aopen(file_.id(), name.c_str(), H5P_DEFAULT), H5Aclose);
  const Hdf5Handle type(attribute.valid() ? H5Aget_type(attribute.id()) : -1, H5Tclose);
  const Hdf5Handle space(attribute.valid() ? H5Aget_space(attribute.id()) : -1, H5Sclose);
  if (!type.valid() || H5Tget_class(type.id()) != H5T_INTEGER ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    return text_attribute(name);
  }
  std::int64_t number = 0;
  if (H5Aread(attribute.id(), memory_type<std::int64_t>(), &number) < 0) {
    refuse("its attribute `" + name + "` cannot be read: " + last_hdf5_error().text);
  }
  return std::to_string(number);
}

std::vector<std::string> Hdf5Input::text_column(const std::string& name,
                                                const std::optional<ElementRange>& range) {
  const Hdf5Handle dataset = open(name, H5T_STRING);
  const ElementRange wanted = values_in(dataset, name, range);
  if (!status_.ok()) return {};
  const Hdf5Handle type(H5Dget_type(dataset.id()), H5Tclose);
  if (H5Tis_variable_str(type.id()) <= 0) {
    refuse(name + " does not hold texts of variable length");
    return {};
  }
  std::vector<char*> texts(static_cast<std::size_t>(wanted.count), nullptr);
  read_values(dataset, name, type.id(), wanted, texts.data());
  std::vector<std::string> values(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) values[i] = texts[i] != nullptr ? texts[i] : "";
  const hsize_t count = texts.size();
  const Hdf5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  if (!texts.empty()) H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, texts.data());
  return values;
}

void Hdf5Input::elements(const std::string& name, const std::vector<std::int64_t>& shape,
                         const ElementRange& range, float* values) {
  const Hdf5Handle dataset = open(name, H5T_FLOAT);
  const std::vector<hsize_t> found = shape_of(dataset, name);
  if (!status_.ok()) return;
  if (found != std::vector<hsize_t>(shape.begin(), shape.end())) {
    return refuse(fmt::format("{} is not ({})", name, fmt::join(shape, ", ")));
  }
  for (ElementRange rest = range; rest.count > 0 && status_.ok();) {
    const Block block = first_block(dataset, shape, rest);
    read(dataset, name, memory_type<float>(), values, block.in_memory.id(), block.in_file.id());
    values += block.count;
    rest = {rest.first + block.count, rest.count - block.count};
  }
}

Hdf5Handle Hdf5Input::open(const std::string& name, H5T_class_t expected) {
  if (!status_.ok()) return {};
  Hdf5Handle dataset(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.valid()) {
    refuse("it has no dataset " + name);
    return {};
  }
  const Hdf5Handle type(H5Dget_type(dataset.id()), H5Tclose);
  if (H5Tget_class(type.id()) != expected) refuse(name + " holds another type of value");
  return dataset;
}

std::vector<hsize_t> Hdf5Input::shape_of(const Hdf5Handle& dataset, const std::string& name) {
  if (!status_.ok()) return {};
  const Hdf5Handle space(H5Dget_space(dataset.id()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  std::vector<hsize_t> shape(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  if (rank < 0 || H5Sget_simple_extent_dims(space.id(), shape.data(), nullptr) < 0) {
    refuse(name + " has no shape");
    return {};
  }
  const Hdf5Handle type(H5Dget_type(dataset.id()), H5Tclose);
  double needed_bytes = static_cast<double>(H5Tget_size(type.id()));
  for (const hsize_t extent : shape) needed_bytes *= static_cast<double>(extent);
  if (needed_bytes > size_bytes_ * kDeflateLimit) {
    refuse(name + " claims to be larger than the file");
    return {};
  }
  return shape;
}

ElementRange Hdf5Input::values_in(const Hdf5Handle& dataset, const std::string& name,
                                  const std::optional<ElementRange>& range) {
  const std::vector<hsize_t> shape = shape_of(dataset, name);
  if (status_.ok() && shape.size() != 1) refuse(name + " is not a column");
  if (!status_.ok()) return {};
  return range.value_or(ElementRange{0, static_cast<std::int64_t>(shape[0])});
}

void Hdf5Input::read_values(const Hdf5Handle& dataset, const std::string& name, hid_t in_memory,
                            const ElementRange& range, void* values) {
  if (!status_.ok() || range.count == 0) return;
  // What stands behind them does not matter: they are the end of a row.
  const Block block = first_block(dataset, {range.first + range.count}, range);
  read(dataset, name, in_memory, values, block.in_memory.id(), block.in_file.id());
}

void Hdf5Input::read(const Hdf5Handle& dataset, const std::string& name, hid_t in_memory,
                     void* values, hid_t memory_space, hid_t file_space) {
  if (!status_.ok()) return;
  if (H5Dread(dataset.id(), in_memory, memory_space, file_space, H5P_DEFAULT, values) < 0) {
    refuse(name + " cannot be read: " + last_hdf5_error().text);
  }
}

}  // namespace swarmpi
