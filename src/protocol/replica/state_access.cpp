#include "protocol/replica/state_access.hpp"

#include <algorithm>
#include <utility>

#include "protocol/messages/learning_jobs.hpp"

namespace swarmpi {

bool StateAccess::to_be_dropped(StageId stage) const {
  return std::any_of(drops_due_.begin(), drops_due_.end(),
                     [stage](const DropJob& drop) { return drop.stage == stage; });
}

std::optional<DropJob> StateAccess::next_drop() {
  const auto next = std::find_if(drops_due_.begin(), drops_due_.end(), [this](const DropJob& drop) {
    return !being_written(drop.stage);
  });
  if (next == drops_due_.end()) return std::nullopt;
  const DropJob job = *next;
  drops_due_.erase(next);
  return job;
}

void StateAccess::go_back(const std::set<StageId>& held, const std::vector<StoredFile>& files) {
  held_.insert(held.begin(), held.end());
  to_load_.clear();
  files_ = files;
}

void StateAccess::keep(const std::set<StageId>& stages) {
  for (const StageId stage : std::exchange(held_, {})) {
    if (!stages.contains(stage)) drop(stage);
  }
}

std::vector<StageId> StateAccess::begin_loading() {
  std::vector<StageId> begun;
  std::copy_if(to_load_.begin(), to_load_.end(), std::back_inserter(begun),
               [this](StageId stage) { return is_free(stage); });
  for (const StageId stage : begun) to_load_.erase(stage);
  loads_running_ += static_cast<std::int64_t>(begun.size());
  return begun;
}

}  // namespace swarmpi
