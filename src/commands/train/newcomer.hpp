#pragma once
// Newcomers: processes that a rank spawns while the run goes on (swarm.spawn). That rank sends each
// what others are told by their command line, and how far the run is; the newcomer then asks to
// join the swarm.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "protocol/membership/room.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

struct PreparedRun;
struct TrainOptions;

/// What a newcomer is sent of the swarm that it joins.
struct RunningSwarm {
  std::string build;
  PeerId self;  ///< the newcomer
  std::int64_t ranks = 0, peers_on_host = 0, first_term = 0;
  std::string run_file, hosts;
  std::string resumed_from;  ///< a checkpoint, "" if there was none
  std::string fingerprint, deck;
  ResumeState state;
  std::string probes;  ///< name of files that it must see in the run's folders
  Budgets budgets;     ///< of the peers of the start
  MemoryNeeds needs;   ///< as these have agreed on
};
SWARMPI_FIELDS(RunningSwarm, build, self, ranks, peers_on_host, first_term, run_file, hosts,
               resumed_from, fingerprint, deck, state, probes, budgets, needs);

/// The arguments with which a newcomer is started, but for the last, by which it finds the rank
/// that has started it.
std::vector<std::string> arguments_of_spawned();
/// That last argument; nothing where these are not the arguments of a newcomer.
std::optional<std::string> port_of_newcomer(const std::vector<std::string>& arguments);

/// The message to the process that will be `newcomer`. `hosts`: of the run, blanks between them.
std::string packed_options(const PreparedRun& run, PeerId newcomer, const std::string& hosts);

/// What packed_options() made. Errors: bad_input or failed, where another build has sent it.
Result<TrainOptions> receive_options(MpiSession& session);

}  // namespace swarmpi
