#pragma once
// A checkpoint is a folder `step-N/`: one HDF5 file for each stage, or several with a part each,
// whose names are unique to writer and term, and a manifest with their hashes, written last. The
// checkpoint exists once the manifest does; files that no manifest names are garbage. The rows of
// the run up to the step are in segments, which checkpoints share (stored_rows.hpp).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "io/files.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Leader state of a checkpoint, and the run that it is of; `seed` and `hosts` are not stored.
struct CheckpointHead : RunOrigin {
  ResumeState state;
};

/// Folder of the checkpoint after `step` within `folder`.
std::string checkpoint_path(const std::string& folder, std::int64_t step);

/// Writes and syncs one stage's file, with what is owned of each tensor, which lies in the memory
/// of `backend`; creates step-N/ if missing. Errors: stopped (no room, I/O); the partial file is
/// removed.
Result<StoredFile> write_stage_file(const std::string& checkpoint, std::int64_t stage,
                                    std::int64_t term, std::int64_t peer,
                                    const std::vector<TensorState>& tensors,
                                    const kernels::Backend& backend);
/// A part that a manifest is to name, but that is not there.
struct MissingPart {
  std::size_t number = 0;  ///< among the files that were looked for
  std::string why;         ///< with its path, and for how long it was looked for
};
/// Whether all parts can be found in the folder, each in full (its trailer is looked at), from
/// where this process runs: writers may be on hosts that do not share the folder. Creates step-N/
/// if missing. What a file system of several hosts shows late is waited for, `patience_s` in all.
Result<std::optional<MissingPart>> find_missing_part(const std::string& checkpoint,
                                                     const std::vector<StoredFile>& files,
                                                     double patience_s);
/// Writes the leader's file, then the manifest, by whose rename the checkpoint begins to exist.
/// `rows`: what RowStorer has stored. REQUIRES: no part is missing.
Status write_manifest(const std::string& checkpoint, const CheckpointHead& head,
                      const std::vector<StoredFile>& rows, const std::vector<StoredFile>& files,
                      std::int64_t term, const MayPublish& may_publish = {});
/// Removes what there is, and can be removed, of a checkpoint that was dropped: nothing where it
/// has a manifest, which another round has written, or one that was set aside.
void remove_dropped(const std::string& checkpoint);
/// Removes all but the newest `keep` complete checkpoints, and incomplete ones older than the
/// newest complete one. keep = 0 keeps all. Never touches anything that is not a step-N folder.
/// `may` is asked before each: where it says no the rest stays, and that is the outcome.
Status prune_checkpoints(const std::string& folder, std::int64_t keep, const MayPublish& may = {});

/// A checkpoint that has a manifest, but not all that it names.
struct DamagedCheckpoint {
  std::string path;
  std::int64_t step = -1;
  std::string why;  ///< with its path
};
SWARMPI_FIELDS(DamagedCheckpoint, path, step, why);
/// Makes it incomplete, so that nobody takes it for the newest again: its manifest is renamed.
/// Errors: stopped.
Status set_aside(const std::string& checkpoint);
/// Whether that was done, and no other was written in its place.
bool is_set_aside(const std::string& checkpoint);

/// What open() does to prove that a checkpoint is whole: it reads and hashes those of its stages'
/// files whose number is `share` modulo `shares`; of the others it looks at size and trailer. So
/// the processes of a host read each file once together. With 0 shares it reads none.
struct CheckpointProof {
  std::int64_t share = 0;
  std::int64_t shares = 1;
  std::vector<DamagedCheckpoint> known_damaged = {};  ///< to others; passed over, by their steps
  /// Tensors of files that it does not read are not known then: nothing in them is looked at, for
  /// HDF5 may not survive a damaged one.
  bool lists_all = true;

  bool reads(std::size_t file) const {
    return shares > 0 && static_cast<std::int64_t>(file) % shares == share;
  }
};

/// An opened checkpoint, whole as far as it was to be proven.
class Checkpoint {
 public:
  /// `path`: a step-N folder, or a folder of them: then the newest complete one that is whole
  /// counts, and passed_over() names newer ones that are not. bad_input with a clear message:
  /// missing, no complete checkpoint (`none_there` set), foreign, of another version, none that is
  /// whole (cut off: hash or size differ; a file missing). What cannot be read now, for whatever
  /// reason, is not taken for damaged, nor is an older one taken instead. `all_damaged` receives
  /// all of them where it is for their damage that there is none. Whole is what `proof` finds so.
  static Result<Checkpoint> open(const std::string& path, bool* none_there = nullptr,
                                 std::vector<DamagedCheckpoint>* all_damaged = nullptr,
                                 const CheckpointProof& proof = {});
  /// The head of the checkpoint that open() takes, but for its stages' files, which are not looked
  /// at.
  static Result<CheckpointHead> read_head(const std::string& path, bool* none_there = nullptr);

  const std::string& path() const { return path_; }
  const CheckpointHead& head() const { return head_; }
  /// The rows of the run up to its step, each step's after all that belongs to it. Only here its
  /// segments are looked at: without them the state can be used. Errors: bad_input, naming the
  /// segment; those of `use`.
  Status for_each_row(const std::function<Status(const Record&)>& use) const;
  /// Of the stages into which the model was cut when it was written, and of their owners.
  const std::vector<StoredFile>& files() const { return files_; }
  /// Newer checkpoints beside it that are damaged, the newest first.
  const std::vector<DamagedCheckpoint>& passed_over() const { return passed_over_; }
  /// Whether the leader's state is one of a model with so many tensors, trained with so many
  /// versions of its weights, and has values that a run can reach: no state hash covers them.
  /// Errors: bad_input, naming file and value.
  Status check_state(std::int64_t tensors, std::int64_t versions) const;
  /// Whether it is known where all elements of these are.
  bool lists(const std::vector<TensorState>& tensors) const;
  /// Reads and hashes the files that hold these tensors, but for those that open() has proven.
  /// Errors: bad_input.
  Status prove(const std::vector<TensorState>& tensors) const;
  /// Fills the arrays of `tensor`, which lie in the memory of `backend`, and which name, shape and
  /// number of versions must fit, from all of its pieces: the weights as a whole, the moments as
  /// far as they are owned. An array that is null is left out. Errors: bad_input; also where the
  /// pieces are not all elements, each once.
  Status read(const TensorState& tensor, kernels::Backend& backend) const;

 private:
  /// What a file has of a tensor.
  struct Piece {
    std::size_t file = 0;                  // its number in files_
    std::optional<ElementRange> elements;  // nothing: all

    ElementRange of(const TensorState& tensor) const { return elements.value_or(tensor.all()); }
  };

  static Result<Checkpoint> open_one(const std::string& folder, const CheckpointProof& proof,
                                     bool& damaged);
  /// In the order of the elements. Errors: bad_input, where they are not all, each once.
  Result<std::vector<Piece>> pieces_of(const TensorState& tensor) const;
  Status check_pieces(const TensorState& tensor, const std::vector<Piece>& in_order) const;

  std::string path_;
  std::string leader_;  // name of the leader's file
  std::int64_t trailer_bytes_ = 0;
  CheckpointHead head_;
  History history_;  // of versions 1 and 2
  std::vector<StoredFile> files_, rows_;
  std::vector<DamagedCheckpoint> passed_over_;
  std::map<std::string, std::vector<Piece>> pieces_;  // of each tensor
  std::set<std::size_t> proven_;                      // numbers in files_
};

}  // namespace swarmpi
