#pragma once
// What a virtual world is made of: how long messages, jobs and writing take, and what computes.

#include <limits>

#include "core/ids.hpp"
#include "core/status.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

/// What becomes of a message.
struct Delivery {
  double delay_s = 0;
  int copies = 1;  ///< 0: lost; 2: it arrives twice
};

/// What another peer notices of a death, in seconds after it.
struct DeathPropagation {
  double messages_until_s = 0;  ///< so long what the dead has sent still arrives, in its order
  double loss_known_s = 0;      ///< then the loss is heard of; messages may still come after it
};

class LinkModel {
 public:
  virtual ~LinkModel() = default;
  /// The world keeps the order of each pair of peers: a message that overtakes another waits for
  /// it.
  virtual Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) = 0;
  /// Until a peer that another has killed is dead.
  virtual double kill_delivery_s(PeerId, PeerId) { return 1e-3; }
  virtual DeathPropagation death_propagation(PeerId, PeerId) {
    return {std::numeric_limits<double>::infinity(), 0};
  }
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual double seconds(PeerId peer, const Job& job) = 0;
};

/// How long writing takes, and whether it works.
struct WriteAnswer {
  double seconds = 0;
  Status status;
  bool without_writer = false;  ///< it is written even if the writer dies meanwhile
};

class DiskModel {
 public:
  virtual ~DiskModel() = default;
  /// `action`: one of the storing actions. A peer's disk does one after another; after an error it
  /// does none.
  virtual WriteAnswer write(PeerId peer, const Action& action) = 0;
};

/// Seam 3 without time: the work of one peer.
class VirtualCompute {
 public:
  virtual ~VirtualCompute() = default;
  /// An error is a finding: the world ends with it.
  virtual Result<JobResult> execute(const Job& job) = 0;
  /// Writes the stage's state down as it is: after `step`, or the error is a finding.
  virtual Result<StageStored> save(Step step, StageId stage) = 0;
  /// Makes the stage, served so far or not, what it was when this was the state of the run. An
  /// error is a finding.
  virtual Status load(StageId stage, const ResumeState& state) = 0;
  /// A bit of the stage's state flips. False if there is none, or this compute cannot do it.
  virtual bool flip(StageId) { return false; }
};

}  // namespace swarmpi
