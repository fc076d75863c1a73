#pragma once
// What the parts of a leader share, for tests of one of them alone.

#include <string>
#include <vector>

#include "protocol/leader/leader_record.hpp"
#include "protocol/leader/run_history.hpp"
#include "protocol/membership/hearing_test.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/tiny_plan_test.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi::testing {

// Peer 0 leads. Peers 0 and 1 serve stage 0, peer 2 serves stage 1, peer 3 is a spare. Step 4 is
// committed, and all agree on the state after it.
struct LeaderParts {
  LeaderParts() {
    plan.recovers = true;
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    view.add(PeerId(3));
  }
  static ResumeState after_step_four() {
    ResumeState state;
    state.step = 4;
    return state;
  }
  // "migrate 3 1": the events that were stored since the last call, with their peers and stages.
  std::vector<std::string> events() {
    std::vector<std::string> texts;
    for (const Action& action : taken = outbox.take()) {
      const auto* store = get_if<StoreRecord>(&action);
      const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
      if (event == nullptr) continue;
      texts.push_back(std::string(name_of(event->kind)) + " " + std::to_string(event->peer) + " " +
                      std::to_string(event->stage));
    }
    return texts;
  }
  // To whom messages of this kind went, among the actions of the last events().
  template <class Body>
  std::vector<PeerId> told() const {
    std::vector<PeerId> peers;
    for (const Action& action : taken) {
      const auto* send = get_if<Send>(&action);
      if (send != nullptr && holds_alternative<Body>(send->message.body)) peers.push_back(send->to);
    }
    return peers;
  }

  RunPlan plan = tiny_plan(2, 9);
  View view;
  RunHistory history{plan, CommitLog(plan, after_step_four()),
                     make_router(plan.swarm, PeerId(0), StageId(0)),
                     SealId{Incarnation(0), Term(1), 1}};
  Outbox outbox;
  Actions taken;
  double now_s = 0;
  Hearing hearing{plan, 4};
  LeaderRecord record{PeerId(0), plan, history.commit_log, outbox, Term(1), 0, now_s};
};

}  // namespace swarmpi::testing
