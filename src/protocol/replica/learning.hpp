#pragma once
// How a peer comes by a stage that it did not serve at the start: it copies the state piece by
// piece from the replicas, while training goes on.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/replica/fetch_window.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

/// A stage's state on its way here, in pieces: runs of blocks, whatever tensors these are of. The
/// pieces that are here take part in every update. For those under way each update's gradient is
/// kept, so that a piece, whichever step it is of, is brought up to date when it comes. After an
/// update without the step's reduced gradient all that is of an earlier step counts as missing.
class Learning {
 public:
  /// Of the state after `since`, or a later one. `blocks`: the stage's.
  Learning(const RunPlan& plan, StageId stage, const std::vector<Block>& blocks, Step since);

  // Memory for the stage is allocated by a job, once; it may be refused.
  bool to_be_allocated() const { return memory_ == Memory::none; }
  void allocating() { memory_ = Memory::being_allocated; }
  void allocated() { memory_ = Memory::ready; }
  bool ready() const { return memory_ == Memory::ready; }
  /// There is no room for it.
  void refuse() { memory_ = Memory::refused; }
  bool refused() const { return memory_ == Memory::refused; }

  bool complete() const { return here_ == pieces_.size(); }
  /// One a tensor. REQUIRES: complete().
  const std::vector<std::uint64_t>& hashes() const { return hashes_; }
  std::size_t pieces() const { return pieces_.size(); }
  /// For tests.
  std::size_t pieces_here() const { return here_; }

  // ---- Pieces on their way

  /// What to ask for now, and whom: as much as the window has room for, rather of donors from which
  /// little is awaited.
  std::vector<std::pair<PeerId, FetchMessage>> ask(PeerId self, const std::vector<PeerId>& donors,
                                                   double now_s);
  /// What those that do not serve the stage any more were asked for is asked of others.
  void forget_donors(const View& view);
  /// Those from whom a piece is awaited.
  std::set<PeerId> asked() const;
  void receive(const PieceMessage& message, PeerId from, double now_s);
  /// Writes a piece that has come, once the stage is as of its step or a later one.
  std::optional<WriteJob> next_write(Step applied) const;
  /// A piece that was damaged is asked of another donor.
  void written(const WriteResult& result);

  // ---- Updates

  void receive(const RatiosMessage& message);
  /// Whether the update may be applied: its ratios are here if it takes them, and there is memory
  /// to keep its gradient for the pieces under way. `has_gradient`: the stage's reduced one is
  /// here, or none is needed.
  bool may_update(const CommitRecord& record, bool has_gradient) const;
  /// Which parts of the state the update is to be applied to; nothing: all. REQUIRES: may_update().
  std::optional<PartialState> begin_update(const CommitRef& record, bool has_gradient);
  void updated(const ApplyResult& result);

 private:
  enum class Memory : std::uint8_t { none, being_allocated, ready, refused };
  enum class Where : std::uint8_t { missing, asked, came, here };
  struct Piece {
    BlockRange blocks;
    std::int64_t bytes = 0;  // of its state
    Where where = Where::missing;
    PeerId donor;                      // who was asked, then who has sent it
    Step at_least;                     // of which it was asked for
    FetchWindow::Request request;      // if asked
    std::optional<PieceMessage> came;  // if it is to be written
    std::vector<MissedUpdate> missed;  // since `at_least`, or since the step that has come
    std::set<PeerId> damaged_at;       // whose copy was
  };
  /// An update that is running.
  struct Update {
    CommitRef record;
    std::vector<float> ratios;
    std::vector<std::size_t> under_way;  // pieces whose gradient it gives
  };

  /// Whether its step is not known, or is older than this one.
  static bool may_miss(const Piece& piece, Step step);
  /// Nothing is known of it any more.
  void lose(Piece& piece);
  void drop_missed(Piece& piece, std::size_t count);
  void arrived(Piece& piece);
  PeerId donor_for(const Piece& piece, std::size_t turn, const std::vector<PeerId>& donors) const;
  /// Tensors of which these blocks are all that is missing.
  std::vector<std::int32_t> completed_by(const BlockRange& blocks) const;
  std::vector<BlockRange> ranges_here() const;

  StageId stage_;
  bool has_ratios_;  // updates need them
  std::int64_t kept_limit_bytes_;
  Memory memory_ = Memory::none;
  std::vector<std::int32_t> tensor_of_block_;
  std::vector<std::int64_t> missing_blocks_;  // by tensor
  std::vector<std::uint64_t> hashes_;         // by tensor
  std::vector<Piece> pieces_;                 // by blocks
  std::size_t here_ = 0;                      // of these
  FetchWindow window_;
  Step begun_;  // the last update that has begun: pieces are asked for as of it
  std::optional<Update> update_;
  std::map<Step, std::vector<float>> ratios_;  // of updates to come
  std::int64_t kept_bytes_ = 0;                // of gradients, for pieces under way
};

}  // namespace swarmpi
