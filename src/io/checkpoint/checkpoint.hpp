#pragma once
// A checkpoint is a folder `step-N/`: one HDF5 file for each stage, whose name is unique to writer
// and term, and a manifest with their hashes, written last. The checkpoint exists once the manifest
// does; files that no manifest names are garbage.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/records.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Leader state of a checkpoint, and the run that it is of; `seed` and `hosts` are not stored.
struct CheckpointHead : RunOrigin {
  ResumeState state;
};

/// Folder of the checkpoint after `step` within `folder`.
std::string checkpoint_path(const std::string& folder, std::int64_t step);

/// Writes and syncs one stage's file; creates step-N/ if missing. Errors: stopped (no room, I/O);
/// the partial file is removed.
Result<StoredFile> write_stage_file(const std::string& checkpoint, std::int64_t stage,
                                    std::int64_t term, std::int64_t peer,
                                    const std::vector<TensorState>& tensors);
/// Writes the leader's file with the run's history, then the manifest, by whose rename the
/// checkpoint begins to exist.
Status write_manifest(const std::string& checkpoint, const CheckpointHead& head,
                      const History& history, const std::vector<StoredFile>& files,
                      std::int64_t term);
/// Removes all but the newest `keep` complete checkpoints, and incomplete ones older than the
/// newest complete one. keep = 0 keeps all. Never touches anything that is not a step-N folder.
Status prune_checkpoints(const std::string& folder, std::int64_t keep);

/// An opened, verified checkpoint.
class Checkpoint {
 public:
  /// `path`: a step-N folder, or a folder of them (the newest complete one counts). bad_input with
  /// a clear message: missing, no complete checkpoint (`none_there` set), foreign, cut off (hash or
  /// size differ), unreadable.
  static Result<Checkpoint> open(const std::string& path, bool* none_there = nullptr);
  /// The head of the checkpoint that open() takes; its stages' files are not looked at.
  static Result<CheckpointHead> read_head(const std::string& path, bool* none_there = nullptr);

  const std::string& path() const { return path_; }
  const CheckpointHead& head() const { return head_; }
  const History& history() const { return history_; }
  /// Of the stages into which the model was cut when it was written.
  const std::vector<StoredFile>& files() const { return files_; }
  /// Fills the arrays of `tensor`, which name, shape and number of versions must fit; an array that
  /// is null is left out. Errors: bad_input.
  Status read(const TensorState& tensor) const;

 private:
  std::string path_;
  CheckpointHead head_;
  History history_;
  std::vector<StoredFile> files_;
  std::map<std::string, std::string> file_of_tensor_;
};

}  // namespace swarmpi
