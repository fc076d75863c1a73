#pragma once
// Counts the passes of a run: which were repeated, whether without need, and what each death cost.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// A death and what it cost, in passes of one microbatch through one stage.
struct DeathCost {
  PeerId peer;
  bool led = false;
  std::int64_t own = 0;            ///< backward passes of its own, of steps that were not committed
  std::int64_t repeated = 0;       ///< backward passes done again, from this death to the next
  std::int64_t forward_again = 0;  ///< forward passes, likewise
};

class WorkCount {
 public:
  enum class Pass : std::uint8_t { forward, backward };

  /// A pass begins. False if it is repeated without need: it was begun before though no peer had
  /// died, or more often than the views since the microbatch's first pass allow. Each view may have
  /// it repeated once, and a pass that was under way counts as one more.
  bool begin(PeerId peer, const WorkId& work, Pass pass);
  /// A view was published, after which the leader plans all open work again.
  void planned() { ++plans_; }
  /// A peer died. `committed`: the last committed step.
  void died(PeerId peer, bool led, Step committed);
  /// The run falls back to the state after this step: later passes are repeated, and not counted.
  void restarted(Step step);
  const std::vector<DeathCost>& deaths() const { return deaths_; }

 private:
  struct Begun {
    std::array<std::int64_t, 2> times{};  // forward, backward
    PeerId backward_by;                   // the last one
  };

  std::map<WorkId, Begun> begun_;
  std::map<MicrobatchId, std::int64_t> first_plan_;  // when its first pass began, in any stage
  std::int64_t plans_ = 0;
  std::vector<DeathCost> deaths_;
};

}  // namespace swarmpi
