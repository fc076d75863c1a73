#include "torture/rules/hangs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "protocol/ending_words.hpp"
#include "protocol/messages/stalls.hpp"
#include "torture/rules/population.hpp"

namespace swarmpi {
namespace {

// Where several hang, each may have to wait for the one before it.
constexpr double kUntilHelpedTimes = 12;  // patiences

}  // namespace

void Hangs::expect(PeerId peer, Task task, double until_s) {
  double& until = until_s_[{peer, task}];
  until = std::max(until, until_s);
}

void Hangs::stopped(PeerId peer, double from_s, double until_s) {
  for (const Task task : {Task::job, Task::storage}) {
    const auto hang = until_s_.find({peer, task});
    // What went on just before it may not have been seen.
    if (hang != until_s_.end() && hang->second + patience_s_ >= from_s) {
      hang->second = std::max(hang->second, until_s);
    }
  }
}

bool Hangs::hung_lately(double now_s, PeerId peer, Task task) const {
  const auto hang = until_s_.find({peer, task});
  return hang != until_s_.end() && now_s < hang->second + patience_s_;
}

std::string Hangs::tells(double now_s, PeerId peer, const LateMessage& message) const {
  const Task hangs = message.task == Task::load ? Task::storage : message.task;
  if (!message.late || hung_lately(now_s, peer, hangs)) return "";
  return "only what hangs is late: " + message.what;
}

// The leader's clock begins no earlier: with the order, or with the word of the one that has gone.
std::string Hangs::gives_up(double now_s, PeerId peer) {
  constexpr double kBetweenTwoTimes = 10;  // patiences
  const auto too_soon = [&](const auto& told) {
    return told.first != peer && now_s - told.second.at_s <= kBetweenTwoTimes * patience_s_ &&
           newest_commit_ <= told.second.newest_commit;
  };
  const auto before = std::find_if(told_.begin(), told_.end(), too_soon);
  if (before != told_.end()) {
    return fmt::format("one peer at a time is given up: peer {} just after peer {}", peer.value,
                       before->first.value);
  }
  const auto hangs_still = [&](Task task) {
    const auto hang = until_s_.find({peer, task});
    return hang != until_s_.end() && now_s < hang->second;
  };
  // Who goes on already stays: its leader hears of that before it tells another.
  if (hangs_still(Task::job) || hangs_still(Task::storage)) told_[peer] = {now_s, newest_commit_};
  if (hung_lately(now_s, peer, Task::job) || hung_lately(now_s, peer, Task::storage)) return "";
  return fmt::format("only a peer whose work hangs is given up: peer {}", peer.value);
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

std::string Hangs::comes_back(PeerId peer) {
  ++came_back_;
  return proven_.contains(peer) ? "" : "who leads again has shown that its disk works";
}

std::string Hangs::abstains(double now_s, PeerId peer) {
  proven_.erase(peer);
  if (hung_lately(now_s, peer, Task::storage)) return "";
  return "only a peer whose disk hangs hands over";
}

std::optional<PeerId> Hangs::whose_work_hangs(const Status& status) {
  std::int32_t peer = 0;
  const bool names = std::sscanf(status.message().c_str(), "peer %d hangs in", &peer) == 1;
  return names ? std::optional(PeerId(peer)) : std::nullopt;
}

bool Hangs::may_not_help(double now_s, PeerId peer, Task task) const {
  const auto hang = until_s_.find({peer, task});
  if (hang == until_s_.end()) return false;
  return task == Task::job || now_s - hang->second < kUntilHelpedTimes * patience_s_;
}

std::vector<PeerId> Hangs::helpers(double now_s, PeerId peer, Task hangs, const View& view,
                                   const std::function<bool(PeerId)>& able) const {
  std::vector<PeerId> found;
  const auto member = view.members().find(peer);
  if (member == view.members().end()) return {};
  for (const StageId stage : member->second) {
    const std::vector<PeerId> replicas = view.replicas(stage);
    const auto helper = std::find_if(replicas.begin(), replicas.end(), [&](PeerId other) {
      return other != peer && able(other) && !may_not_help(now_s, other, hangs);
    });
    if (helper == replicas.end()) return {};
    found.push_back(*helper);
  }
  return found;
}

std::string Hangs::ends(double now_s, const Status& status, const View& view,
                        const std::function<bool(PeerId)>& able) const {
  if (now_s - quiet_since_s_ < kUntilHelpedTimes * patience_s_) return "";
  const auto hung = [this](Task task) {
    return std::count_if(until_s_.begin(), until_s_.end(),
                         [&](const auto& hang) { return hang.first.second == task; });
  };
  if (const auto peer = whose_work_hangs(status)) {
    const bool loads = says(status, "hangs in loading");
    const Task hangs = loads ? Task::storage : Task::job;
    const auto could =
        hung(hangs) == 1 ? helpers(now_s, *peer, hangs, view, able) : std::vector<PeerId>();
    if (could.empty()) return "";
    return fmt::format("ends for {} that peer {} could do: ", loads ? "loading" : "a job",
                       could.front().value) +
           status.message();
  }
  const bool for_a_disk =
      says(status, ending_words::kNobodyShowed) || says(status, ending_words::kNobodyCanStore);
  if (!for_a_disk || hung(Task::storage) == 0) return "";
  for (const auto& [other, stages] : view.members()) {
    if (!able(other) || may_not_help(now_s, other, Task::storage)) continue;
    return fmt::format("ends for a disk that peer {} could write to: ", other.value) +
           status.message();
  }
  return "";
}

}  // namespace swarmpi
