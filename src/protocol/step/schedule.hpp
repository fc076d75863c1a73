#pragma once
// Learning rate and bias corrections as functions of the applied updates, in portable arithmetic:
// they travel as bits in the commit record.

#include <cstdint>

#include "config/config.hpp"

namespace swarmpi {

/// Learning rate of the `update`-th applied update (1, 2, ...): linear warm-up over warmup_steps,
/// then cosine or linear decay from lr, at the first update after it, to min_lr, which is reached
/// one update after train.scheduled_steps(), or constant.
float learning_rate(const TrainConfig& train, std::int64_t update);

/// 1 - beta^update: bias correction of AdamW's moments (Kingma and Ba, 2015); 1 for beta <= 0. Of
/// beta as fp32 has it, which is what the moments decay by: at 0.99999 the difference is 0.14 %.
float bias_correction(double beta, std::int64_t update);

}  // namespace swarmpi
