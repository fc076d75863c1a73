#include "protocol/step/schedule.hpp"

#include <algorithm>

#include "kernels/portable_math.hpp"

namespace swarmpi {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// How far the decay has come after the warm-up: 0 at its last update, 1 at train.steps and beyond.
double decay_progress(const TrainConfig& train, std::int64_t update) {
  const std::int64_t length = train.steps - train.warmup_steps;
  if (length <= 0) return 1;
  const double progress =
      static_cast<double>(update - train.warmup_steps) / static_cast<double>(length);
  return std::clamp(progress, 0.0, 1.0);
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
  if (beta <= 0) return 1;
  return static_cast<float>(1 - kernels::portable_pow(beta, static_cast<double>(update)));
}

}  // namespace swarmpi
