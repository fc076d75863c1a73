#pragma once
// What reports say of the load of peers.

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

/// What a peer did for a stage in a step.
struct UseFact {
  PeerRow row;
};
SWARMPI_FIELDS(UseFact, row);

/// How much work has waited at a peer for a stage, for Algorithm 2.
struct LoadFact {
  ViewNumber view;  // counted since the peer adopted it
  StageId stage;
  double waited_s = 0;  // over all passes, the time that each was due and not begun
};
SWARMPI_FIELDS(LoadFact, view, stage, waited_s);

}  // namespace swarmpi
