#pragma once
// Actions for storage, and its events.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "protocol/reduction/chunks.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

// ---- Actions

/// Write this peer's stage as of `step`; answered by StageStored. Compute must not apply a later
/// step meanwhile: the protocol sees to it.
struct StoreStage {
  Step step;
  StageId stage;
  Term term;  // of the leader that asks, part of the file's name: two leaders never write one file
};
SWARMPI_FIELDS(StoreStage, step, stage, term);

/// Write leader state and manifest, once all parts were found; answered by CheckpointDurable or
/// CheckpointDropped.
struct StoreManifest {
  ResumeState state;
  std::vector<StoredFile> files;  ///< by stage; of each by owner, where there are several
};
SWARMPI_FIELDS(StoreManifest, state, files);

/// Read the manifest of the newest complete checkpoint that is whole; answered by ManifestLoaded,
/// after a CheckpointDamaged for each newer one. Whether its files are whole is told by their sizes
/// and ends, for whoever loads one reads all of it.
struct LoadManifest {
  bool proves = false;  ///< the files are read as well
};
SWARMPI_FIELDS(LoadManifest, proves);

/// Make this stage, served so far or not, what it was after `step`, from the files of a checkpoint
/// (which may have been cut into other stages); before any step (-1): its initial values. What it
/// held is of no use any more. Answered by StageLoaded.
struct LoadStage {
  Incarnation incarnation;
  StageId stage;
  Step step;
  std::vector<StoredFile> files;
  Ownership ownership = {};  ///< the moments that this peer has from now on
};
SWARMPI_FIELDS(LoadStage, incarnation, stage, step, files, ownership);

/// Write and sync a small file where the run's journal and where its checkpoints are; answered by
/// ProbeStored.
struct StoreProbe {};
SWARMPI_FIELDS(StoreProbe);

// ---- Events

/// A stage's part of a checkpoint is on disk.
struct StageStored {
  Step step;
  StageId stage;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order; of an owner's
                                             // range alone
};
SWARMPI_FIELDS(StageStored, step, stage, file, tensor_hashes);

/// The checkpoint's manifest is on disk: the checkpoint exists.
struct CheckpointDurable {
  Step step;
};
SWARMPI_FIELDS(CheckpointDurable, step);

/// No manifest was written: this part cannot be found from where its leader is.
struct CheckpointDropped {
  Step step;
  std::int64_t part = 0;  ///< its number among the manifest's files
  std::string why;        ///< with the part's path
};
SWARMPI_FIELDS(CheckpointDropped, step, part, why);

/// The checkpoint cannot be read any more, so that it is no longer one: an older one is taken.
struct CheckpointDamaged {
  Step step;
  std::string why;  ///< with its path
};
SWARMPI_FIELDS(CheckpointDamaged, step, why);

/// The newest complete checkpoint, if there is one.
struct ManifestLoaded {
  std::optional<RestartPoint> checkpoint;
};
SWARMPI_FIELDS(ManifestLoaded, checkpoint);

/// A stage holds what LoadStage asked for, unless there is no memory left for it, or the checkpoint
/// is damaged.
struct StageLoaded {
  Incarnation incarnation;
  StageId stage;
  bool has_room = true;
  std::string damage = {};  ///< why the checkpoint cannot be used, with its path; "": it can
};
SWARMPI_FIELDS(StageLoaded, incarnation, stage, has_room, damage);

/// Storage or compute cannot continue: its status is stopped (disk full, an I/O error) or failed
/// (what is stored contradicts itself, memory has changed a stage's state).
struct StorageFailed {
  Status status;
};
SWARMPI_FIELDS(StorageFailed, status);

/// The mark of the run's end is on disk.
struct EndDurable {};
SWARMPI_FIELDS(EndDurable);

/// What StoreProbe asked for is on disk.
struct ProbeStored {};
SWARMPI_FIELDS(ProbeStored);

}  // namespace swarmpi
