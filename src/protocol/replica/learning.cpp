#include "protocol/replica/learning.hpp"

namespace swarmpi {
namespace {

// Tensors that a learner asks for at a time.
constexpr std::size_t kFetchesAtOnce = 4;

}  // namespace

std::vector<std::pair<PeerId, std::int32_t>> Learning::ask(PeerId self,
                                                           const std::vector<PeerId>& donors) {
  std::vector<std::pair<PeerId, std::int32_t>> requests;
  if (donors.empty() || !ready()) return requests;
  for (std::size_t t = 0; t < here_.size() && asked_.size() < kFetchesAtOnce; ++t) {
    const auto tensor = static_cast<std::int32_t>(t);
    if (here_[t] || asked_.contains(tensor) || to_write_.contains(tensor)) continue;
    const PeerId donor = donors[(static_cast<std::size_t>(self.value) + t) % donors.size()];
    asked_[tensor] = donor;
    requests.emplace_back(donor, tensor);
  }
  return requests;
}

void Learning::forget_donors(const View& view, StageId stage) {
  std::erase_if(asked_, [&](const auto& asked) { return !view.serves(asked.second, stage); });
}

void Learning::receive(const TensorMessage& message, Step applied) {
  asked_.erase(message.tensor);
  if (message.step >= applied) to_write_[message.tensor] = message;
}

const TensorMessage* Learning::next_to_write(Step applied) const {
  for (const auto& [tensor, message] : to_write_) {
    if (message.step != applied) continue;
    return &message;
  }
  return nullptr;
}

void Learning::written(const WriteResult& result) {
  to_write_.erase(result.tensor);
  here_[static_cast<std::size_t>(result.tensor)] = true;
  hashes_[static_cast<std::size_t>(result.tensor)] = result.hash;
}

// Without the step's gradient the tensors that are here would fall behind: they count as not here
// any more.
std::vector<bool> Learning::begin_update(bool has_gradient) {
  updating_ = here_;
  if (!has_gradient) updating_.assign(updating_.size(), false);
  return updating_;
}

void Learning::updated(const ApplyResult& result) {
  for (std::size_t i = 0; i < result.tensor_hashes.size(); ++i) {
    hashes_[i] = result.tensor_hashes[i];
  }
  here_ = std::exchange(updating_, {});
  std::erase_if(to_write_, [&](const auto& entry) { return entry.second.step < result.step; });
}

}  // namespace swarmpi
