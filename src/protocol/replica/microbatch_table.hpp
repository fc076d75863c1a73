#pragma once
// What a peer has of each microbatch of the open steps, in each of its stages, and which passes are
// due.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/flat_set.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// How a microbatch came to this peer.
struct Arrival {
  PayloadRef input;
  PeerId from;
  PathRef path;
};

/// What this peer has of a microbatch in a stage, until the step is committed.
struct Work {
  Arrival arrival;
  bool forward_due = false;      ///< the output is to be made, and sent
  bool awaits_gradient = false;  ///< of the output
  bool backward_due = false;     ///< that gradient is here
  std::optional<PeerId> sent_to;
  PayloadRef output;            ///< that was sent
  PayloadRef input_gradient;    ///< that was sent, or could not be
  std::int64_t kept_bytes = 0;  ///< of these, within the memory for them
  double forward_s = 0;         ///< that the last forward pass took, if that was here

  bool active() const { return forward_due || awaits_gradient || backward_due; }
  /// Whether the gradient of the input will be made, or was.
  bool gives_gradient() const { return awaits_gradient || backward_due || input_gradient; }
  Phase phase() const;
};

class MicrobatchTable {
 public:
  /// `memory_bytes`: for what was sent and is kept for repairs.
  explicit MicrobatchTable(std::int64_t memory_bytes) : memory_bytes_(memory_bytes) {}

  /// Null if nothing of it is known. What may be changed is changed before awaited() is next asked.
  Work* find(const WorkId& id);
  const Work* find(const WorkId& id) const;
  /// Known from now on, if it was not. Likewise.
  Work& enter(const WorkId& id);
  const std::map<WorkId, Work>& all() const { return works_; }
  /// Those that owe something for what was sent to them.
  const FlatSet<PeerId>& awaited() const;

  void forward_due(const WorkId& id, Work& work);
  /// `output_gradient`: null in the last stage.
  void backward_due(const WorkId& id, Work& work, const PayloadRef& output_gradient);
  /// The first pass, older steps first, that `may_run`; its WorkId is not due any more.
  std::optional<WorkId> take_forward(const std::function<bool(const WorkId&)>& may_run);
  std::optional<std::pair<WorkId, PayloadRef>> take_backward(
      const std::function<bool(const WorkId&)>& may_run);
  /// What the pass that is due next reads, whether it may run yet or not: the output's gradient;
  /// else its input (the last stage's backward pass begins with the forward pass). Null for none.
  PayloadRef read_next() const;
  std::size_t passes_due() const { return forwards_due_.size() + backwards_due_.size(); }
  /// Of this stage.
  std::int64_t passes_due(StageId stage) const;

  /// Whether what was sent may be kept for repairs, within the memory for it; if so, books it.
  bool keep(Work& work, const PayloadRef& payload);
  /// There is room for so much from now on: of what is kept beyond it the newest is dropped.
  void set_memory(std::int64_t bytes);
  /// After a pass: drops the input if no pass is due, and the row if nothing of it can be needed.
  void drop_if_done(const WorkId& id);
  /// At a commit: drops the microbatches and passes of the step and of those before.
  void forget(Step committed);
  void drop_stage(StageId stage);

  /// "4 known here; due: 1 forward passes, 2 backward passes", for messages about stalls.
  std::string text() const;
  /// What is here though nothing needs it; "" if nothing. For tests.
  std::string left_over(Step committed) const;

 private:
  std::int64_t memory_bytes_;
  std::map<WorkId, Work> works_;  // of open steps
  std::int64_t kept_bytes_ = 0;
  std::set<WorkId> forwards_due_;
  std::map<WorkId, PayloadRef> backwards_due_;      // with the output's gradient
  std::map<StageId, std::int64_t> due_;             // how many of both
  mutable std::optional<FlatSet<PeerId>> awaited_;  // nothing: a microbatch may have changed since
};

}  // namespace swarmpi
