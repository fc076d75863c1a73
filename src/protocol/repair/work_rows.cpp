#include "protocol/repair/work_rows.hpp"

#include "protocol/messages/table_rows.hpp"

namespace swarmpi {

WorkRows::WorkRows(const Tables& tables) {
  for (const auto& [peer, table] : tables) {
    for (const WorkRow& row : table.works) rows_[row.work].emplace_back(peer, &row);
  }
}

MicrobatchState WorkRows::state_of(const MicrobatchId& id, const Ledger& ledger,
                                   std::int64_t stages) const {
  MicrobatchState state{id, {}, {}};
  const bool training = id.purpose == Purpose::train;
  for (std::int32_t s = 0; s < stages; ++s) {
    const WorkId work{id, StageId(s)};
    std::optional<StageHolder> holder;
    if (const auto peer = training ? ledger.contributor(work) : std::nullopt) {
      holder.emplace().peer = *peer;
      holder->phase = Phase::over;
    }
    const bool settled = training && ledger.settled(work.stage);
    state.settled.push_back(settled);
    const auto rows = rows_.find(work);
    if (rows != rows_.end()) {
      for (const auto& [peer, row] : rows->second) {
        if (holder && holder->peer != peer) continue;
        // A peer that is through with it and has contributed nothing is of no use where the stage
        // still needs a contribution.
        const bool of_use = holder || !training || row->phase != Phase::over || settled;
        if (!of_use) continue;
        holder = {*row, peer};
      }
    }
    state.stages.push_back(std::move(holder));
  }
  return state;
}

}  // namespace swarmpi
