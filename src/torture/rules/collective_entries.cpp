#include "torture/rules/collective_entries.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/seal.hpp"

namespace swarmpi {
namespace {

template <class Key>
bool all_in(const std::map<Key, std::set<PeerId>>& said, const Key& key,
            const std::vector<PeerId>& replicas) {
  const auto found = said.find(key);
  return found != said.end() && std::all_of(replicas.begin(), replicas.end(), [&](PeerId peer) {
           return found->second.contains(peer);
         });
}

}  // namespace

void CollectiveEntries::says(PeerId peer, const CollectiveWord& word) {
  if (word.news == CollectiveNews::ready) ready_[{word.view, word.stage}].insert(peer);
  if (word.news == CollectiveNews::frozen) frozen_[word.seal].insert(peer);
}

std::string CollectiveEntries::seals(const SealMessage& message) {
  for (const StageSeal& seal : message.stages) {
    const auto [known, is_new] =
        seals_.try_emplace(seal.seal, Seal{seal.replicas, seal.collective});
    if (!is_new && known->second.collective != seal.collective) {
      return fmt::format("a seal of stage {} changes its way", seal.stage.value);
    }
    if (!seal.collective || all_in(ready_, {*seal.collective, seal.stage}, seal.replicas)) continue;
    return fmt::format("stage {} is sealed for a collective that not all replicas have made",
                       seal.stage.value);
  }
  return "";
}

void CollectiveEntries::hears(PeerId peer, const CollectiveDone& done) {
  ++counts_.done;
  entered_s_.erase({peer, done.stage});
}

void CollectiveEntries::hears(PeerId peer, const CollectiveFailed& failed) {
  ++counts_.failed;
  entered_s_.erase({peer, failed.stage});
}

void CollectiveEntries::aborts(double now_s, PeerId peer, const AbortCollective& action) {
  ++counts_.aborted;
  const auto entered = entered_s_.find({peer, action.stage});
  if (entered == entered_s_.end()) return;
  const double hung_s = now_s - entered->second;
  if (last_hung_s_ < now_s) longest_hung_s_ = 0;
  last_hung_s_ = now_s;
  longest_hung_s_ = std::max(longest_hung_s_, hung_s);
  entered_s_.erase(entered);
}

std::string CollectiveEntries::enters(double now_s, PeerId peer, const EnterCollective& action) {
  ++counts_.entered;
  entered_s_[{peer, action.stage}] = now_s;
  const auto seal = seals_.find(action.seal);
  const bool may = seal != seals_.end() && seal->second.collective == action.view &&
                   all_in(frozen_, action.seal, seal->second.replicas);
  return may ? ""
             : fmt::format("a collective of stage {} is entered before all have frozen",
                           action.stage.value);
}

}  // namespace swarmpi
