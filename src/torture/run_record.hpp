#pragma once
// What of a run must not depend on who computes it, nor on who died meanwhile.

#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "protocol/messages/messages.hpp"
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

/// Adds the story of a later part of the run, which may tell the end of the earlier one again. Says
/// where the two contradict each other.
std::string join(RunRecord& run_record, const RunRecord& later);

/// Where two records of one step differ, but for term and time; "" if they do not.
std::string difference(const CommitRecord& a, const CommitRecord& b);

/// "" if `part` says nothing else than `whole`, bit for bit. `complete`: nothing may be missing.
std::string difference(const RunRecord& part, const RunRecord& whole, bool complete);

}  // namespace swarmpi
