#pragma once
// What a person is told where checkpoints are damaged, and an older one was taken.

#include <ostream>
#include <string>

#include "io/checkpoint/checkpoint.hpp"

namespace swarmpi {

/// Names each one that was passed over, and why. `use`: "the run goes on from".
inline void warn_of_damaged(const Checkpoint& taken, const std::string& use, std::ostream& error) {
  for (const DamagedCheckpoint& damaged : taken.passed_over()) {
    error << "swarmpi: warning: " << damaged.path << " is DAMAGED and passed over, " << use << " "
          << taken.path() << ": " << damaged.why << std::endl;
  }
}

}  // namespace swarmpi
