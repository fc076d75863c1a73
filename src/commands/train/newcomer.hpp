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
  std::string run_file, hosts;
  std::string resumed_from;  ///< a checkpoint, "" if there was none
  std::string fingerprint, deck;
  ResumeState state;
  std::string probes;  ///< name of files that it must see in the run's folders
};
SWARMPI_FIELDS(RunningSwarm, build, self, ranks, peers_on_host, first_term, must_agree, run_file,
               hosts, resumed_from, fingerprint, deck, state, probes);

/// The arguments with which a newcomer is started.
std::vector<std::string> arguments_of_spawned();

/// The message to the process that will be `newcomer`. `hosts`: of the run, blanks between them;
/// `probes`: see RunningSwarm.
std::string packed_options(const PreparedRun& run, PeerId newcomer, const std::string& hosts,
                           const std::string& probes);

/// MPI in a newcomer. Errors: bad_input, where no rank has spawned this process.
Result<std::unique_ptr<MpiSession>> open_session_of_newcomer();
/// What packed_options() made. Errors: bad_input or failed, where another build has sent it.
Result<TrainOptions> receive_options(MpiSession& session);

}  // namespace swarmpi
