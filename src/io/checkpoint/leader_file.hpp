#pragma once
// The leader's part of a checkpoint, one HDF5 file: the run's identity, and protocol state.

#include <string>

#include "io/checkpoint/checkpoint.hpp"

namespace swarmpi {

struct LeaderFile {
  CheckpointHead head;
  History history;  ///< of version 1 only; later ones have segments
};

/// Writes it durably. Errors: stopped.
Result<StoredFile> write_leader_file(const std::string& checkpoint, const std::string& name,
                                     const CheckpointHead& head);
/// Errors: bad_input.
Result<LeaderFile> read_leader_file(const std::string& path);

}  // namespace swarmpi
