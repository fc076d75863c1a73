#include "torture/rules/population.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/ids.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/messages/ending.hpp"

namespace swarmpi {

bool says(const Status& status, std::string_view words) {
  return status.message().find(words) != std::string::npos;
}

bool found_no_run(const Status& status) {
  return status.message().rfind(ending_words::kNoRunToJoin, 0) == 0;
}

bool is_cut_off(const Status& status) {
  using namespace ending_words;
  return says(status, kCannotBeKilled) || says(status, kStoppedTooLong) ||
         says(status, kHearsNobody) || says(status, kIsNotHeard);
}

bool has_left_the_silent(const Status& status) { return says(status, ending_words::kWasLeft); }

bool lost_its_disk(const Status& status) {
  return says(status, "space left") || says(status, "output error");
}

bool ends_for_a_hang(const Status& status) {
  using namespace ending_words;
  constexpr std::string_view kReasons[] = {kNobodyCanWork, kNobodyCanStore, kNobodyShowed,
                                           kDoesNotReturn, kNoCheckpointOf, kNobodyTold,
                                           kNobodyCanWrite};
  return std::any_of(std::begin(kReasons), std::end(kReasons),
                     [&](std::string_view reason) { return says(status, reason); });
}

bool was_ended_by_one_alone(const Status& status) {
  const std::string& why = status.message();
  return why.rfind("storage of peer ", 0) == 0 && !says(status, ending_words::kNobodyShowed);
}

void Population::expect_newcomer(PeerId peer) {
  living_.insert(peer);
  outsiders_.insert(peer);
  newcomers_.insert(peer);
}

std::string Population::leave(PeerId peer) {
  living_.erase(peer);
  const bool may = may_leave_.contains(peer) || newcomers_.contains(peer);
  return may ? "" : "only peers that were asked to leave do so: ";
}

void Population::died(PeerId peer) {
  living_.erase(peer);
  const auto ended = ended_.find(peer);
  if (ended != ended_.end() && lost_its_disk(ended->second)) ended_.erase(ended);
}

void Population::finished(PeerId peer, const Status& status, bool run_ended, bool known) {
  ended_[peer] = status;
  const bool last = std::all_of(living_.begin(), living_.end(), [this](PeerId other) {
    return ended_.contains(other) || outsiders_.contains(other);
  });
  // Where the disk was lost, no mark tells of the end.
  const bool ended_unmarked = std::any_of(
      ended_.begin(), ended_.end(), [](const auto& ended) { return lost_its_disk(ended.second); });
  if (is_cut_off(status) && (last || run_ended || ended_unmarked))
    outsiders_.insert(peer);  // it found no run, either
  // Peers that could have answered may have ended as cut off.
  if (found_no_run(status) && (!known || somebody_was_cut_off())) outsiders_.insert(peer);
}

std::string Population::finished_though_dead(PeerId peer, const Status& status,
                                             const EndMessage* run_ended) const {
  const bool another_writes = status.message().rfind("another run writes", 0) == 0;
  const bool harmless = (run_ended && run_ended->code == status.code()) ||
                        status.code() == ExitStatus::stopped ||
                        (status.ok() && may_leave_.contains(peer)) || another_writes;
  if (harmless) return "";
  return "a peer that was declared dead ends without harm: " + status.message();
}

std::vector<PeerId> Population::members() const {
  std::vector<PeerId> members;
  for (const PeerId peer : living_) {
    if (!outsiders_.contains(peer)) members.push_back(peer);
  }
  return members;
}

bool Population::somebody_was_cut_off() const {
  return std::any_of(ended_.begin(), ended_.end(), [this](const auto& ended) {
    return is_cut_off(ended.second) && !outsiders_.contains(ended.first);
  });
}

// Of an end for a disk that was lost no mark tells: who does not hear of it goes on, and where some
// are not heard, it comes to others only. Whoever says that nobody else could store knew of nobody
// else, or has died before all had heard of it.
bool Population::ended_alone(PeerId peer, const Status& status) const {
  return outsiders_.contains(peer) || found_no_run(status) || is_cut_off(status) ||
         was_ended_by_one_alone(status) || (lost_its_disk(status) && !unheard_.empty());
}

std::string Population::unequal_ends(const std::optional<PeerId>& successor) const {
  const auto found = std::find_if_not(ended_.begin(), ended_.end(), [this](const auto& ended) {
    return ended_alone(ended.first, ended.second);
  });
  if (found == ended_.end()) return "";
  const auto& [leader, first] = *found;
  const auto taken_up = successor ? ended_.find(*successor) : ended_.end();
  for (const auto& [peer, status] : ended_) {
    if (ended_alone(peer, status)) continue;
    // Who was to lead and lost its disk may have thought that nobody is left, while all leave.
    const bool own_reason = lost_its_disk(status) || lost_its_disk(first);
    if (status.code() == first.code() && (status.message() == first.message() || own_reason)) {
      continue;
    }
    if (taken_up != ended_.end() && status.code() == taken_up->second.code()) continue;
    return fmt::format("peer {} ended with status {} ({}), peer {} with {} ({})", peer.value,
                       static_cast<int>(status.code()), status.message(), leader.value,
                       static_cast<int>(first.code()), first.message());
  }
  return "";
}

}  // namespace swarmpi
