#include "io/checkpoint/stage_file.hpp"

#include "core/text.hpp"
#include "io/files.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"

namespace swarmpi {

namespace {

constexpr char kNames[] = "/names";
constexpr char kKind[] = "a stage's part of a checkpoint";

std::string weights_name(std::size_t version) { return "/weights_" + std::to_string(version); }

}  // namespace

Result<CheckpointFile> write_stage_file(const std::string& checkpoint, std::int64_t stage,
                                        std::int64_t term, std::int64_t peer,
                                        const std::vector<SavedTensor>& tensors) {
  if (const Status created = create_folder(checkpoint); !created.ok()) return created;
  const std::string name =
      format("stage-%lld.term-%lld.peer-%lld.h5", static_cast<long long>(stage),
             static_cast<long long>(term), static_cast<long long>(peer));
  Hdf5Output file(checkpoint + "/" + name);
  std::vector<std::string> names;
  for (const SavedTensor& tensor : tensors) {
    const std::string group = "/tensors/" + tensor.name;
    names.push_back(tensor.name);
    for (std::size_t i = 0; i < tensor.weights.size(); ++i) {
      file.matrix(group + weights_name(i), tensor.rows, tensor.columns, tensor.weights[i]);
    }
    if (tensor.moment1 != nullptr) {
      file.matrix(group + "/moment1", tensor.rows, tensor.columns, tensor.moment1);
    }
    if (tensor.moment2 != nullptr) {
      file.matrix(group + "/moment2", tensor.rows, tensor.columns, tensor.moment2);
    }
  }
  file.column(kNames, names);
  FileHash hash;
  if (const Status written = file.finish(&hash); !written.ok()) return written;
  return CheckpointFile{name, hash.hash, hash.size_bytes};
}

Result<std::vector<std::string>> stage_file_names(const std::string& path) {
  Hdf5Input file(path, kKind);
  std::vector<std::string> names = file.text_column(kNames);
  if (!file.status().ok()) return file.status();
  return names;
}

Status read_stage_tensor(const std::string& path, const std::string& name, std::int64_t rows,
                         std::int64_t columns, const std::vector<float*>& weights, float* moment1,
                         float* moment2) {
  Hdf5Input file(path, kKind);
  const std::string group = "/tensors/" + name;
  if (!weights.empty() && (!file.has(group + weights_name(weights.size() - 1)) ||
                           file.has(group + weights_name(weights.size())))) {
    file.refuse(format("tensor %s does not have %zu versions of its weights", name.c_str(),
                       weights.size()));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != nullptr) file.matrix(group + weights_name(i), rows, columns, weights[i]);
  }
  if (moment1 != nullptr) file.matrix(group + "/moment1", rows, columns, moment1);
  if (moment2 != nullptr) file.matrix(group + "/moment2", rows, columns, moment2);
  return file.status();
}

}  // namespace swarmpi
