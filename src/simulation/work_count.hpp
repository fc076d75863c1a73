#pragma once
// Counts the passes of a run: which were needed, which were repeated, and what each death cost.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// A death and its price, in microbatch-stages.
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

  /// A pass begins. False if it was begun before although nobody had died, or more often than plans
  /// were made since the microbatch was: each may have it done once more, and what was under way
  /// is done as well.
  bool begin(PeerId peer, const WorkId& work, Pass pass);
  /// A view was published, after which everything is planned again.
  void planned() { ++plans_; }
  /// `committed`: the last step that is.
  void died(PeerId peer, bool led, Step committed);
  /// All go back to the state after this step: what came after it is done again, and not counted.
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
