#pragma once
// Newcomers: processes that a rank spawns while the run goes on (swarm.spawn). That rank sends each
// what others are told by their command line, and how far the run is; the newcomer then asks to
// join the swarm.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

struct PreparedRun;
struct TrainOptions;

/// What a newcomer is sent of the swarm that it joins.
struct RunningSwarm {
  std::string build;
  PeerId self;  ///< the newcomer
  std::int64_t ranks = 0, peers_on_host = 0, first_term = 0;
  bool must_agree = true;
  std::string run_file;
  std::string resumed_from;  ///< a checkpoint, "" if there was none
  std::string fingerprint, deck;
  ResumeState state;
};
SWARMPI_FIELDS(RunningSwarm, build, self, ranks, peers_on_host, first_term, must_agree, run_file,
               resumed_from, fingerprint, deck, state);

/// The arguments with which a newcomer is started.
std::vector<std::string> arguments_of_spawned();

/// The message to the process that will be `newcomer`.
std::string packed_options(const PreparedRun& run, PeerId newcomer);

/// MPI in a newcomer. Errors: bad_input, where no rank has spawned this process.
Result<std::unique_ptr<MpiSession>> open_session_of_newcomer();
/// What packed_options() made. Errors: bad_input or failed, where another build has sent it.
Result<TrainOptions> receive_options(MpiSession& session);

}  // namespace swarmpi
