#pragma once
// The terms of leaders: actions for storage, and their events.

#include <memory>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// Create `term-N` exclusively; answered by TermCreated.
struct CreateTerm {
  Term term;
};
SWARMPI_FIELDS(CreateTerm, term);

/// The term's file was created, or (`created` false) existed already.
struct TermCreated {
  Term term;
  bool created = false;
  /// The run has ended so: nobody leads it any more.
  std::shared_ptr<const EndMessage> ended = {};
};
SWARMPI_FIELDS(TermCreated, term, created, ended);

/// A later term exists than the one that this peer leads: storage takes nothing more under it.
struct TermOver {
  Term term;
  Term newest;
};
SWARMPI_FIELDS(TermOver, term, newest);

}  // namespace swarmpi
