#include "simulation/virtual_collectives.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "protocol/messages/collective_port.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {
namespace {

using What = VirtualCollectives::Tick::What;
using End = CollectiveFate::End;

// As much as there is of the real thing, and its cover is right.
CollectiveSums garbage_like(CollectiveSums sums, Step step, std::int64_t microbatches) {
  for (std::uint64_t& sum : sums.sums) sum = mix_bits(sum);
  sums.cover = Cover::of_step(step, microbatches);
  return sums;
}

}  // namespace

VirtualCollectives::Collective* VirtualCollectives::find(PeerId peer, StageId stage,
                                                         const ViewNumber& view, Id* id) {
  for (auto& [key, collective] : all_) {
    if (key.first != stage || collective.view != view || !collective.members.contains(peer)) {
      continue;
    }
    if (id != nullptr) *id = key;
    return &collective;
  }
  return nullptr;
}

PeerId VirtualCollectives::victim(const Collective& collective) const {
  const auto which = collective.fate.victim % collective.members.size();
  return std::next(collective.members.begin(), static_cast<std::ptrdiff_t>(which))->first;
}

void VirtualCollectives::end(Collective& collective, PeerId peer) {
  collective.members.at(peer).stand = Stand::over;
  collective.is_broken = true;
}

void VirtualCollectives::died(PeerId peer) {
  for (auto& [id, collective] : all_) {
    if (collective.members.contains(peer)) end(collective, peer);
  }
}

bool VirtualCollectives::reads_sums(PeerId peer, StageId stage) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) {
    const auto& [id, collective] = entry;
    const auto member = collective.members.find(peer);
    return id.first == stage && member != collective.members.end() &&
           member->second.stand == Stand::entered;
  });
}

// ---- What peers ask for

VirtualCollectives::All VirtualCollectives::asked(double now_s, PeerId peer,
                                                  const MakeCollectiveId& action) {
  const auto takes_s = model_.making_s();
  if (!takes_s) return {};
  std::string id = fmt::format("collective {}", ++ids_);
  return {{now_s + *takes_s, peer, Event(CollectiveIdMade{action.stage, action.view, id})}};
}

VirtualCollectives::All VirtualCollectives::asked(double now_s, PeerId peer,
                                                  const MakeCollective& action) {
  const Id id(action.stage, action.id);
  Collective& collective = all_[id];
  collective.view = action.view;
  collective.size = action.members;
  collective.members[peer] = {};
  All all;
  if (std::ssize(collective.members) < collective.size || collective.is_broken) return all;
  for (const auto& [member, state] : collective.members) {
    const auto takes_s = model_.making_s();
    const What what = model_.fails_to_make() ? What::unmade : What::made;
    if (takes_s) all.push_back({now_s + *takes_s, member, Tick{what, id}});
  }
  return all;
}

Result<VirtualCollectives::All> VirtualCollectives::asked(double now_s, PeerId peer,
                                                          VirtualCompute& compute,
                                                          const EnterCollective& action) {
  Id id;
  Collective* const found = find(peer, action.stage, action.view, &id);
  if (found == nullptr || found->members.at(peer).stand != Stand::ready) {
    return Status::failed(fmt::format("peer {} enters a collective of stage {} that is not ready",
                                      peer.value, action.stage.value));
  }
  Collective& collective = *found;
  collective.members.at(peer) = {Stand::entered, std::make_shared<const EnterCollective>(action)};
  // Nothing of what was in `out` can be counted on from now on.
  compute.set_out(action.stage, action.view,
                  garbage_like(compute.sums_for_collective(action.stage, action.step), action.step,
                               microbatches_));
  if (collective.ticket == 0) {
    collective.ticket = action.ticket;
    collective.fate = model_.fate();
    collective.have_entered.clear();
    collective.have_read.clear();
    collective.sum = {};
  }
  All all;
  const double deadline_s = collective.fate.deadline_s;
  if (deadline_s > 0) {
    all.push_back({now_s + deadline_s, peer, Tick{What::deadline, id, action.ticket}});
  }
  if (action.ticket != collective.ticket) {
    collective.is_broken = true;
    return all;
  }
  collective.have_entered.insert(peer);
  if (std::ssize(collective.have_entered) < collective.size) return all;
  for (const auto& [member, state] : collective.members) {
    const double takes_s = model_.within_s(collective.fate.longest_s);
    all.push_back({now_s + takes_s, member, Tick{What::read, id, action.ticket}});
  }
  return all;
}

VirtualCollectives::All VirtualCollectives::asked(double now_s, PeerId peer,
                                                  VirtualCompute& compute,
                                                  const AbortCollective& action) {
  All all;
  Collective* const collective = find(peer, action.stage, action.view);
  if (collective == nullptr) return all;
  const Member& member = collective->members.at(peer);
  if (member.stand == Stand::over) return all;
  end(*collective, peer);
  const auto& entered = member.entered;
  const double at_s = now_s + model_.within_s(collective->fate.longest_s);
  if (!model_.tells_after_abort()) {
  } else if (entered) {
    const Cover all_of_step = Cover::of_step(entered->step, microbatches_);
    all.push_back(
        {at_s, peer, Event(CollectiveDone{action.stage, action.view, entered->seal, all_of_step})});
  } else {
    all.push_back({at_s, peer, Event(CollectiveReady{action.stage, action.view})});
  }
  if (entered) {
    compute.set_out(action.stage, action.view,
                    garbage_like(compute.sums_for_collective(action.stage, entered->step),
                                 entered->step, microbatches_));
  }
  return all;
}

// ---- What comes to pass

VirtualCollectives::All VirtualCollectives::comes(double now_s, PeerId peer, const Tick& tick,
                                                  const Computes& computes) {
  Collective& collective = all_.at(tick.id);
  Member& member = collective.members.at(peer);
  const StageId stage = tick.id.first;
  const auto failed = [&](const char* why) {
    end(collective, peer);
    return All{{now_s, peer, Event(CollectiveFailed{stage, collective.view, why})}};
  };
  const bool is_of_now = member.entered && member.entered->ticket == tick.ticket;
  switch (tick.what) {
    case What::made:
      if (member.stand != Stand::making) return {};
      member.stand = Stand::ready;
      return {{now_s, peer, Event(CollectiveReady{stage, collective.view})}};
    case What::unmade:
      return member.stand == Stand::making ? failed("it could not be made") : All();
    case What::deadline:
      return is_of_now && member.stand == Stand::entered ? failed("it took too long") : All();
    case What::told:
      if (!is_of_now || member.stand != Stand::untold) return {};
      if (collective.fate.end == End::splits && peer == victim(collective)) {
        return failed("an error at the very end");
      }
      member.stand = Stand::ready;
      return {{now_s, peer,
               Event(CollectiveDone{stage, collective.view, member.entered->seal,
                                    collective.sum.cover})}};
    case What::read:
      break;
  }
  if (!is_of_now || member.stand != Stand::entered || collective.is_broken) return {};
  if (collective.fate.end == End::fails && peer == victim(collective)) {
    return failed("an error in the middle");
  }
  return read(now_s, peer, tick, collective, computes);
}

VirtualCollectives::All VirtualCollectives::read(double now_s, PeerId peer, const Tick& tick,
                                                 Collective& collective, const Computes& computes) {
  const EnterCollective& entered = *collective.members.at(peer).entered;
  if (collective.fate.end == End::hangs || !computes.contains(peer)) return {};
  const CollectiveSums own = computes.at(peer)->sums_for_collective(entered.stage, entered.step);
  CollectiveSums& sum = collective.sum;
  sum.sums.resize(own.sums.size());
  for (std::size_t b = 0; b < own.sums.size(); ++b) sum.sums[b] += own.sums[b];
  sum.cover += own.cover;
  collective.have_read.insert(peer);
  if (std::ssize(collective.have_read) < collective.size) return {};
  if (collective.fate.end == End::miscounts) {
    for (std::uint64_t& value : sum.sums) ++value;
    ++sum.cover.microbatches;
  }
  collective.ticket = 0;
  All all;
  for (auto& [id, member] : collective.members) {
    member.stand = Stand::untold;
    const auto compute = computes.find(id);
    if (compute != computes.end()) compute->second->set_out(entered.stage, entered.view, sum);
    const double takes_s = model_.within_s(collective.fate.longest_s);
    all.push_back({now_s + takes_s, id, Tick{What::told, tick.id, tick.ticket}});
  }
  return all;
}

}  // namespace swarmpi
