#include "torture/rules/hangs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace swarmpi {

void Hangs::expect(PeerId peer, Task task, double until_s) {
  double& until = until_s_[{peer, task}];
  until = std::max(until, until_s);
}

bool Hangs::hung_lately(double now_s, PeerId peer, Task task) const {
  const auto hang = until_s_.find({peer, task});
  return hang != until_s_.end() && now_s < hang->second + patience_s_;
}

std::string Hangs::tells(double now_s, PeerId peer, const LateMessage& message) const {
  if (!message.late || hung_lately(now_s, peer, message.task)) return "";
  return "only what hangs is late: " + message.what;
}

std::string Hangs::gives_up(double now_s, PeerId peer) const {
  if (hung_lately(now_s, peer, Task::job)) return "";
  return fmt::format("only a peer whose job hangs is given up: peer {}", peer.value);
}

std::string Hangs::gives_up_disk(double now_s, PeerId peer) const {
  if (hung_lately(now_s, peer, Task::storage)) return "";
  return "only a disk that hangs is given up";
}

bool Hangs::lately(double now_s) const {
  constexpr double kPatiences = 9;  // until a second plan at a deadline
  return std::any_of(until_s_.begin(), until_s_.end(), [&](const auto& hang) {
    return now_s < hang.second + kPatiences * patience_s_;
  });
}

std::string Hangs::abstains(double now_s, PeerId peer) const {
  if (hung_lately(now_s, peer, Task::storage)) return "";
  return "only a peer whose disk hangs hands over";
}

std::optional<PeerId> Hangs::whose_job_hangs(const Status& status) {
  std::int32_t peer = 0;
  const bool says = std::sscanf(status.message().c_str(), "peer %d hangs in", &peer) == 1;
  return says ? std::optional(PeerId(peer)) : std::nullopt;
}

std::vector<PeerId> Hangs::helpers(PeerId peer, const View& view,
                                   const std::function<bool(PeerId)>& able) const {
  std::vector<PeerId> found;
  const auto member = view.members().find(peer);
  if (member == view.members().end()) return {};
  for (const StageId stage : member->second) {
    const std::vector<PeerId> replicas = view.replicas(stage);
    const auto helper = std::find_if(replicas.begin(), replicas.end(), [&](PeerId other) {
      return other != peer && able(other) && !has_hung(other, Task::job);
    });
    if (helper == replicas.end()) return {};
    found.push_back(*helper);
  }
  return found;
}

// Where several hang, each may have to wait for the one before it.
std::string Hangs::ends(double now_s, const Status& status, const View& view,
                        const std::function<bool(PeerId)>& able) const {
  constexpr double kUntilHelpedTimes = 12;  // patiences
  if (now_s - quiet_since_s_ < kUntilHelpedTimes * patience_s_) return "";
  const auto hung = [this](Task task) {
    return std::count_if(until_s_.begin(), until_s_.end(),
                         [&](const auto& hang) { return hang.first.second == task; });
  };
  if (const auto peer = whose_job_hangs(status); peer && hung(Task::job) == 1) {
    const std::vector<PeerId> could = helpers(*peer, view, able);
    if (could.empty()) return "";
    return fmt::format("ends for a job that peer {} could do: ", could.front().value) +
           status.message();
  }
  const bool for_a_disk = status.message().find("no other peer has shown") != std::string::npos;
  if (!for_a_disk || hung(Task::storage) == 0) return "";
  for (const auto& [other, stages] : view.members()) {
    if (!able(other) || has_hung(other, Task::storage)) continue;
    return fmt::format("ends for a disk that peer {} could write to: ", other.value) +
           status.message();
  }
  return "";
}

}  // namespace swarmpi
