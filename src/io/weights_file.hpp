#pragma once
// A file of weights that a run begins with: float32 arrays by tensor name, and the hash of each
// (docs/files.md). A script makes it, so nothing in it is believed before it is looked at.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// A tensor of a model as such a file must have it.
struct WeightsEntry {
  std::string name;
  std::vector<std::int64_t> shape;  ///< (rows, columns); of a vector (1, elements)
  std::int64_t first_index = 0;     ///< place of its first element in the model
};

class WeightsFile {
 public:
  /// Reads names and hashes. Errors: bad_input.
  static Result<WeightsFile> open(const std::string& path);

  /// Of all weights in it.
  std::uint64_t hash() const;
  /// Good where each of these tensors is there in just its shape, and there are no others. Errors:
  /// bad_input, naming file and tensor.
  Status holds_just(const std::vector<WeightsEntry>& model) const;
  /// Reads a tensor into `values`. Errors: bad_input, where it is not there, has another shape, or
  /// has not the hash that the file says.
  Status read(const WeightsEntry& tensor, float* values) const;

 private:
  WeightsFile(std::string path, std::map<std::string, std::uint64_t> hashes)
      : path_(std::move(path)), hashes_(std::move(hashes)) {}

  std::string path_;
  std::map<std::string, std::uint64_t> hashes_;
};

/// Writes such a file, whole or not at all. `values`: of each tensor.
Status write_weights_file(const std::string& path, const std::vector<WeightsEntry>& model,
                          const std::vector<const float*>& values);

}  // namespace swarmpi
