#pragma once
// The start of a run of many ranks: all say what they bring, and go on only if all can.

#include <string>
#include <vector>

#include "commands/train/start_info.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

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
