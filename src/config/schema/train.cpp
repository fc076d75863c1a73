// The keys of [train].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field train() {
  return field_at<&in_section<&Config::train, member>>();
}

constexpr Range in_fp32(double min, double max) {
  return {.min = min, .max = max, .why = "what fp32 can work with"};
}
/// A decay that rounds to 1 would stop learning without a word.
constexpr Range decay() {
  return {.min = 0, .max = 0.99999997, .below_max = true, .why = "more is 1 in fp32"};
}

}  // namespace

Keys train_keys() {
  using T = TrainConfig;
  return {
      {.name = "steps",
       .field = train<&T::steps>(),
       .range = at_least(1),
       .on_resume = kMayChange,
       .help = "number of optimizer steps, skipped steps included. A resumed run may have another, "
               "where its learning rates stay what they were: see train.schedule_steps"},
      {.name = "microbatches",
       .field = train<&T::microbatches>(),
       .range = from_to(1, 1 << 20),
       .help = "number of microbatches of a step"},
      {.name = "microbatch_size",
       .field = train<&T::microbatch_size>(),
       .unit = "sequences",
       .range = from_to(1, 1 << 20),
       .help = "sequences of a microbatch"},
      {.name = "optimizer",
       .field = train<&T::optimizer>(),
       .help = "\"adamw\", or \"lamb\" with a trust ratio for each matrix"},
      {.name = "beta1",
       .field = train<&T::beta1>(),
       .range = decay(),
       .help = "decay of the first moment of the gradient, per update"},
      {.name = "beta2",
       .field = train<&T::beta2>(),
       .range = decay(),
       .help = "decay of the second moment of the gradient, per update"},
      {.name = "epsilon",
       .field = train<&T::epsilon>(),
       .range = in_fp32(1e-37, 1e6),
       .help = "added to the square root of the second moment"},
      {.name = "lr",
       .field = train<&T::lr>(),
       .range = in_fp32(1e-30, 1e6),
       .help = "largest learning rate, reached after the warm-up"},
      {.name = "min_lr",
       .field = train<&T::min_lr>(),
       .range = at_least(0),
       .help = "what the schedule brings the learning rate down to, one update after the last; at "
               "most train.lr; \"constant\" does not use it"},
      {.name = "warmup_steps",
       .field = train<&T::warmup_steps>(),
       .range = at_least(0),
       .help = "updates over which the learning rate rises linearly to train.lr; at most "
               "train.schedule_steps; 0: no warm-up"},
      {.name = "schedule",
       .field = train<&T::schedule>(),
       .help = "how the learning rate falls from train.lr to train.min_lr after the warm-up; "
               "\"constant\": it stays"},
      {.name = "schedule_steps",
       .field = train<&T::schedule_steps>(),
       .range = at_least(0),
       .help = "updates over which the learning rate falls, warm-up included; then it is "
               "train.min_lr. 0: train.steps. A run that names it can be resumed with another "
               "train.steps"},
      {.name = "weight_decay",
       .field = train<&T::weight_decay>(),
       .range = in_fp32(0, 1e6),
       .help =
           "decoupled weight decay of matrices; vectors (biases, norms) have none; 0: no decay"},
      {.name = "clip",
       .field = train<&T::clip>(),
       .range = at_least(0),
       .help = "largest global norm of the gradient, at least 1e-30; a larger gradient is scaled "
               "down to it; 0: no clipping"},
      {.name = "seed",
       .field = train<&T::seed>(),
       .range = at_least(0),
       .help = "seed of the initial weights and of the order of the data"},
      {.name = "updates",
       .field = train<&T::updates>(),
       .help = "\"delayed\": a step computes on the weights of two steps ago, while the step "
               "before it is reduced and applied"},
      {.name = "reduction",
       .field = train<&T::reduction>(),
       .available = {"reproducible"},
       .help = "how gradients are added: as integers, with the same bits in any order, or in fp32"},
      {.name = "max_hours",
       .field = train<&T::max_hours>(),
       .unit = "h",
       .range = {.min = 0, .max = kLongestS / 3600},
       .on_resume = kMayChange,
       .help = "hours of training after which the run writes a checkpoint and stops, as by a "
               "signal, with status 3; counted anew when it is resumed. 0: no limit"},
  };
}

}  // namespace swarmpi
