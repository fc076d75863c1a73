#include "model/initial_weights.hpp"

#include <vector>

#include "core/hash.hpp"

namespace swarmpi {

WeightsEntry entry_of(const TensorInfo& tensor) {
  return {tensor.name, {tensor.rows, tensor.columns}, tensor.first_index};
}

Result<WeightsFile> open_initial_weights(const ModelConfig& model) {
  Result<WeightsFile> file = WeightsFile::open(model.initial);
  if (!file.ok()) return Status::bad_input("model.initial: " + file.status().message());
  const std::string found = hex(file.value().hash());
  if (model.initial_hash.empty() || model.initial_hash == found) return file;
  return Status::bad_input("model.initial_hash: the weights of " + model.initial + " have hash " +
                           found + ", the deck says " + model.initial_hash);
}

Status adopt_initial_weights(ModelConfig& model) {
  if (model.initial.empty()) return {};
  const Result<WeightsFile> file = open_initial_weights(model);
  if (!file.ok()) return file.status();
  std::vector<WeightsEntry> entries;
  for (const TensorInfo& tensor : model_tensors(model)) entries.push_back(entry_of(tensor));
  const Status fits = file.value().holds_just(entries);
  if (!fits.ok()) return Status::bad_input("model.initial: " + fits.message());
  model.initial_hash = hex(file.value().hash());
  return {};
}

}  // namespace swarmpi
