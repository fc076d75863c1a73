#pragma once
// How ranks start together or not at all. In the handshake each says what it has prepared, and all
// go on only if all have succeeded and fit together: the same build, deck, data, fingerprint and
// state, and one file system for what is written. Who cannot start tells the others, and all leave.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "runtime/assembly.hpp"
#include "transport/launcher.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// Version of all that ranks say to each other: StartInfo, what a newcomer is told, processes and
/// control messages of transport/mpi, and the messages of transport/wire. It grows whenever their
/// bytes change, since builds of two commits may differ in nothing else that is compared.
inline constexpr int kWireVersion = 22;
/// Of the bytes of this version, as handshake_test.cpp makes them. Where they hash to something
/// else, raise kWireVersion, then change this.
inline constexpr std::uint64_t kWireHash = 0x4e869b9db77855ec;

/// What a rank sends to another that may run another build: these bytes behind the wire version.
std::string with_wire_version(const std::string& bytes);
/// Those bytes. Errors: failed, naming both versions.
Result<std::string> behind_wire_version(const std::string& text);

/// What a rank says of itself.
struct StartInfo {
  Status status;  ///< what went wrong while this rank prepared, if anything did
  std::string host;
  std::string build;
  std::string deck;        ///< resolved; data.hash as it was given
  std::string data_files;  ///< Dataset::identity()
  std::string data_hash;   ///< "": this rank has not read the data
  std::string fingerprint;
  std::optional<std::int64_t> budget_bytes;  ///< that its peer may take; none: no bound
  MemoryNeeds needs;                         ///< by its kernels
  std::int64_t step = -1;                    ///< the run resumes after it; -1: a new run
  std::int64_t first_term = 1;               ///< by its listing of the journal, which may be old
  std::vector<DamagedCheckpoint> damaged;    ///< newer ones that it passes over
  /// State hashes of the stages it has loaded, of what it owns of them; and those of all weights,
  /// where each replica owns a range.
  std::map<StageId, std::uint64_t> stage_hashes, weight_hashes;

  std::string packed() const;
};
SWARMPI_FIELDS(StartInfo, status, host, build, deck, data_files, data_hash, fingerprint,
               budget_bytes, needs, step, first_term, damaged, stage_hashes, weight_hashes);

/// Of this process: host, build and `status`.
StartInfo own_start_info(const Status& status);

/// Reads what packed() made. Errors: failed, where another build or wire version made it.
Result<StartInfo> unpack_start_info(const std::string& text);

/// Whether these ranks can run together; the message names ranks and hosts. Errors: the first
/// failed `status`; bad_input where ranks differ. `allow_mixed`: fingerprints may.
Status check_compatible(const std::vector<StartInfo>& ranks, bool allow_mixed = false);
/// Of a run whose ranks' fingerprints may differ: "mixed", and the hash of those there are, that of
/// the checkpoint from which it is resumed among them ("": none).
std::string mixed_fingerprint(const std::vector<StartInfo>& ranks, const std::string& resumed);
/// With which term the run begins: that of the newest listing.
std::int64_t first_term(const std::vector<StartInfo>& ranks);
/// Of each rank the hash of its data: its own, or that of a rank of its host which has read the
/// same files; "" where nobody has.
std::vector<std::string> data_hashes(const std::vector<StartInfo>& ranks);
/// Whether the data of some of these ranks was read by nobody: then they must read it themselves.
/// No where the ranks cannot start anyway.
bool has_unread_data(const std::vector<StartInfo>& ranks);
/// The checkpoints that some of these ranks have found to be damaged, if others do not know of all
/// of them: each rank reads a share only, and must then find its start anew. None where the ranks
/// cannot start anyway.
std::vector<DamagedCheckpoint> damaged_unknown_to_some(const std::vector<StartInfo>& ranks);
/// Whether what these ranks have loaded is the checkpoint's state, which has this hash. Errors:
/// bad_input.
Status check_loaded(const std::vector<StartInfo>& ranks, const std::string& checkpoint,
                    std::uint64_t state_hash);

/// MPI where the launcher has started several ranks; see MpiSession::start(). Errors: bad_input,
/// where it is not known how many, or MPI counts others; failed.
Result<std::unique_ptr<MpiSession>> open_session(const Launcher& launcher,
                                                 bool starts_processes = false);

// Collective: all ranks must call these in the same order, and all get the same answer.

/// What all ranks say of themselves. Errors: failed, where one is of another build.
Result<std::vector<StartInfo>> gather_start_info(MpiSession& session, const StartInfo& mine);
/// Good if `mine` is so on all ranks; else that of the first rank where it is not. Ranks may call
/// it while others call gather_start_info().
Status all_agree(MpiSession& session, const Status& mine);
/// Good if all ranks have their stages, and these are the checkpoint's where there is one.
Status agree_on_state(MpiSession& session, const Result<StartedStages>& mine,
                      const std::optional<Checkpoint>& checkpoint);

/// Prints `status` and returns the exit status of this process. Many ranks exchange theirs first
/// and rank 0 prints the first failure: a rank that left alone would leave the others waiting in
/// MPI_Init. REQUIRES: MPI is not started.
ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error);

// When 16 ranks left with 2 at once, mpirun 5.0.11 hung for good in 8 of 100 starts; when one did,
// or all did 20 ms apart, in none.

/// The exit status of a rank where all ranks live and know how the run ended: the rank that reports
/// the outcome exits with it, and the others with 0, so that mpirun sees one status.
inline ExitStatus status_of_rank(ExitStatus outcome, bool reports_outcome) {
  return reports_outcome ? outcome : ExitStatus::good;
}

/// Sleeps until it is this rank's turn to exit. For runs that have lost a rank: there every rank
/// exits with the status, because none knows which others are left to do so.
void await_turn_to_leave(int rank);

}  // namespace swarmpi
