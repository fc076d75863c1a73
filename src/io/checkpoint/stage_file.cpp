#include "io/checkpoint/stage_file.hpp"

#include <fmt/core.h>

#include "io/files.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"

namespace swarmpi {

namespace {

constexpr char kNames[] = "/names";

std::string group_of(const TensorState& tensor) { return "/tensors/" + tensor.name; }

std::string weights_name(std::size_t version) { return "/weights_" + std::to_string(version); }

/// use(name, array) for each array of the tensor that is not null; `name` is that of its dataset.
template <class Use>
void for_each_array(const TensorState& tensor, Use&& use) {
  const std::string group = group_of(tensor);
  for (std::size_t i = 0; i < tensor.weights.size(); ++i) {
    if (tensor.weights[i] != nullptr) use(group + weights_name(i), tensor.weights[i]);
  }
  if (tensor.moment1 != nullptr) use(group + "/moment1", tensor.moment1);
  if (tensor.moment2 != nullptr) use(group + "/moment2", tensor.moment2);
}

}  // namespace

Result<StoredFile> write_stage_file(const std::string& checkpoint, std::int64_t stage,
                                    std::int64_t term, std::int64_t peer,
                                    const std::vector<TensorState>& tensors) {
  if (const Status created = create_folder(checkpoint); !created.ok()) return created;
  const std::string name = fmt::format("stage-{}.term-{}.peer-{}.h5", stage, term, peer);
  Hdf5Output file(checkpoint + "/" + name, kStageFileFormat);
  std::vector<std::string> names;
  for (const TensorState& tensor : tensors) {
    names.push_back(tensor.name);
    for_each_array(tensor, [&](const std::string& array, const float* values) {
      file.matrix(array, tensor.rows, tensor.columns, values);
    });
  }
  file.column(kNames, names);
  FileHash hash;
  if (const Status written = file.finish(&hash); !written.ok()) return written;
  return StoredFile{name, hash.hash, hash.size_bytes};
}

Result<std::vector<std::string>> stage_file_names(const std::string& path) {
  Hdf5Input file(path, kStageFileFormat);
  std::vector<std::string> names = file.text_column(kNames);
  if (!file.status().ok()) return file.status();
  return names;
}

Status read_stage_tensor(const std::string& path, const TensorState& tensor) {
  Hdf5Input file(path, kStageFileFormat);
  const std::string group = group_of(tensor);
  const std::size_t versions = tensor.weights.size();
  if (versions > 0 &&
      (!file.has(group + weights_name(versions - 1)) || file.has(group + weights_name(versions)))) {
    file.refuse(
        fmt::format("tensor {} does not have {} versions of its weights", tensor.name, versions));
  }
  for_each_array(tensor, [&](const std::string& array, float* values) {
    file.matrix(array, tensor.rows, tensor.columns, values);
  });
  return file.status();
}

}  // namespace swarmpi
