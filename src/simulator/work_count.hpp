#pragma once
// Counts the passes of a run: which were needed, which were repeated, and what each death cost.

#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// A death and its price, in microbatch-stages.
struct DeathCost {
  PeerId peer;
  bool led = false;
  std::int64_t own = 0;       ///< backward passes of its own, of steps that were not committed
  std::int64_t repeated = 0;  ///< backward passes done again, from this death to the next
};

class WorkCount {
 public:
  enum class Pass : std::uint8_t { forward = 1, backward = 2 };

  /// A pass begins. False if it was begun before although nobody had died.
  bool begin(PeerId peer, const WorkId& work, Pass pass);
  /// `committed`: the last step that is.
  void died(PeerId peer, bool led, Step committed);
  /// All go back to the state after this step: what came after it is done again, and not counted.
  void restarted(Step step);
  const std::vector<DeathCost>& deaths() const { return deaths_; }

 private:
  struct Begun {
    int passes = 0;
    PeerId backward_by;  // the last one
  };

  std::map<WorkId, Begun> begun_;
  std::vector<DeathCost> deaths_;
};

}  // namespace swarmpi
