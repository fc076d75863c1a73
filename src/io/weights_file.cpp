#include "io/weights_file.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/hash.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi {
namespace {

std::string array_of(const std::string& name) { return "/weights/" + name; }

std::int64_t element_count(const WeightsEntry& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  return count;
}

}  // namespace

Result<WeightsFile> WeightsFile::open(const std::string& path) {
  Hdf5Input file(path, kWeightsFormat);
  const std::vector<std::string> names = file.text_column("/tensors/name");
  const std::vector<std::uint64_t> hashes = file.column<std::uint64_t>("/tensors/hash");
  if (file.status().ok() && names.size() != hashes.size()) {
    file.refuse("/tensors/name and /tensors/hash are not of one length");
  }
  if (!file.status().ok()) return file.status();
  std::map<std::string, std::uint64_t> by_name;
  for (std::size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], hashes[i]);
  return WeightsFile(path, std::move(by_name));
}

std::uint64_t WeightsFile::hash() const {
  std::uint64_t sum = 0;
  for (const auto& [name, hash] : hashes_) sum += hash;
  return sum;
}

Status WeightsFile::holds_just(const std::vector<WeightsEntry>& model) const {
  Hdf5Input file(path_, kWeightsFormat);
  for (const WeightsEntry& tensor : model) {
    if (!hashes_.contains(tensor.name)) {
      return Status::bad_input(path_ + " has no tensor " + tensor.name);
    }
    float first = 0;
    file.elements(array_of(tensor.name), tensor.shape, {0, 1}, &first);
    if (!file.status().ok()) return file.status();
  }
  if (hashes_.size() == model.size()) return {};
  return Status::bad_input(
      fmt::format("{} has {} tensors, the deck's model {}", path_, hashes_.size(), model.size()));
}

Status WeightsFile::read(const WeightsEntry& tensor, float* values) const {
  const auto said = hashes_.find(tensor.name);
  if (said == hashes_.end()) return Status::bad_input(path_ + " has no tensor " + tensor.name);
  const std::int64_t count = element_count(tensor);
  Hdf5Input file(path_, kWeightsFormat);
  file.elements(array_of(tensor.name), tensor.shape, {0, count}, values);
  if (!file.status().ok()) return file.status();
  const std::uint64_t hash = kernels::hash_of_weights(values, count, tensor.first_index);
  if (hash == said->second) return {};
  return Status::bad_input(
      fmt::format("{}: tensor {} has hash {}, and should have {}: make the "
                  "file anew",
                  path_, tensor.name, hex(hash), hex(said->second)));
}

Status write_weights_file(const std::string& path, const std::vector<WeightsEntry>& model,
                          const std::vector<const float*>& values) {
  Hdf5Output file(path, kWeightsFormat);
  std::vector<std::string> names;
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const WeightsEntry& tensor = model[i];
    names.push_back(tensor.name);
    hashes.push_back(
        kernels::hash_of_weights(values[i], element_count(tensor), tensor.first_index));
    file.array(array_of(tensor.name), tensor.shape, values[i]);
  }
  file.column("/tensors/name", names);
  file.column("/tensors/hash", hashes);
  return file.finish();
}

}  // namespace swarmpi
