#pragma once
// One peer of a run on the four seams, from its start to its end.

#include <cstdint>
#include <functional>
#include <string>

#include "commands/train/prepared_run.hpp"
#include "core/payload.hpp"
#include "core/status.hpp"
#include "runtime/assembly.hpp"
#include "runtime/inbox.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

/// The process and host that a peer runs on.
struct PeerEnvironment {
  std::string hosts;  ///< of the whole run, for the journal
  std::int64_t peers_on_host = 1;
  bool recovers = false;  ///< the deaths of other ranks are reported to this one
  /// Applies an event of [[faults.at]] to this peer: kill or notice.
  std::function<void(FaultEvent)> inject_fault = nullptr;
  double age_s = 0;  ///< of this peer, or of its process, when its part of the run begins
};

/// How a peer's part of the run ended.
struct Outcome {
  Status status = {};
  bool reports_outcome =
      true;                 ///< this process prints how the run ended, and exits with its status
  bool departed = false;    ///< the swarm has released it and goes on
  bool died = false;        ///< the transport has ended it
  bool saw_the_end = true;  ///< the whole run was over when it ended
  /// A thread hangs in a job or in a call of the file system, and may still touch the run and the
  /// payloads: the process is to end without destroying them.
  bool hangs = false;
};

/// Runs peer `run.self` to its end. `stages`: those that it serves at the start.
Outcome run_peer(PreparedRun& run, Stages stages, Transport& transport, PayloadPool& payloads,
                 const PeerEnvironment& environment, Inbox& inbox);

}  // namespace swarmpi
