#pragma once
// One peer of a run on the four seams, from its start to its end.

#include <cstdint>
#include <functional>
#include <string>

#include "commands/train/preparation.hpp"
#include "core/payload.hpp"
#include "core/status.hpp"
#include "runtime/assembly.hpp"
#include "runtime/inbox.hpp"
#include "transport/emulated_process.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

/// What a peer must know of where it runs.
struct PeerEnvironment {
  std::string hosts;
  std::int64_t peers_on_host = 1;
  bool recovers = false;  ///< deaths are heard of
  /// Does to this peer what [[faults.at]] says: kill or notice.
  std::function<void(const std::string& event)> inject_fault = nullptr;
  const EmulatedProcess* emulated_process = nullptr;  ///< where preemption is emulated
};

/// How this peer's part went, and whether it is its to tell.
struct Outcome {
  Status status;
  bool reports_outcome = true;
  bool left = false;        ///< and the others go on
  bool died = false;        ///< as its fate was
  bool saw_the_end = true;  ///< of the whole run
};

/// `run.self` lives, with the stages that it serves at the start.
Outcome run_peer(Preparation& run, Stages stages, Transport& transport, PayloadPool& payloads,
                 const PeerEnvironment& environment, Inbox& inbox, bool quiet);

}  // namespace swarmpi
