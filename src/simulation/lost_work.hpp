#pragma once
// Counts what a death cost: which passes of the dead peer were done again, and which of live peers.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/observer.hpp"

namespace swarmpi {

enum class PassKind : std::uint8_t { backward, forward, validation };
constexpr std::size_t kPassKinds = 3;

/// Passes of one kind, each of one microbatch through one stage.
struct LostPasses {
  std::int64_t own = 0;           ///< done by the dead peer, in steps that were open when it died
  std::int64_t cut_short = 0;     ///< passes that it was doing when it died
  std::int64_t own_again = 0;     ///< of `own`: others began them again
  std::int64_t cut_again = 0;     ///< likewise of `cut_short`
  std::int64_t others_again = 0;  ///< begun again though the peer that began them last lives

  /// Passes that were done twice. One that was cut short counts as done once.
  std::int64_t again() const { return own_again + others_again; }
  std::int64_t beyond_own() const { return again() - own; }
};

/// A step is open as long as no living peer has heard that it is committed.
class LostWork final : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

  std::int64_t deaths() const { return deaths_; }
  /// The last peer that died, if any did.
  PeerId dead() const { return dead_; }
  double died_at_s() const { return died_at_s_; }
  /// Whether a pass of an open step had been begun when it died.
  bool anything_was_open() const { return anything_was_open_; }
  const LostPasses& passes(PassKind kind) const { return passes_[static_cast<std::size_t>(kind)]; }
  /// A line for each pass of a living peer that was begun again.
  const std::vector<std::string>& others_again() const { return others_again_; }

 private:
  struct Pass {
    PassKind kind;
    WorkId work;
    auto operator<=>(const Pass&) const = default;
  };
  struct Begun {
    PeerId by;  // the last peer that began it
    bool finished = false;
  };

  void begin(double now_s, PeerId peer, const Pass& pass, const Job& job);
  void finish(PeerId peer, const Pass& pass);
  void commit_is_known(PeerId peer, Step step);
  Step committed() const;

  std::map<Pass, Begun> begun_;
  std::map<PeerId, Step> commits_known_;  // the last that each live peer knows
  std::int64_t deaths_ = 0;
  PeerId dead_;
  double died_at_s_ = 0;
  bool anything_was_open_ = false;
  std::array<LostPasses, kPassKinds> passes_;
  std::vector<std::string> others_again_;
};

}  // namespace swarmpi
