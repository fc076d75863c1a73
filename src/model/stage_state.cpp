#include "model/stage_state.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/check.hpp"
#include "core/random.hpp"
#include "model/initial_values.hpp"
#include "model/initial_weights.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {
namespace {

// Step 0 changes no weights, nor does what comes before it.
std::int64_t version_after(Step step) { return std::max<std::int64_t>(0, step.value); }

std::size_t bytes_of(const Slice& slice) {
  return static_cast<std::size_t>(slice.count) * sizeof(float);
}

}  // namespace

LayerWeights layer_weights(const WeightVersion& version, const StageTensors& tensors,
                           std::int64_t layer_set) {
  const auto vector = [&](TensorRole role) -> const float* {
    return version.tensors[tensors.place(role, layer_set)];
  };
  const auto matrix = [&](TensorRole role) -> const kernels::Weight& {
    return *version.multiplied[tensors.place(role, layer_set)];
  };
  return {.norm1_weight = vector(TensorRole::norm1_weight),
          .norm1_bias = vector(TensorRole::norm1_bias),
          .qkv = matrix(TensorRole::qkv_weight),
          .qkv_bias = vector(TensorRole::qkv_bias),
          .projection = matrix(TensorRole::projection_weight),
          .projection_bias = vector(TensorRole::projection_bias),
          .norm2_weight = vector(TensorRole::norm2_weight),
          .norm2_bias = vector(TensorRole::norm2_bias),
          .up = matrix(TensorRole::up_weight),
          .up_bias = vector(TensorRole::up_bias),
          .down = matrix(TensorRole::down_weight),
          .down_bias = vector(TensorRole::down_bias)};
}

StageState::StageState(const Config& config, const StageTensors& tensors, kernels::Backend& backend,
                       std::vector<Slice> owned)
    : config_(config), tensors_(tensors), backend_(backend) {
  const auto elements = static_cast<std::size_t>(tensors.elements());
  for (std::int64_t v = 0; v < config.train.delay(); ++v) {
    WeightVersion weights;
    weights.memory = backend.allocate(elements * sizeof(float));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo& info = tensors.info(i);
      weights.tensors.push_back(weights.memory->as<float>() + tensors.offset(i));
      weights.multiplied.push_back(
          is_multiplied_by(info.role) ? backend.make_weight(info.rows, info.columns) : nullptr);
    }
    weights.weight_hashes.resize(tensors.size());
    weights.copy_hashes.resize(tensors.size());
    versions_.push_back(std::move(weights));
    sums_.emplace_back(tensors, backend, config.swarm.has_collectives());
  }
  own(std::move(owned));
}

// An array over the run of owned elements is as long as that over all tensors is there: what lies
// between tensors comes along.
void StageState::own(std::vector<Slice> owned) {
  owned_ = std::move(owned);
  has_owners_ = !owned_.empty();
  if (!has_owners_) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) owned_.push_back(whole(i));
  }
  left_.reset();
  first_owned_ = 0;
  std::int64_t end = 0;
  for (const Slice& slice : owned_) {
    if (slice.count == 0) continue;
    const std::int64_t first = tensors_.offset(slice.place) + slice.first;
    if (end == 0) first_owned_ = first;
    end = first + slice.count;
  }
  moment1_.reset();
  moment2_.reset();
  const auto bytes = static_cast<std::size_t>(end - first_owned_) * sizeof(float);
  moment1_ = backend_.allocate(bytes);
  moment2_ = backend_.allocate(bytes);
}

Status StageState::initialize() {
  std::optional<WeightsFile> file;
  if (!config_.model.initial.empty()) {
    Result<WeightsFile> opened = open_initial_weights(config_.model);
    if (!opened.ok()) return opened.status();
    file = std::move(opened).value();
  }
  WeightVersion& first = versions_.front();
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& tensor = tensors_.info(i);
    values.resize(static_cast<std::size_t>(tensor.count()));
    if (file && tensor.cut < 0) {
      if (Status read = file->read(entry_of(tensor), values.data()); !read.ok()) return read;
    } else {
      set_initial_values(values.data(), tensor, config_.model, config_.train.seed);
    }
    backend_.upload(first.tensors[i], values.data(), values.size() * sizeof(float));
    refresh(i, first);
    for (WeightVersion& other : versions_) copy(i, other, first);
  }
  clear(*moment1_);
  clear(*moment2_);
  prepare(Step(0));
  backend_.finish();
  if (has_owners_) left_ = {tensor_hashes(), weight_hashes()};
  return {};
}

void StageState::loaded(Step step) {
  // views() showed version `newest_ - i` at its index; it is version `step - i` now.
  const std::int64_t newest = version_after(step);
  const auto shift = static_cast<std::ptrdiff_t>(index_of(newest - newest_));
  std::rotate(versions_.begin(), versions_.end() - shift, versions_.end());
  prepare(step);
  for (WeightVersion& weights : versions_) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) refresh(i, weights);
  }
  backend_.finish();
  if (has_owners_) left_ = {tensor_hashes(), weight_hashes()};
}

void StageState::prepare(Step step) {
  newest_ = version_after(step);
  left_.reset();
  made_.clear();
  overwritten_ = {};
  found_damaged_.clear();
  clear_sums();
}

std::vector<TensorState> StageState::views() {
  std::vector<TensorState> views;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& info = tensors_.info(i);
    const Slice& owned = owned_[i];
    TensorState view{info.name, info.rows, info.columns, {}};
    for (std::int64_t age = 0; age < std::ssize(versions_); ++age) {
      view.weights.push_back(versions_[index_of(newest_ - age)].tensors[i]);
    }
    if (owned.count > 0) {
      view.moment1 = moment(*moment1_, owned);
      view.moment2 = moment(*moment2_, owned);
    }
    if (owned.count < info.count()) view.owned = ElementRange{owned.first, owned.count};
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<float*> StageState::arrays(const Slice& slice, std::int64_t newest) const {
  SWARMPI_CHECK(slice.place < tensors_.size(), "a tensor of this stage");
  std::vector<float*> list;
  for (std::int64_t age = 0; age < std::ssize(versions_); ++age) {
    list.push_back(versions_[index_of(newest - age)].tensors[slice.place] + slice.first);
  }
  list.push_back(moment(*moment1_, slice));
  list.push_back(moment(*moment2_, slice));
  return list;
}

std::size_t StageState::state_bytes(std::span<const Slice> slices) const {
  std::int64_t elements = 0;
  for (const Slice& slice : slices) elements += slice.count;
  return static_cast<std::size_t>(elements) * (versions_.size() + 2) * sizeof(float);
}

std::uint64_t StageState::read(std::span<const Slice> slices, float* state) const {
  std::uint64_t sum = 0;
  for (const Slice& slice : slices) {
    for (const float* array : arrays(slice, newest_)) {
      backend_.download(state, array, bytes_of(slice));
      state += slice.count;
    }
    sum += hash(slice, newest_);
  }
  return sum;
}

bool StageState::write(std::span<const Slice> slices, Step step, std::uint64_t expected,
                       const float* state, std::span<const MissedUpdate> missed) {
  const std::int64_t newest = version_after(step);
  const Step last = missed.empty() ? step : missed.back().record->step;
  SWARMPI_CHECK(version_after(last) == newest_,
                "a piece after step " + std::to_string(step.value) + " is brought up to step " +
                    std::to_string(last.value) + ", the others are after " +
                    std::to_string(newest_));
  std::uint64_t sum = 0;
  for (const Slice& slice : slices) {
    for (float* array : arrays(slice, newest)) {
      backend_.upload(array, state, bytes_of(slice));
      state += slice.count;
    }
    sum += hash(slice, newest);
  }
  if (sum != expected) return false;
  catch_up(slices, step, missed);
  return true;
}

void StageState::catch_up(std::span<const Slice> slices, Step step,
                          std::span<const MissedUpdate> missed) {
  if (missed.empty()) return;
  std::size_t size_bytes = 0;
  for (const Slice& slice : slices) size_bytes += bytes_of(slice);
  const auto gradients = backend_.allocate(size_bytes);
  for (const MissedUpdate& update : missed) {
    const CommitRecord& record = *update.record;
    SWARMPI_CHECK(record.step == step.next(), "what a piece has missed is applied in order");
    step = record.step;
    const float* gradient = nullptr;
    if (!record.skipped) {
      SWARMPI_CHECK(update.gradient->size_bytes() == size_bytes, "a gradient of the piece");
      backend_.upload(gradients->data(), update.gradient->data(), size_bytes);
      gradient = gradients->as<float>();
    }
    for (const Slice& slice : slices) {
      update_slice(slice, record, {gradient, nullptr, 0}, update.ratios);
      if (gradient != nullptr) gradient += slice.count;
    }
  }
  backend_.finish();
}

std::uint64_t StageState::complete(std::size_t place) {
  for (WeightVersion& weights : versions_) refresh(place, weights);
  backend_.finish();
  return hash(whole(place), newest_);
}

const WeightVersion& StageState::weights_for(Step step) const {
  const auto delay = static_cast<std::int64_t>(versions_.size());
  const std::int64_t wanted = std::max<std::int64_t>(0, step.value - delay);
  SWARMPI_CHECK(wanted <= newest_ && wanted > newest_ - delay,
                "step " + std::to_string(step.value) +
                    " needs weights that are not here: newest is " + std::to_string(newest_));
  return versions_[index_of(wanted)];
}

StepSums& StageState::sums_of(Step step) { return sums_[index_of(step.value)]; }

std::vector<std::uint64_t> StageState::apply(const CommitRecord& record,
                                             const GradientOf& gradient_of, const Part* part) {
  const std::int64_t step = record.step.value;
  const bool is_first = step == 0 && newest_ == 0 && record.skipped;
  SWARMPI_CHECK(step == newest_ + 1 || is_first, "steps are applied in order: step " +
                                                     std::to_string(step) + " on weights after " +
                                                     std::to_string(newest_));
  const WeightVersion& from = versions_[index_of(newest_)];
  newest_ = step;
  WeightVersion& to = versions_[index_of(newest_)];
  const kernels::UpdateParameters parameters = parameters_of(record);
  std::vector<std::uint64_t> hashes(tensors_.size());
  ratios_.clear();
  if (config_.train.optimizer == Optimizer::lamb && !record.skipped) {
    ratios_.assign(tensors_.size(), 1);
  }
  std::vector<std::size_t> applied;
  Comparisons comparisons;
  const auto apply_to = [&](std::size_t i) {
    applied.push_back(i);
    compare_weights(i, from, to, comparisons);
    if (record.skipped) {
      compare_copies(i, to, comparisons);
      copy(i, to, from);
    } else {
      update(hashes[i], i, parameters, gradient_of(whole(i)), from, to, comparisons);
    }
  };
  if (part == nullptr) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) apply_to(i);
  } else {
    for (const Slice& slice : part->here) {
      if (slice.count == tensors_.info(slice.place).count()) {
        apply_to(slice.place);
      } else {
        update_slice(slice, record,
                     record.skipped ? kernels::ReducedGradient() : gradient_of(slice),
                     part->ratios);
      }
    }
  }
  sums_[index_of(step)].clear();  // not before: the gradient may be made of them
  backend_.finish();
  for (const std::size_t i : applied) {
    hashes[i] = record.skipped ? hash(whole(i), newest_) : hashes[i] + hash_of_older(i);
  }
  take_damaged(comparisons);
  return hashes;
}

kernels::UpdateParameters StageState::parameters_of(const CommitRecord& record) const {
  kernels::UpdateParameters parameters;
  parameters.beta1 = static_cast<float>(config_.train.beta1);
  parameters.beta2 = static_cast<float>(config_.train.beta2);
  parameters.epsilon = static_cast<float>(config_.train.epsilon);
  parameters.lr = record.lr;
  parameters.clip = record.clip;
  parameters.correction1 = record.correction1;
  parameters.correction2 = record.correction2;
  return parameters;
}

// Vectors have neither decay nor a trust ratio: their norms say little of how far they may go.
bool StageState::has_trust_ratio(std::size_t place) const {
  return config_.train.optimizer == Optimizer::lamb && tensors_.info(place).is_matrix();
}

kernels::UpdateBuffers StageState::buffers_of(const Slice& slice,
                                              const kernels::ReducedGradient& gradient,
                                              const WeightVersion& from, WeightVersion& to) {
  return {.new_weights = to.tensors[slice.place] + slice.first,
          .old_weights = from.tensors[slice.place] + slice.first,
          .moment1 = moment(*moment1_, slice),
          .moment2 = moment(*moment2_, slice),
          .gradient = gradient,
          .count = slice.count,
          .first_index = tensors_.info(slice.place).first_index + slice.first};
}

void StageState::update(std::uint64_t& hash, std::size_t place,
                        kernels::UpdateParameters parameters,
                        const kernels::ReducedGradient& gradient, const WeightVersion& from,
                        WeightVersion& to, Comparisons& comparisons) {
  kernels::UpdateBuffers buffers = buffers_of(whole(place), gradient, from, to);
  const bool is_matrix = tensors_.info(place).is_matrix();
  parameters.weight_decay = is_matrix ? static_cast<float>(config_.train.weight_decay) : 0.0f;
  kernels::Weight* const multiplied = to.multiplied[place].get();
  if (multiplied != nullptr && !has_trust_ratio(place)) {
    Comparison& copies = comparisons.emplace_back(Comparison{place, to.copy_hashes[place], 0});
    backend_.update_adamw_and_copies(hash, buffers, parameters,
                                     {multiplied, &copies.found, &to.copy_hashes[place]});
    return note_weights(place, to);
  }
  compare_copies(place, to, comparisons);
  if (has_trust_ratio(place)) {
    buffers.trust_ratio = &ratios_[place];
    backend_.update_lamb(hash, buffers, parameters);
  } else {
    backend_.update_adamw(hash, buffers, parameters);
  }
  refresh(place, to);
}

// With its trust ratio known, LAMB is AdamW with another learning rate.
void StageState::update_slice(const Slice& slice, const CommitRecord& record,
                              const kernels::ReducedGradient& gradient,
                              std::span<const float> ratios) {
  const WeightVersion& from = versions_[index_of(version_after(Step(record.step.value - 1)))];
  WeightVersion& to = versions_[index_of(record.step.value)];
  if (record.skipped) {
    if (&to == &from) return;
    return backend_.copy({to.tensors[slice.place] + slice.first, 1, slice.count},
                         {from.tensors[slice.place] + slice.first, 1, slice.count});
  }
  kernels::UpdateParameters parameters = parameters_of(record);
  if (has_trust_ratio(slice.place)) {
    SWARMPI_CHECK(ratios.size() == tensors_.size(), "a trust ratio for each tensor");
    parameters.lr *= ratios[slice.place];
  }
  const bool is_matrix = tensors_.info(slice.place).is_matrix();
  parameters.weight_decay = is_matrix ? static_cast<float>(config_.train.weight_decay) : 0.0f;
  backend_.update_adamw(unused_hash_, buffers_of(slice, gradient, from, to), parameters);
}

// ---- Where each replica owns a range

// What this replica alone has nobody else could compare: it is looked at before it is used.
std::uint64_t StageState::update_owned(std::span<const Slice> slices, const CommitRecord& record,
                                       const GradientOf& gradient_of) {
  SWARMPI_CHECK(!record.skipped && record.step.value == newest_ + 1, "steps are applied in order");
  WeightVersion& weights = versions_.front();
  overwritten_.tensors.resize(tensors_.size());
  overwritten_.weights.resize(tensors_.size());
  struct Hashes {
    std::uint64_t weights_before = 0, state_before = 0, weights = 0, state = 0;
  };
  std::vector<Hashes> hashes(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    kernels::UpdateParameters parameters = parameters_of(record);
    const bool is_matrix = tensors_.info(slice.place).is_matrix();
    parameters.weight_decay = is_matrix ? static_cast<float>(config_.train.weight_decay) : 0.0f;
    kernels::UpdateBuffers buffers = buffers_of(slice, gradient_of(slice), weights, weights);
    buffers.hash_before = &hashes[i].state_before;
    hash_weights(hashes[i].weights_before, slice);
    backend_.update_adamw(hashes[i].state, buffers, parameters);
    hash_weights(hashes[i].weights, slice);
  }
  backend_.finish();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto& [place, first, count] = slices[i];
    overwritten_.weights[place] += hashes[i].weights_before;
    overwritten_.tensors[place] += hashes[i].state_before;
    made_[{place, first}] = {count, hashes[i].weights, hashes[i].state};
    sum += hashes[i].weights;
  }
  return sum;
}

void StageState::copy_weights(std::span<const Slice> slices, float* weights) const {
  for (const Slice& slice : slices) {
    backend_.download(weights, newest_weights().tensors[slice.place] + slice.first,
                      bytes_of(slice));
    weights += slice.count;
  }
}

std::uint64_t StageState::weights_hash(std::span<const Slice> slices) const {
  std::vector<std::uint64_t> hashes(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) hash_weights(hashes[i], slices[i]);
  backend_.finish();
  return std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0});
}

// Passes have computed with what is overwritten here. What came damaged comes once more.
std::uint64_t StageState::place_weights(std::span<const Slice> slices, Step step,
                                        const float* weights) {
  SWARMPI_CHECK(step.value == newest_ + 1, "steps are applied in order");
  overwritten_.tensors.resize(tensors_.size());
  overwritten_.weights.resize(tensors_.size());
  std::vector<std::uint64_t> before(slices.size()), placed(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const bool is_new = made_.try_emplace({slice.place, slice.first}).second;
    if (is_new) hash_weights(before[i], slice);
    backend_.upload(versions_.front().tensors[slice.place] + slice.first, weights, bytes_of(slice));
    weights += slice.count;
    hash_weights(placed[i], slice);
  }
  backend_.finish();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto& [place, first, count] = slices[i];
    overwritten_.weights[place] += before[i];
    made_[{place, first}] = {count, placed[i], 0};
  }
  return std::accumulate(placed.begin(), placed.end(), std::uint64_t{0});
}

StateHash StageState::finish(const CommitRecord& record) {
  WeightVersion& weights = versions_.front();
  newest_ = version_after(record.step);
  const StateHash hash =
      record.skipped ? StateHash{tensor_hashes(), weight_hashes()} : hash_of_made();
  compare_with_left(record.skipped ? hash : overwritten_);
  Comparisons comparisons;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    compare_weights(i, weights, weights, comparisons);
    compare_copies(i, weights, comparisons);
    if (!record.skipped) refresh(i, weights);
  }
  backend_.finish();
  take_damaged(comparisons);
  sums_.front().clear();
  made_.clear();
  overwritten_ = {};
  left_ = hash;
  return hash;
}

StateHash StageState::hash_of_made() const {
  StateHash hash{std::vector<std::uint64_t>(tensors_.size()),
                 std::vector<std::uint64_t>(tensors_.size())};
  std::vector<std::int64_t> missing;
  for (std::size_t i = 0; i < tensors_.size(); ++i) missing.push_back(tensors_.info(i).count());
  for (const auto& [slice, made] : made_) {
    missing[slice.first] -= made.count;
    hash.weights[slice.first] += made.weights;
    hash.tensors[slice.first] += made.state;
  }
  SWARMPI_CHECK(std::all_of(missing.begin(), missing.end(), [](auto count) { return count == 0; }),
                "all elements are updated or placed, once");
  return hash;
}

void StageState::compare_with_left(const StateHash& found) {
  if (!left_) return;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool same =
        found.tensors[i] == left_->tensors[i] && found.weights[i] == left_->weights[i];
    if (!same) note_damage(i);
  }
}

void StageState::take_damaged(const Comparisons& comparisons) {
  for (const Comparison& comparison : comparisons) {
    if (comparison.found != comparison.expected) note_damage(comparison.place);
  }
  damaged_.assign(found_damaged_.begin(), found_damaged_.end());
  found_damaged_.clear();
}

std::vector<std::uint64_t> StageState::weight_hashes() const {
  std::vector<std::uint64_t> hashes(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) hash_weights(hashes[i], whole(i));
  backend_.finish();
  return hashes;
}

void StageState::hash_weights(std::uint64_t& hash, const Slice& slice) const {
  backend_.hash_weights(hash, newest_weights().tensors[slice.place] + slice.first, slice.count,
                        tensors_.info(slice.place).first_index + slice.first);
}

// ---- Hashes

std::vector<std::uint64_t> StageState::tensor_hashes() const {
  std::vector<std::uint64_t> hashes;
  for (const Slice& owned : owned_) {
    hashes.push_back(owned.count > 0 ? hash(owned, newest_) : 0);
  }
  return hashes;
}

std::uint64_t StageState::hash(const Slice& slice, std::int64_t newest) const {
  const auto& [place, first, count] = slice;
  const std::int64_t first_index = tensors_.info(place).first_index + first;
  const WeightVersion& weights = versions_[index_of(newest)];
  std::uint64_t sum = backend_.state_hash(weights.tensors[place] + first, moment(*moment1_, slice),
                                          moment(*moment2_, slice), count, first_index);
  for (const WeightVersion& version : versions_) {
    if (&version == &weights) continue;
    sum +=
        backend_.state_hash(version.tensors[place] + first, nullptr, nullptr, count, first_index);
  }
  return sum;
}

std::uint64_t StageState::hash_of_older(std::size_t place) const {
  const WeightVersion& newest = newest_weights();
  std::uint64_t sum = 0;
  for (const WeightVersion& version : versions_) {
    if (&version != &newest) sum += version.weight_hashes[place];
  }
  return sum;
}

void StageState::hash_weights(std::uint64_t& hash, std::size_t place,
                              const WeightVersion& weights) const {
  const TensorInfo& info = tensors_.info(place);
  backend_.hash_weights(hash, weights.tensors[place], info.count(), info.first_index);
}

// The newest version is read here for the first time since it was made, too: found when it is
// overwritten, its damage would have gone into a row, which a resumed run contradicts.
void StageState::compare_weights(std::size_t place, const WeightVersion& from,
                                 const WeightVersion& to, Comparisons& comparisons) const {
  if (versions_.size() == 1) return;
  for (const WeightVersion* weights : {&from, &to}) {
    const std::uint64_t expected = weights->weight_hashes[place];
    hash_weights(comparisons.emplace_back(Comparison{place, expected, 0}).found, place, *weights);
  }
}

void StageState::compare_copies(std::size_t place, const WeightVersion& to,
                                Comparisons& comparisons) const {
  kernels::Weight* const multiplied = to.multiplied[place].get();
  if (multiplied == nullptr) return;
  const std::uint64_t expected = to.copy_hashes[place];
  backend_.hash_copies(comparisons.emplace_back(Comparison{place, expected, 0}).found, *multiplied);
}

FlippedBit StageState::flip(std::uint64_t seed, FaultyPart part) {
  const std::int64_t age = part == FaultyPart::oldest ? std::ssize(versions_) - 1 : 0;
  WeightVersion& weights = versions_[index_of(newest_ - age)];
  const PhiloxBlock draw = philox(seed, Stream::faults, 0, 0);
  // From a place drawn at random on, the first weight that is not zero; of its mantissa one of the
  // upper bits, which the next update cannot round away.
  const int bit = 16 + static_cast<int>(draw[2] % 7);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::size_t place = (draw[0] + i) % tensors_.size();
    const std::int64_t count = tensors_.info(place).count();
    if (part == FaultyPart::copies) {
      if (!weights.multiplied[place]) continue;
      const auto copies = weights.multiplied[place]->copies();
      if (copies.empty()) continue;
      const auto byte = static_cast<std::size_t>(draw[1]) % copies.back().size();
      std::byte flipped{};
      backend_.download(&flipped, &copies.back()[byte], 1);
      flipped ^= std::byte(1 << (bit - 16));
      backend_.upload(&copies.back()[byte], &flipped, 1);
      return {tensors_.info(place).name, static_cast<std::int64_t>(byte), bit - 16};
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    backend_.download(values.data(), weights.tensors[place], values.size() * sizeof(float));
    for (std::int64_t e = 0; e < count; ++e) {
      const std::int64_t element = (draw[1] + e) % count;
      const float weight = values[static_cast<std::size_t>(element)];
      if (weight == 0) continue;
      const auto flipped = std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight) ^ (1u << bit));
      backend_.upload(weights.tensors[place] + element, &flipped, sizeof flipped);
      if (part == FaultyPart::newest) refresh(place, weights);
      backend_.finish();
      return {tensors_.info(place).name, element, bit};
    }
  }
  SWARMPI_CHECK(false, "a stage whose weights are all zero has no bit to flip");
}

std::int64_t StageState::memory_bytes() const {
  std::size_t sum = moment1_->size_bytes() + moment2_->size_bytes();
  for (const WeightVersion& weights : versions_) sum += weights.memory->size_bytes();
  std::int64_t sums_bytes = 0;
  for (const StepSums& sums : sums_) sums_bytes += sums.memory_bytes();
  return static_cast<std::int64_t>(sum) + sums_bytes +
         static_cast<std::int64_t>(versions_.size()) * multiplied_bytes(tensors_, backend_);
}

std::int64_t multiplied_bytes(const StageTensors& tensors, const kernels::Backend& backend) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = tensors.info(i);
    if (is_multiplied_by(info.role)) sum += backend.weight_bytes(info.rows, info.columns);
  }
  return static_cast<std::int64_t>(sum);
}

std::size_t StageState::index_of(std::int64_t number) const {
  const auto delay = static_cast<std::int64_t>(versions_.size());
  return static_cast<std::size_t>((number % delay + delay) % delay);
}

void StageState::clear(kernels::Memory& memory) {
  backend_.zero(memory.data(), memory.size_bytes());
}

void StageState::clear_sums() {
  for (StepSums& sums : sums_) sums.clear();
}

void StageState::copy(std::size_t place, WeightVersion& to, const WeightVersion& from) {
  if (&to == &from) return;
  const std::int64_t count = tensors_.info(place).count();
  backend_.copy({to.tensors[place], 1, count}, {from.tensors[place], 1, count});
  refresh(place, to);
}

void StageState::note_weights(std::size_t place, WeightVersion& weights) {
  if (versions_.size() > 1) hash_weights(weights.weight_hashes[place], place, weights);
}

void StageState::refresh(std::size_t place, WeightVersion& weights) {
  note_weights(place, weights);
  if (!weights.multiplied[place]) return;
  backend_.refresh(*weights.multiplied[place], weights.tensors[place]);
  backend_.hash_copies(weights.copy_hashes[place], *weights.multiplied[place]);
}

}  // namespace swarmpi
