#pragma once
// The start of a run of many ranks: all say what they bring, and go on only if all can.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/status.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

struct StartInfo {
  Status status;  ///< of what this rank has prepared on its own
  std::string host;
  std::string build;
  std::string deck;  ///< resolved, with the data's hash
  std::string fingerprint;
  std::int64_t step = -1;                         ///< the run goes on after it
  std::map<StageId, std::uint64_t> stage_hashes;  ///< of the state it has loaded

  std::string packed() const;
};

/// What packed() made. Errors: failed, where another program speaks.
Result<StartInfo> unpack_start_info(const std::string& text);

/// Whether these ranks can run together; the message names ranks and hosts. `state_hash`: what the
/// checkpoint says of the whole state, where one is resumed.
Status check_compatible(const std::vector<StartInfo>& ranks, bool resumed,
                        std::uint64_t state_hash);

// All ranks call these, in the same order, and get the same answer.

/// The hosts of all ranks, if they fit together. `resumed`, `state_hash`: as in check_compatible().
Result<std::vector<std::string>> exchange_start_info(MpiSession& session, const StartInfo& mine,
                                                     bool resumed, std::uint64_t state_hash);

/// Good if it is so for all; else what the first rank says for which it is not. A rank may call it
/// while others call exchange_start_info().
Status all_agree(MpiSession& session, const Status& mine);

/// Whether all hosts see the folder of the run file as one and the same.
Status prove_folder_shared(MpiSession& session, const std::string& run_file);

}  // namespace swarmpi
