#pragma once
// Where a run continues after a stage was lost.

#include <vector>

#include "core/field_list.hpp"
#include "core/records.hpp"

namespace swarmpi {

/// A checkpoint that all go back to when a stage was lost.
struct RestartPoint {
  ResumeState state;
  std::vector<StoredFile> files;  // none before any step
};
SWARMPI_FIELDS(RestartPoint, state, files);

}  // namespace swarmpi
