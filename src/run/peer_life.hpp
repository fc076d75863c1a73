#pragma once
// One peer of a run on the four seams, from its start to its end.

#include <cstdint>
#include <functional>
#include <string>

#include "core/payload.hpp"
#include "core/status.hpp"
#include "faults/fate.hpp"
#include "run/assembly.hpp"
#include "run/preparation.hpp"
#include "transport/transport.hpp"
#include "worker/inbox.hpp"

namespace swarmpi {

/// What a peer must know of where it runs.
struct Surroundings {
  std::string hosts;
  std::int64_t peers_on_host = 1;
  bool recovers = false;  ///< deaths are heard of
  /// Does to this peer what [[faults.at]] says: kill or notice.
  std::function<void(const std::string& event)> strike = nullptr;
  const Fate* fate = nullptr;  ///< where preemption is emulated
};

/// How this peer's part went, and whether it is its to tell.
struct Outcome {
  Status status;
  bool speaks = true;
  bool left = false;        ///< and the others go on
  bool died = false;        ///< as its fate was
  bool saw_the_end = true;  ///< of the whole run
};

/// `run.self` lives, with the stages that it serves at the start.
Outcome live(Preparation& run, Stages stages, Transport& transport, PayloadPool& payloads,
             const Surroundings& around, Inbox& inbox, bool quiet);

}  // namespace swarmpi
