#include "model/step_sums.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace swarmpi {

StepSums::StepSums(const StageTensors& tensors, kernels::Backend& backend, bool for_collectives)
    : tensors_(tensors),
      backend_(backend),
      for_collectives_(for_collectives),
      memory_(
          backend.allocate(static_cast<std::size_t>(tensors.elements()) * sizeof(std::int64_t))),
      is_empty_(tensors.size(), !for_collectives) {}  // memory comes zeroed

void StepSums::clear() {
  std::fill(is_empty_.begin(), is_empty_.end(), true);
  if (for_collectives_) {
    data();
    backend_.finish();
  }
  cover_ = {};
  frozen_ = false;
}

StepSums::Target StepSums::target(std::size_t place) {
  SWARMPI_CHECK(!frozen_, "sums that stand for the reduced gradient take nothing more");
  const auto write = is_empty_[place] ? kernels::Write::set : kernels::Write::add;
  is_empty_[place] = false;
  return {of(place), write};
}

const std::int64_t* StepSums::data() {
  for (std::size_t place = 0; place < is_empty_.size(); ++place) {
    if (!is_empty_[place]) continue;
    const auto count = static_cast<std::size_t>(tensors_.info(place).count());
    backend_.zero(of(place), count * sizeof(std::int64_t));
    is_empty_[place] = false;
  }
  return memory_->as<std::int64_t>();
}

}  // namespace swarmpi
