#pragma once
// Injects the faults of a schedule into a world.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "simulation/world.hpp"
#include "torture/fault_schedule.hpp"
#include "torture/referee.hpp"

namespace swarmpi {

class FaultInjector final : public Observer {
 public:
  /// The schedule, the world and the referee, which is told who falls silent, outlive it.
  FaultInjector(const FaultSchedule& schedule, const RunPlan& plan,
                const InitialMembership& membership, VirtualWorld& world, Referee& referee);

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void handled(double now_s, PeerId peer) override;
  void died(double now_s, PeerId peer) override;

  /// "at event 17 (0.001203 s) kills 3 (leader) 4, ...", or "nothing".
  const std::string& text() const { return text_; }
  const FaultCounts& counts() const { return counts_; }
  const MomentCounts& moments() const { return moments_; }

 private:
  /// An event that is about to be handled, or an action that is about to be carried out.
  struct Occurrence {
    PeerId peer;
    std::optional<PeerId> other;  // of a message
    MomentKind kind;
  };
  struct Armed {
    const Fault* fault;
    double since_s = 0;
    std::int64_t seen = 0;
  };
  struct Due {
    const Fault* fault;
    std::vector<PeerId> victims;
    MomentKind::Of after;
  };

  void observe(double now_s, const Occurrence& occurrence);
  bool matches(const Fault& fault, const Occurrence& occurrence) const;
  std::vector<PeerId> victims(const Fault& fault, const Occurrence& occurrence) const;
  bool may_die(PeerId peer) const;
  void inject(double now_s, const Fault& fault, const std::vector<PeerId>& victims);
  /// Applies the fault to the peers that it can happen to. Says what it did; "" if it did nothing.
  std::string apply(double now_s, const Fault& fault, const std::vector<PeerId>& victims);
  bool flip_bit(PeerId peer);
  std::string cut_links(double now_s, const Fault& fault, const std::vector<PeerId>& ends);
  /// A leader whom a live peer takes for dead is deposed by it, and the run may lose both: so those
  /// who take the peer that is to lead for dead die first.
  void kill_whom_it_has_lost(double now_s, PeerId leader);
  void inject_due(double now_s, std::optional<MomentKind::Of> after);

  const FaultSchedule& schedule_;
  VirtualWorld& world_;
  Referee& referee_;
  ViewRef view_;                 // the newest that was published
  std::set<PeerId> candidates_;  // who has asked for a term since
  std::vector<PeerId> living_;   // by id; those who have finished among them
  std::vector<Armed> armed_;
  std::vector<Due> due_;
  std::vector<std::pair<PeerId, PeerId>> lost_links_;
  FaultCounts counts_{};
  MomentCounts moments_{};
  std::string text_ = "nothing";
};

}  // namespace swarmpi
