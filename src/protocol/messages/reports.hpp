#pragma once
// What a replica host reports to the leader.

#include <vector>

#include "core/field_list.hpp"
#include "core/records.hpp"
#include "protocol/messages/load_facts.hpp"
#include "protocol/messages/step_facts.hpp"

namespace swarmpi {

/// Host to leader: what was noted since the last. The leader's ledger counts it.
struct ReportMessage {
  std::vector<ContributionFact> contributions;
  std::vector<LossFact> losses;
  std::vector<HashFact> hashes;
  std::vector<UseFact> uses;
  std::vector<LoadFact> loads;      // ride along: no report is sent for them alone
  std::vector<GoodputRow> goodput;  // likewise

  bool empty() const {
    return contributions.empty() && losses.empty() && hashes.empty() && uses.empty();
  }
};
SWARMPI_FIELDS(ReportMessage, contributions, losses, hashes, uses, loads, goodput);

}  // namespace swarmpi
