#pragma once
// What the leader is told of a peer's work: in the next report, and, until it is not needed any
// more, in each table.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/reports.hpp"

namespace swarmpi {

class HostFacts {
 public:
  /// `tensors`: see ContributionFact.
  void add_contribution(const WorkId& work, std::vector<kernels::Contribution> tensors) {
    report_.contributions.push_back({work, std::move(tensors)});
  }
  void add_loss(const MicrobatchId& microbatch, double nats);
  /// `in_report`: the leader waits for it; else it learns of it by tables only.
  void add_hash(HashFact hash, bool in_report);
  void add_use(const PeerRow& use) { report_.uses.push_back({use}); }
  void add_goodput(const GoodputRow& row) {
    report_.goodput.push_back(row);
    goodput_.push_back(row);
  }
  /// What the peer did since its last row, where no step is to come: the leader learns of it with
  /// what else is reported.
  void add_last_goodput(const GoodputRow& row) { report_.goodput.push_back(row); }
  void add_load(const LoadFact& load) { report_.loads.push_back(load); }
  void set_sealed(Step step, const std::shared_ptr<const StepFacts>& facts) {
    sealed_[step] = facts;
  }
  /// A step was committed, and the rows of steps up to `written` are durable: what follows from
  /// them need not be told.
  void forget(Step committed, Step written);

  /// What was noted since the last report.
  bool has_report() const { return !report_.empty(); }
  /// Whether the leader needs none of it while passes of this step go on here: it seals when all
  /// are done, and issues the next microbatch when one has come back to the first stage.
  bool can_wait(Step step) const;
  ReportMessage take_report() { return std::exchange(report_, {}); }
  void fill(TableMessage& table) const;
  /// What is here of committed steps, though nothing needs it; "" if nothing. For tests.
  std::string left_over(Step committed) const;

 private:
  ReportMessage report_;
  std::map<MicrobatchId, double> losses_;                    // of open steps, in nats
  std::map<Step, std::shared_ptr<const StepFacts>> sealed_;  // of open steps
  std::vector<HashFact> hashes_;                             // whose rows may not be durable
  std::vector<GoodputRow> goodput_;                          // likewise
};

}  // namespace swarmpi
