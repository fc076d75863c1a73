#pragma once
// Messages about views, succession and joining.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/membership/view_delta.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

/// Leader to all, whenever it changes who serves, learns or leaves what. The receiver adopts the
/// view, and answers with its table where deaths are repaired. A peer that is not in it ends.
struct ViewMessage {
  /// On the wire it is left out where there is a delta; peers of one process share it.
  ViewRef view = no_view();
  /// A stage was lost with its last replica: all go back to this, under its incarnation.
  std::shared_ptr<const RestartPoint> restart = nullptr;
  /// What has changed since the view before, to a peer that was sent that under the same term and
  /// incarnation; null to all others. A receiver without that view asks for the whole one.
  std::shared_ptr<const ViewDelta> delta = nullptr;

  const ViewNumber& number() const { return delta ? delta->number : view->number; }
};
SWARMPI_FIELDS(ViewMessage, view, restart, delta);

/// To a leader whose view came as a delta of one that is not here: send the whole view. Until it
/// comes, all that was sent in it waits.
struct WholeViewRequest {};
SWARMPI_FIELDS(WholeViewRequest);

/// A new leader to all, before it leads. The receiver answers with the newest view that it has
/// adopted, and promises to adopt no view of an earlier term any more.
struct InquiryMessage {
  Term term;
};
SWARMPI_FIELDS(InquiryMessage, term);

/// Answer to an inquiry. The new leader begins with the newest view of all answers.
struct InquiryAnswer {
  Term term;
  ViewRef view = no_view();  // the newest that was adopted, or no_view()
  std::shared_ptr<const RestartPoint> restart;
};
SWARMPI_FIELDS(InquiryAnswer, term, view, restart);

/// Newcomer to all that it knows, again and again until a view comes; a peer that does not lead
/// passes it on to the leader, which adds the newcomer to the view.
struct JoinMessage {
  PeerId peer;
  std::optional<std::int64_t> budget_bytes = {};  ///< that it may take; none: no bound
};
SWARMPI_FIELDS(JoinMessage, peer, budget_bytes);

}  // namespace swarmpi
