#pragma once
// Messages about collectives: a quick way to reduce while nothing goes wrong
// (reduction/collective_way.hpp).

#include <cstdint>
#include <string>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

/// The first replica of a stage to the others: with this they make their collective of this view.
struct CollectiveIdMessage {
  StageId stage;
  ViewNumber view;
  std::string id;  // bytes, for the library only
};
SWARMPI_FIELDS(CollectiveIdMessage, stage, view, id);

/// What a replica has to say of its collective.
enum class CollectiveNews : std::uint8_t {
  ready,   // is made: a seal may name it
  frozen,  // for this seal: its sums may be entered
  over,    // nothing comes of it in this view any more; with a seal: nor of what that asked of it
};
constexpr CollectiveNews last_of(CollectiveNews) { return CollectiveNews::over; }

/// Replica to leader. With `ready` of all replicas the leader may seal the stage for a collective,
/// with `frozen` of all it lets them enter, and at the first `over` it voids the seal: the sums,
/// which all still have, are reduced point to point.
struct CollectiveWord {
  ViewNumber view;  // that it was made in; the leader hears of its own view only
  StageId stage;
  CollectiveNews news = CollectiveNews::ready;
  Step step;    // that is sealed; unless `ready`
  SealId seal;  // likewise
  std::string why;
};
SWARMPI_FIELDS(CollectiveWord, view, stage, news, step, seal, why);

/// Leader to the replicas of a stage that is sealed for a collective, when all have frozen: enter.
struct EnterMessage {
  StageId stage;
  SealId seal;
};
SWARMPI_FIELDS(EnterMessage, stage, seal);

}  // namespace swarmpi
