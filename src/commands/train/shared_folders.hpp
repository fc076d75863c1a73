#pragma once
// Journal and checkpoints are written by all hosts and read by all: a folder that is a host's own
// under the same name would take parts that nobody else finds. So hosts show each other files, in
// both directions, before anything is written.

#include <string>
#include <vector>

#include "commands/train/output_paths.hpp"
#include "config/config.hpp"
#include "core/status.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// One file of this process in each folder of a run's outputs, removed with the object. Makes
/// folders that are missing.
class FolderProbes {
 public:
  FolderProbes(const OutputPaths& paths, int rank);
  ~FolderProbes();
  FolderProbes(const FolderProbes&) = delete;
  FolderProbes& operator=(const FolderProbes&) = delete;

  /// Errors: bad_input, naming key and path.
  const Status& status() const { return status_; }
  /// The files' name, the same in each folder and unique to this object.
  const std::string& name() const { return name_; }
  void remove_files();
  /// They stay.
  void leave_files() { files_.clear(); }
  /// Removes the folders that this object has made, where they are empty.
  void remove_folders();

 private:
  std::string name_;
  Status status_;
  std::vector<std::string> files_;
  std::vector<std::string> made_;  ///< folders, parents first
};

/// Whether this process sees the files of that name in each folder of `paths`, which may take some
/// seconds to come through. `maker`: whose they are, for people. Errors: bad_input, naming the key,
/// the file, the hosts and what to do.
Status check_probes_seen(const OutputPaths& paths, const std::string& name,
                         const std::string& maker);
/// Their paths; none without a name.
std::vector<std::string> probe_paths(const OutputPaths& paths, const std::string& name);
void remove_probes(const OutputPaths& paths, const std::string& name);
/// Whether this rank sees the files that a process which it has started shows. Errors: bad_input.
Status check_newcomers_probes(const OutputPaths& paths, const std::string& name);

/// Collective, as those of handshake.hpp: whether each host sees what the first rank writes into
/// each folder, and the first rank what each host writes. Ranks that see other mounts count as
/// hosts of their own. With swarm.spawn the first rank's files stay until the run ends: newcomers
/// look for them, and no live rank has to write for each. Their name, "" where none stay. What this
/// rank of an earlier start of the same run file has left is removed. Errors: bad_input, naming the
/// place in the deck where `config` has the folder from; then folders that were made are gone
/// again.
Result<std::string> prove_folders_shared(MpiSession& session, const Config& config,
                                         const OutputPaths& paths);

}  // namespace swarmpi
