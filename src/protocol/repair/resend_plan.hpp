#pragma once
// What has to be sent again for one microbatch after a death, from the tables of the live peers.
// Where each stage's holder has passed the microbatch to the next stage's holder, work goes on by
// itself. Where that chain has a gap, the peer in the stage before the gap sends its output again,
// and the peer in the stage after it sends its gradient again. A gap is widened until its
// neighbours still keep what they have to send: at worst to the whole pipeline.

#include <optional>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/table_rows.hpp"

namespace swarmpi {

/// A live peer and what it has of a microbatch in one stage.
struct StageHolder : WorkRow {
  PeerId peer;

  /// Whether a pass is due, runs, or waits for a gradient.
  bool active() const { return phase != Phase::over; }
};

/// All that is known of a microbatch that was issued and is not finished.
struct MicrobatchState {
  MicrobatchId microbatch;
  std::vector<std::optional<StageHolder>> stages;  ///< none: no live peer has it there
  std::vector<bool> settled;                       ///< stages that need no contribution any more
};

/// One order: the holder in stage `provider` sends its output along the path; without a provider
/// the source issues the microbatch.
struct Resend {
  std::optional<StageId> provider;
  Path path;
};

/// The orders after which every missing contribution is made, each once; none where all come by
/// themselves.
std::vector<Resend> plan_resends(const MicrobatchState& state, const View& view);

}  // namespace swarmpi
