#include "protocol/step/schedule.hpp"

#include <algorithm>

#include "kernels/portable_math.hpp"

namespace swarmpi {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// How far the decay has come: the share of the updates after the warm-up that are done before this
/// one. 0 at the first of them, 1 after the last: an update at min_lr = 0 would learn nothing.
double decay_progress(const TrainConfig& train, std::int64_t update) {
  const std::int64_t length = train.scheduled_steps() - train.warmup_steps;
  if (length <= 0) return 1;
  const std::int64_t done = update - 1 - train.warmup_steps;
  return std::clamp(static_cast<double>(done) / static_cast<double>(length), 0.0, 1.0);
}

}  // namespace

float learning_rate(const TrainConfig& train, std::int64_t update) {
  if (update <= train.warmup_steps) {
    return static_cast<float>(train.lr * static_cast<double>(update) /
                              static_cast<double>(train.warmup_steps));
  }
  const double progress = decay_progress(train, update);
  double remaining = 1;  // of the way from lr to min_lr
  if (train.schedule == Schedule::cosine) {
    remaining = 0.5 * (1 + kernels::portable_cos(kPi * progress));
  } else if (train.schedule == Schedule::linear) {
    remaining = 1 - progress;
  }
  return static_cast<float>(train.min_lr + (train.lr - train.min_lr) * remaining);
}

float bias_correction(double beta, std::int64_t update) {
  const auto decay = static_cast<double>(static_cast<float>(beta));
  if (decay <= 0) return 1;
  return static_cast<float>(1 - kernels::portable_pow(decay, static_cast<double>(update)));
}

}  // namespace swarmpi
