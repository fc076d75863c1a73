#pragma once
// What a run leaves behind: the rows of its tables, and what it needs to go on from a checkpoint.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/choices.hpp"
#include "core/field_list.hpp"
#include "core/kind_table.hpp"

namespace swarmpi {

/// What a run was asked to do, and who has computed it.
struct RunOrigin {
  std::string deck;  ///< resolved, with the data's hash
  std::string seed, version, build, fingerprint, hosts;
};
SWARMPI_FIELDS(RunOrigin, deck, seed, version, build, fingerprint, hosts);

/// One row of /steps.
struct StepRow {
  std::int64_t step = 0;
  double loss = 0;       ///< mean nats per token, summed in index order
  double grad_norm = 0;  ///< NaN where skipped
  double clip = 1;       ///< factor applied to the gradient
  double lr = 0;
  std::int64_t tokens = 0;  ///< of this step
  double time_s = 0;        ///< since the run's first start, going on over resumes
  std::uint64_t state_hash = 0;
  bool skipped = false;
  std::int64_t term = 0;
  std::int64_t incarnation = 0;
};
SWARMPI_FIELDS(StepRow, step, loss, grad_norm, clip, lr, tokens, time_s, state_hash, skipped, term,
               incarnation);

/// One row of /validation: the loss of the weights after `step`.
struct ValidationRow {
  std::int64_t step = 0;
  double loss = 0;  ///< mean nats per token
  double time_s = 0;
};
SWARMPI_FIELDS(ValidationRow, step, loss, time_s);

/// One row of /peers: what one peer did for one stage in one step.
struct PeerRow {
  std::int64_t step = 0;
  std::int64_t peer = 0;
  std::int64_t stage = 0;
  // What the peer's time went by with: these three are all of it.
  double compute_s = 0;
  double idle_s = 0;           ///< nothing to compute, and no sealed step to be reduced
  double communication_s = 0;  ///< nothing to compute while a sealed step was reduced
  double recovery_s = 0;       ///< of compute_s: backward passes that were done again
  std::int64_t repeated = 0;   ///< microbatches done more than once
  double queue = 0;            ///< mean length of its queue
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::int64_t microbatches = 0;  ///< whose backward pass it did, repeated ones included
  double useful_s = 0;            ///< of compute_s: training passes that were not repeated
  double transfer_s = 0;  ///< of the other two: part of a message was on its way to it or from it
};
SWARMPI_FIELDS(PeerRow, step, peer, stage, compute_s, idle_s, communication_s, recovery_s, repeated,
               queue, bytes_sent, bytes_received, microbatches, useful_s, transfer_s);

/// What an event is (docs/files.md). Files hold its name.
enum class EventKind : std::uint8_t {
  leader,
  resume,
  commit,
  checkpoint,
  skip,
  kill,
  repair,
  incarnation,
  notice,
  leave,
  spawn,
  join,
  migrate,
  suspect,
  flip,
  dropped,
  dismiss,
  stop,
  go_on,
  cut,
  heal,
  recount,
  late
};
constexpr auto names_of(EventKind) {
  return names({"leader",   "resume",      "commit", "checkpoint", "skip",    "kill",
                "repair",   "incarnation", "notice", "leave",      "spawn",   "join",
                "migrate",  "suspect",     "flip",   "dropped",    "dismiss", "stop",
                "continue", "cut",         "heal",   "recount",    "late"});
}

/// One row of /events.
struct EventRow {
  double time_s = 0;
  std::int64_t step = 0;
  EventKind kind = EventKind::leader;
  std::int64_t peer = -1;
  std::int64_t stage = -1;
  double cost_s = 0;
  std::string detail;
};
SWARMPI_FIELDS(EventRow, time_s, step, kind, peer, stage, cost_s, detail);

/// One row of /throughput.
struct ThroughputRow {
  double time_s = 0;
  double tokens_per_s = 0;
  double fraction_of_ideal = 0;
  double fraction_of_capacity = 0;
};
SWARMPI_FIELDS(ThroughputRow, time_s, tokens_per_s, fraction_of_ideal, fraction_of_capacity);

/// One row of /goodput: what a peer's time went by with since the row before, or, in its first one,
/// since its start (docs/files.md says which is which). Each instant is in one column.
struct GoodputRow {
  std::int64_t step = 0;  ///< that was committed last; in a peer's last row, the one after it
  std::int64_t peer = 0;
  double useful_s = 0;      ///< passes of committed steps, and validation
  double repeated_s = 0;    ///< passes of which nothing has come
  double reduction_s = 0;   ///< adding, rounding and updating
  double link_s = 0;        ///< nothing to compute, and something on its way
  double repair_s = 0;      ///< a death's news until its plan, and downloads
  double checkpoint_s = 0;  ///< held up by the writing of state
  double start_s = 0;       ///< before it could take work
  double idle_s = 0;        ///< the rest: waits for others
  /// The first term of the run of its peer, and the incarnation: with them a step that was made
  /// again, after a fallback or a resume, has rows of its own.
  std::int64_t run = 0;
  std::int64_t incarnation = 0;

  double total_s() const {
    return useful_s + repeated_s + reduction_s + link_s + repair_s + checkpoint_s + start_s +
           idle_s;
  }
  /// The steps after it were lost: so were their passes.
  void undo() {
    repeated_s += useful_s;
    useful_s = 0;
  }
  GoodputRow& operator+=(const GoodputRow& other) {
    useful_s += other.useful_s;
    repeated_s += other.repeated_s;
    reduction_s += other.reduction_s;
    link_s += other.link_s;
    repair_s += other.repair_s;
    checkpoint_s += other.checkpoint_s;
    start_s += other.start_s;
    idle_s += other.idle_s;
    return *this;
  }
};
SWARMPI_FIELDS(GoodputRow, step, peer, useful_s, repeated_s, reduction_s, link_s, repair_s,
               checkpoint_s, start_s, idle_s, run, incarnation);

/// A row of any table.
using Record = std::variant<StepRow, ValidationRow, PeerRow, EventRow, ThroughputRow, GoodputRow>;
/// The types of rows in a journal.
using RecordKinds =
    KindTable<KindRow<1, StepRow>, KindRow<2, ValidationRow>, KindRow<3, PeerRow>,
              KindRow<4, EventRow>, KindRow<5, ThroughputRow>, KindRow<6, GoodputRow>>;
inline constexpr std::uint8_t kFirstRecordNumber = 1;
inline std::uint8_t number_of(const Record& record) {
  return std::visit([]<class Row>(const Row&) { return kNumberIn<RecordKinds, Row>; }, record);
}

/// The tables of a run.
struct History {
  std::vector<StepRow> steps;
  std::vector<ValidationRow> validation;
  std::vector<PeerRow> peers;
  std::vector<EventRow> events;
  std::vector<ThroughputRow> throughput;
  std::vector<GoodputRow> goodput;
};

/// Exponents E of all tensors of the model, in tensor order; kNoExponent where unset.
using Exponents = std::vector<std::int16_t>;

/// What the protocol needs, beside the tensors, to go on after `step`.
struct ResumeState {
  std::int64_t step = -1;            ///< last committed step; -1: a new run
  std::int64_t applied_updates = 0;  ///< steps that were not skipped: Adam's t
  std::int64_t skips_in_a_row = 0;
  std::int64_t incarnation = 0;
  std::vector<Exponents> exponents;  ///< E(step + 1) ... E(step + d)
  std::uint64_t state_hash = 0;
  double time_s = 0;  ///< of the last committed step
};
SWARMPI_FIELDS(ResumeState, step, applied_updates, skips_in_a_row, incarnation, exponents,
               state_hash, time_s);

/// `count` elements of a tensor from element `first` on, row by row.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const ElementRange&) const = default;
};

/// A tensor's part of the state: d versions of its weights, newest first, each dense (rows,
/// columns), and two moments, of the same shape or, where only some elements are owned, of these
/// alone. Views of memory that belongs to somebody else; null where an array is not wanted.
struct TensorState {
  std::string name;  ///< e.g. "layer.3.qkv.weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float*> weights;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  /// Elements that the moments have, and that their owner writes into a checkpoint, of the weights
  /// as well; nothing: all.
  std::optional<ElementRange> owned = {};

  std::int64_t count() const { return rows * columns; }
  ElementRange all() const { return {0, count()}; }
};

/// A file of a checkpoint: its name within the folder, and what its bytes must hash to.
struct StoredFile {
  std::string name;
  std::uint64_t hash = 0;
  std::int64_t size_bytes = 0;
};
SWARMPI_FIELDS(StoredFile, name, hash, size_bytes);

}  // namespace swarmpi
