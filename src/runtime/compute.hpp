#pragma once
// Seam 3: compute. Takes one job at a time; each is answered by a JobFinished in the peer's inbox.

#include "core/payload.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class Compute {
 public:
  virtual ~Compute() = default;
  virtual void start(Job job) = 0;
  /// The job after the one that runs will read this, as far as one can tell.
  virtual void will_read(const PayloadRef& /*payload*/) {}
  /// CPU time that jobs have used so far; of the one that runs, too.
  virtual double cpu_s() const { return 0; }
};

}  // namespace swarmpi
