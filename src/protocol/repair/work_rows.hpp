#pragma once
// What the tables of a round say about each microbatch.

#include <map>
#include <utility>
#include <vector>

#include "protocol/messages/table_rows.hpp"
#include "protocol/repair/resend_plan.hpp"
#include "protocol/repair/table_round.hpp"
#include "protocol/step/ledger.hpp"

namespace swarmpi {

class WorkRows {
 public:
  /// `tables` outlive this.
  explicit WorkRows(const Tables& tables);

  /// What the live peers have of one microbatch, stage by stage; `ledger` is that of its step.
  MicrobatchState state_of(const MicrobatchId& id, const Ledger& ledger, std::int64_t stages) const;

 private:
  std::map<WorkId, std::vector<std::pair<PeerId, const WorkRow*>>> rows_;
};

}  // namespace swarmpi
