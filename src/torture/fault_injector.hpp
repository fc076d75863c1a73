#pragma once
// Makes a schedule come true in a world.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulation/world.hpp"
#include "torture/fault_schedule.hpp"

namespace swarmpi {

class FaultInjector final : public Observer {
 public:
  /// Both outlive it.
  FaultInjector(const FaultSchedule& schedule, const RunPlan& plan,
                const InitialMembership& membership, VirtualWorld& world);

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void handled(double now_s, PeerId peer) override;
  void died(double now_s, PeerId peer) override;

  /// "at event 17 (0.001203 s) kills 3 (leader) 4, ...", or "nothing".
  const std::string& text() const { return text_; }
  const FaultCounts& counts() const { return counts_; }
  const MomentCounts& moments() const { return moments_; }

 private:
  /// Something that is about to be handled or carried out.
  struct Sight {
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

  void see(double now_s, const Sight& sight);
  bool counts(const Fault& fault, const Sight& sight) const;
  std::vector<PeerId> victims(const Fault& fault, const Sight& sight) const;
  bool may_die(PeerId peer) const;
  void carry_out(double now_s, const Fault& fault, const std::vector<PeerId>& victims);
  /// What happens to these peers; "" if nothing can.
  std::string happens(double now_s, const Fault& fault, const std::vector<PeerId>& victims);
  bool flips(PeerId peer);
  std::string cuts(const Fault& fault, const std::vector<PeerId>& ends);
  void carry_out_due(double now_s, std::optional<MomentKind::Of> after);

  const FaultSchedule& schedule_;
  VirtualWorld& world_;
  View view_;                   // the newest that was published
  std::vector<PeerId> living_;  // by id; those who have finished among them
  std::vector<Armed> armed_;
  std::vector<Due> due_;
  FaultCounts counts_{};
  MomentCounts moments_{};
  std::string text_ = "nothing";
};

}  // namespace swarmpi
