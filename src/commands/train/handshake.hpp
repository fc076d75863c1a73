#pragma once
// The handshake at the start of a run of many ranks: each says what it has prepared, and all go on
// only if all have succeeded and fit together: the same build, deck, data, fingerprint and state,
// and one file system for what is written.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// Version of all that ranks say to each other: StartInfo, what a newcomer is told, and the
/// messages of transport/wire. It grows whenever their bytes change, since builds of two commits
/// may differ in nothing else that is compared.
inline constexpr int kWireVersion = 1;

/// Begins what a rank sends to another that may run another build.
void append_wire_version(std::string& text);
/// Reads it. Errors: failed, naming both versions.
Status check_wire_version(Fields& fields);

/// What a rank says of itself.
struct StartInfo {
  Status status;  ///< what went wrong while this rank prepared, if anything did
  std::string host;
  std::string build;
  std::string deck;  ///< resolved, with the data's hash
  std::string fingerprint;
  std::int64_t step = -1;                         ///< the run resumes after it; -1: a new run
  std::map<StageId, std::uint64_t> stage_hashes;  ///< state hashes of the stages it has loaded

  std::string packed() const;
};

/// Reads what packed() made. Errors: failed, where another build or wire version made it.
Result<StartInfo> unpack_start_info(const std::string& text);

/// Whether these ranks can run together; the message names ranks and hosts. `resumed`: from a
/// checkpoint, whose manifest gives `state_hash` for the whole state. Errors: the first failed
/// `status`; bad_input where ranks differ or the state is not the checkpoint's.
Status check_compatible(const std::vector<StartInfo>& ranks, bool resumed,
                        std::uint64_t state_hash);

// Collective: all ranks must call these in the same order, and all get the same answer.

/// The hosts of all ranks, if check_compatible() finds nothing, which explains `resumed` and
/// `state_hash`.
Result<std::vector<std::string>> exchange_start_info(MpiSession& session, const StartInfo& mine,
                                                     bool resumed, std::uint64_t state_hash);

/// Good if `mine` is so on all ranks; else that of the first rank where it is not. Ranks may call
/// it while others call exchange_start_info().
Status all_agree(MpiSession& session, const Status& mine);

/// Whether all hosts see the folder of the run file as one and the same. Errors: bad_input.
Status prove_folder_shared(MpiSession& session, const std::string& run_file);

}  // namespace swarmpi
