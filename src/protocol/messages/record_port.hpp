#pragma once
// The records of the run: actions for storage, and their events.

#include <cstdint>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/records.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Append to the journal of this leader's term; answered by RecordDurable{number} once synced.
struct StoreRecord {
  std::int64_t number = 0;
  Record row;
  std::vector<GoodputRow> goodput = {};  ///< rows behind it, which it stands for
};
SWARMPI_FIELDS(StoreRecord, number, row, goodput);

/// Write the mark of the run's end, with its status: nobody leads the run any more. Answered by
/// EndDurable.
struct StoreEnd {
  ExitStatus code = ExitStatus::good;
  std::string why;
  std::vector<GoodputRow> goodput = {};  ///< the last rows, to be appended before
};
SWARMPI_FIELDS(StoreEnd, code, why, goodput);

/// The journal is on disk up to this record.
struct RecordDurable {
  std::int64_t number = 0;
};
SWARMPI_FIELDS(RecordDurable, number);

}  // namespace swarmpi
