#pragma once
// What was committed, who knows of it, and who has fallen back to which checkpoint.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"
#include "torture/rules/population.hpp"

namespace swarmpi {

class CommitHistory {
 public:
  explicit CommitHistory(const ResumeState& resume)
      : at_start_{Incarnation(resume.incarnation), Step(resume.step), {}, nullptr},
        incarnation_(resume.incarnation) {}

  /// The peer announces this step, or begins to apply it.
  void knows(PeerId peer, Step step);
  /// A new leader announces the commits that it found, and decides again those that no live peer
  /// knew.
  std::string announces(PeerId leader, const CommitRef& record);
  /// What a leader announces that was declared dead does not count, and contradicts nothing.
  std::string announces_though_dead(const CommitRef& record) const;
  /// The peer hears of this fallback: what was committed after its step is done again, with the
  /// same results. Whether it is news to all.
  bool falls_back(PeerId peer, const std::shared_ptr<const RestartPoint>& restart);

  /// The commits that were announced.
  const std::map<Step, CommitRef>& commits() const { return commits_; }
  /// The last commit that a living member has announced or applied.
  Step last(const Population& population) const;
  /// Whether the last fallback of the peer was to this step.
  bool fell_back_to(PeerId peer, Step step) const;
  /// Whether the peer has not heard of the last fallback.
  bool is_behind(PeerId peer) const;

 private:
  struct Known {
    Incarnation incarnation;
    Step last;
    std::optional<Step> fallback;
    std::shared_ptr<const RestartPoint> restart;  // to which that was
  };

  Known at_start_;  // of each peer
  std::map<PeerId, Known> known_;
  Incarnation incarnation_;  // the newest
  std::shared_ptr<const RestartPoint> fallback_;
  std::map<Step, CommitRef> commits_;
};

}  // namespace swarmpi
