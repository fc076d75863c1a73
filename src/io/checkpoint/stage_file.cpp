#include "io/checkpoint/stage_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.hpp"
#include "io/files.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"

namespace swarmpi {

namespace {

constexpr char kNames[] = "/names";
constexpr char kFirsts[] = "/first_elements";
constexpr char kCounts[] = "/element_counts";
constexpr int kWholeTensors = 1;  // version of a file without pieces
constexpr int kPieces = 2;

std::string group_of(const TensorState& tensor) { return "/tensors/" + tensor.name; }

std::string weights_name(std::size_t version) { return "/weights_" + std::to_string(version); }

ElementRange owned_of(const TensorState& tensor) { return tensor.owned.value_or(tensor.all()); }

/// Of the datasets of a piece.
std::vector<std::int64_t> stored_shape(const TensorState& tensor, const ElementRange& piece) {
  if (piece == tensor.all()) return {tensor.rows, tensor.columns};
  return {piece.count};
}

ElementRange overlap(const ElementRange& a, const ElementRange& b) {
  const std::int64_t first = std::max(a.first, b.first);
  const std::int64_t end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max(end - first, std::int64_t{0})};
}

/// use(name, array, range) for each array of the tensor that is not null; `name` is that of its
/// dataset, `range` what the array has.
template <class Use>
void for_each_array(const TensorState& tensor, Use&& use) {
  const std::string group = group_of(tensor);
  for (std::size_t i = 0; i < tensor.weights.size(); ++i) {
    if (tensor.weights[i] != nullptr) {
      use(group + weights_name(i), tensor.weights[i], tensor.all());
    }
  }
  const ElementRange owned = owned_of(tensor);
  if (tensor.moment1 != nullptr) use(group + "/moment1", tensor.moment1, owned);
  if (tensor.moment2 != nullptr) use(group + "/moment2", tensor.moment2, owned);
}

/// The tensors of which there is something to write.
std::vector<TensorState> owned_ones(const std::vector<TensorState>& tensors) {
  std::vector<TensorState> ones;
  for (const TensorState& tensor : tensors) {
    const ElementRange owned = owned_of(tensor);
    SWARMPI_CHECK(overlap(owned, tensor.all()) == owned, "an owner has elements of the tensor");
    if (owned.count > 0) ones.push_back(tensor);
  }
  return ones;
}

/// What there is of each tensor, where it is not all of each.
void write_pieces(const std::vector<TensorState>& tensors, Hdf5Output& file) {
  std::vector<std::int64_t> firsts, counts;
  for (const TensorState& tensor : tensors) {
    firsts.push_back(owned_of(tensor).first);
    counts.push_back(owned_of(tensor).count);
  }
  file.column(kFirsts, firsts);
  file.column(kCounts, counts);
}

void read_pieces(Hdf5Input& file, std::vector<StoredTensor>& tensors) {
  const auto firsts = file.column<std::int64_t>(kFirsts);
  const auto counts = file.column<std::int64_t>(kCounts);
  if (firsts.size() != tensors.size() || counts.size() != tensors.size()) {
    return file.refuse(
        fmt::format("{} and {} do not have a value for each of {}", kFirsts, kCounts, kNames));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool possible = firsts[i] >= 0 && counts[i] > 0 &&
                          counts[i] <= std::numeric_limits<std::int64_t>::max() - firsts[i];
    if (!possible) {
      return file.refuse(fmt::format("of tensor {} it has {} elements from {} on", tensors[i].name,
                                     counts[i], firsts[i]));
    }
    tensors[i].piece = ElementRange{firsts[i], counts[i]};
  }
}

/// Reads elements of a dataset into the memory of `backend`.
void read_array(Hdf5Input& file, const std::string& name, const std::vector<std::int64_t>& shape,
                const ElementRange& range, float* values, kernels::Backend& backend) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;
  std::vector<float> read(static_cast<std::size_t>(std::min(range.count, kAtOnce)));
  for (std::int64_t done = 0; done < range.count && file.status().ok(); done += kAtOnce) {
    const std::int64_t count = std::min(range.count - done, kAtOnce);
    file.elements(name, shape, {range.first + done, count}, read.data());
    if (!file.status().ok()) return;
    backend.upload(values + done, read.data(), static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace

Result<StoredFile> write_stage_file(const std::string& checkpoint, std::int64_t stage,
                                    std::int64_t term, std::int64_t peer,
                                    const std::vector<TensorState>& tensors,
                                    const kernels::Backend& backend) {
  if (const Status created = create_folder(checkpoint); !created.ok()) return created;
  const std::vector<TensorState> written = owned_ones(tensors);
  const bool whole = std::all_of(written.begin(), written.end(), [](const TensorState& tensor) {
    return owned_of(tensor) == tensor.all();
  });
  const std::string name = fmt::format("stage-{}.term-{}.peer-{}.h5", stage, term, peer);
  Hdf5Output file(checkpoint + "/" + name, kStageFileFormat, whole ? kWholeTensors : kPieces);
  const auto host_view = [&backend](const void* values, std::size_t size_bytes, void* room) {
    return backend.host_view(values, size_bytes, room);
  };
  std::vector<std::string> names;
  for (const TensorState& tensor : written) {
    names.push_back(tensor.name);
    const ElementRange owned = owned_of(tensor);
    for_each_array(tensor,
                   [&](const std::string& array, const float* values, const ElementRange& range) {
                     file.array(array, stored_shape(tensor, owned),
                                values + (owned.first - range.first), host_view);
                   });
  }
  file.column(kNames, names);
  if (!whole) write_pieces(written, file);
  FileHash hash;
  if (const Status finished = file.finish(&hash); !finished.ok()) return finished;
  return StoredFile{name, hash.hash, hash.size_bytes};
}

Result<std::vector<StoredTensor>> stage_file_tensors(const std::string& path) {
  Hdf5Input file(path, kStageFileFormat);
  std::vector<StoredTensor> tensors;
  for (std::string& name : file.text_column(kNames)) tensors.push_back({std::move(name)});
  if (file.has(kFirsts)) read_pieces(file, tensors);
  if (!file.status().ok()) return file.status();
  return tensors;
}

Status read_stage_tensor(const std::string& path, const TensorState& tensor,
                         const ElementRange& piece, kernels::Backend& backend) {
  Hdf5Input file(path, kStageFileFormat);
  const std::string group = group_of(tensor);
  const std::size_t versions = tensor.weights.size();
  if (versions > 0 &&
      (!file.has(group + weights_name(versions - 1)) || file.has(group + weights_name(versions)))) {
    file.refuse(
        fmt::format("tensor {} does not have {} versions of its weights", tensor.name, versions));
  }
  for_each_array(tensor, [&](const std::string& array, float* values, const ElementRange& range) {
    const ElementRange wanted = overlap(piece, range);
    if (wanted.count == 0) return;
    read_array(file, array, stored_shape(tensor, piece), {wanted.first - piece.first, wanted.count},
               values + (wanted.first - range.first), backend);
  });
  return file.status();
}

}  // namespace swarmpi
