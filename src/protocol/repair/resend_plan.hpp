#pragma once
// What has to be sent again for one microbatch after a death, from what the live peers say that
// they have of it. Work goes on by itself where the chain from stage to stage is whole; where it is
// broken, the peer below the gap sends its output once more, and the peer above it gives its
// gradient once more. What is not kept any more is made again by going further back or ahead: at
// the worst through the whole pipeline.

#include <optional>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/messages/messages.hpp"

namespace swarmpi {

/// What a live peer has of a microbatch in one stage.
struct StageHolder {
  PeerId peer;
  bool contributed = false;
  Phase phase = Phase::over;
  std::optional<PeerId> sent_to;
  std::optional<ViewNumber> planned_in;
  StageId last;
  bool path_broken = false;
  bool keeps_output = false;
  bool gives_gradient = false;

  bool active() const { return phase != Phase::over; }
};

/// All that is known of a microbatch that was issued and is not finished.
struct MicrobatchState {
  MicrobatchId microbatch;
  std::vector<std::optional<StageHolder>> stages;
  std::vector<bool> settled;  ///< stages that need no contribution any more
};

/// One order: `provider` sends its output along the path, or the source issues the microbatch.
struct Resend {
  std::optional<StageId> provider;
  Path path;
};

/// The orders that lead to every contribution that is missing, each made once.
std::vector<Resend> plan_resends(const MicrobatchState& state, const View& view);

}  // namespace swarmpi
