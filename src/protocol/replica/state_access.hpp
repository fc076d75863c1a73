#pragma once
// What happens to the state of stages beside training: it is written to checkpoints, loaded from
// one, and freed. These exclude each other, stage by stage.

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/messages/learning_jobs.hpp"

namespace swarmpi {

class StateAccess {
 public:
  /// Whether the state is being written to a checkpoint: no job may change it.
  bool being_written(StageId stage) const { return being_written_.contains(stage); }
  void begin_writing(StageId stage) { being_written_.insert(stage); }
  void written(StageId stage) { being_written_.erase(stage); }
  /// Nothing is being written any more. What was.
  std::set<StageId> give_up_writing() { return std::exchange(being_written_, {}); }

  void drop(StageId stage) { drops_due_.push_back({stage}); }
  /// Whether compute has still to free what it held of this stage before.
  bool to_be_dropped(StageId stage) const;
  /// The first stage that is to be freed and not being written.
  std::optional<DropJob> next_drop();
  /// Whether anything is still to be freed.
  bool frees() const { return !drops_due_.empty(); }
  /// Whether a stage may be filled anew: it is neither being written nor still to be freed.
  bool is_free(StageId stage) const { return !being_written(stage) && !to_be_dropped(stage); }

  // ---- Going back to a checkpoint
  /// All go back to this checkpoint: what was `held` is freed, unless the next view gives it again.
  void go_back(const std::set<StageId>& held, const std::vector<StoredFile>& files);
  /// A view gives this peer these stages: frees the others that were held.
  void keep(const std::set<StageId>& stages);
  /// Whether a stage that is served from now on is loaded first.
  bool loads() const { return files_.has_value(); }
  void load_later(StageId stage) { to_load_.insert(stage); }
  /// The stages whose loading begins now.
  std::vector<StageId> begin_loading();
  /// Of the checkpoint. REQUIRES: loads().
  const std::vector<StoredFile>& files() const { return *files_; }
  void loaded() { --loads_running_; }
  /// Whether any stage is being loaded: jobs and loading both allocate, fill and free stages, so
  /// never at the same time.
  bool loading() const { return loads_running_ > 0; }

 private:
  std::set<StageId> being_written_;
  std::deque<DropJob> drops_due_;
  std::set<StageId> held_;                        // before all went back
  std::optional<std::vector<StoredFile>> files_;  // if all have gone back
  std::set<StageId> to_load_;
  std::int64_t loads_running_ = 0;
};

}  // namespace swarmpi
