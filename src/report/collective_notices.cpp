#include "report/collective_notices.hpp"

#include <fmt/core.h>

#include <variant>

#include "core/overloaded.hpp"
#include "protocol/messages/all_ports.hpp"

namespace swarmpi {

void CollectiveNotices::asked(double now_s, PeerId self, const Action& action) {
  visit(Overloaded{[&](const MakeCollective& make) {
                     made_[make.stage] = {make.view, make.place, make.members};
                   },
                   [&](const EnterCollective& enter) { enters(now_s, self, enter); },
                   [&](const AbortCollective& abort) {
                     ends(now_s, self, abort.stage, abort.view, abort.why);
                   },
                   [](const auto&) {}},
        action);
}

void CollectiveNotices::happened(double now_s, PeerId self, const Event& event) {
  if (const auto* failed = get_if<CollectiveFailed>(&event)) {
    return ends(now_s, self, failed->stage, failed->view, failed->why);
  }
  const auto* done = get_if<CollectiveDone>(&event);
  Made* const made = done == nullptr ? nullptr : find(done->stage, done->view);
  if (made != nullptr && made->sums && made->sums->seal == done->seal) made->sums.reset();
}

void CollectiveNotices::enters(double now_s, PeerId self, const EnterCollective& enter) {
  Made* const made = find(enter.stage, enter.view);
  if (made == nullptr) return;
  made->sums = {enter.step, enter.seal, now_s};
  if (made->place > 0 || std::exchange(made->told, true)) return;
  say(self, enter.stage,
      fmt::format("{} replicas add up by it from step {} on", made->members, enter.step.value));
}

void CollectiveNotices::ends(double now_s, PeerId self, StageId stage, const ViewNumber& view,
                             const std::string& why) {
  Made* const made = find(stage, view);
  if (made == nullptr) return;
  if (made->sums && made->place < 2) {
    say(self, stage,
        fmt::format("ended {:.0f} ms into the sums of step {}: {}",
                    1e3 * (now_s - made->sums->entered_s), made->sums->step.value, why));
  }
  made_.erase(stage);
}

CollectiveNotices::Made* CollectiveNotices::find(StageId stage, const ViewNumber& view) {
  const auto found = made_.find(stage);
  return found == made_.end() || found->second.view != view ? nullptr : &found->second;
}

void CollectiveNotices::say(PeerId self, StageId stage, const std::string& what) {
  if (before_) before_();
  std::fprintf(out_, "swarmpi: peer %d: the collective of stage %d: %s\n", self.value, stage.value,
               what.c_str());
  std::fflush(out_);
}

}  // namespace swarmpi
