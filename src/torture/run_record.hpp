#pragma once
// What a run learned: it must depend neither on which peers computed it nor on which of them died.

#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "protocol/step/commit_record.hpp"
#include "simulation/virtual_disk.hpp"

namespace swarmpi {

struct RunRecord {
  std::vector<StepRow> rows;  ///< by step, without a gap
  std::vector<ValidationRow> validation;
  std::map<Step, CommitRef> commits;
};

/// Adds the rows of a journal. Those of one step must agree in everything but term and time, and no
/// step after `resumed_from` may be missing before the last. Returns what is wrong, or "".
std::string add_journal(RunRecord& run_record, const VirtualDisk& disk, Step resumed_from);

/// Adds the record of a later part of the run, whose first steps may repeat the last ones of
/// `run_record`. Says where the two contradict each other.
std::string join(RunRecord& run_record, const RunRecord& later);

/// Where two records of one step differ, but for term and time; "" if they do not.
std::string difference(const CommitRecord& a, const CommitRecord& b);

/// Where `part` differs from `whole` in any bit; "" if it does not. `complete`: no row of `whole`
/// may be missing from `part`.
std::string difference(const RunRecord& part, const RunRecord& whole, bool complete);

}  // namespace swarmpi
