#pragma once
// What the run file says of its columns, for programs that read any HDF5 file: the attributes
// `units` and `long_name`. docs/files.md says the same at length.

#include <span>
#include <string_view>

#include "core/records.hpp"

namespace swarmpi {

struct ColumnNote {
  std::string_view column;
  std::string_view units;  ///< "1": a number without one; empty: a text
  std::string_view long_name;
};

inline constexpr ColumnNote kStepNotes[] = {
    {"step", "1", "step; step 0 only measures gradients and updates nothing"},
    {"loss", "nats/token", "mean loss of the step's tokens, of the weights before the update"},
    {"grad_norm", "nats/token", "norm of the mean gradient before clipping; NaN where skipped"},
    {"clip", "1", "factor that was applied to the gradient"},
    {"lr", "1", "learning rate of the update"},
    {"tokens", "tokens", "trained on in the step; 0 in row 0, which only measures"},
    {"time_s", "s", "time of the commit since the run's first start"},
    {"state_hash", "1", "hash of weights and moments after the step"},
    {"skipped", "1", "1: a gradient was infinite, NaN or too large, and the state stayed"},
    {"term", "1", "leadership that has committed the step"},
    {"incarnation", "1", "grows when the run goes back to a checkpoint"},
};
inline constexpr ColumnNote kValidationNotes[] = {
    {"step", "1", "step after which the weights were tried"},
    {"loss", "nats/token", "mean loss of all tokens of the held-out sequences"},
};
inline constexpr ColumnNote kPeerNotes[] = {
    {"step", "1", "step in which the peer served the stage"},
    {"peer", "1", "number of the peer"},
    {"stage", "1", "number of the stage"},
    {"compute_s", "s", "time in jobs of this stage"},
    {"idle_s", "s", "time with nothing to compute, and no sealed step that was reduced"},
    {"communication_s", "s", "time with nothing to compute, while a sealed step was reduced"},
    {"recovery_s", "s", "of compute_s: backward passes that were done again after a death"},
    {"repeated", "microbatches", "backward passes that were done again"},
    {"queue", "jobs", "mean number of passes that waited when a job was started"},
    {"bytes_sent", "bytes", "activations, gradients, sums and state that were sent"},
    {"bytes_received", "bytes", "activations, gradients, sums and state that were received"},
    {"microbatches", "microbatches", "backward passes, with those that were done again"},
    {"useful_s", "s", "of compute_s: passes of training that were not done again"},
    {"transfer_s", "s", "of idle_s and communication_s: something was on its way"},
};
inline constexpr ColumnNote kEventNotes[] = {
    {"time_s", "s", "time of the event since the run's first start"},
    {"step", "1", "last committed step then; -1: none"},
    {"kind", "", "what happened"},
    {"peer", "1", "peer that it is about; -1: none, or all"},
    {"stage", "1", "stage that it is about; -1: none, or all"},
    {"cost_s", "s", "what it took; 0 where nothing is measured"},
    {"detail", "", "more about it, for people"},
};
inline constexpr ColumnNote kThroughputNotes[] = {
    {"step", "1", "step that was committed; -1: one that was made again later"},
    {"time_s", "s", "time of a commit since the run's first start"},
    {"tokens_per_s", "tokens/s", "tokens of the step over the time since the last commit"},
    {"fraction_of_ideal", "1", "of what the peers could do, each busy all the time"},
    {"fraction_of_capacity", "1", "the weakest stage's capacity over that of the best allocation"},
};

inline constexpr ColumnNote kGoodputNotes[] = {
    {"step", "1", "step that was committed last; in a peer's last row the one after it"},
    {"peer", "1", "number of the peer"},
    {"useful_s", "s", "passes of committed steps, and validation"},
    {"repeated_s", "s", "passes of which nothing has come: done again, or lost"},
    {"reduction_s", "s", "adding, rounding and updating"},
    {"link_s", "s", "nothing to compute, and something on its way to the peer or from it"},
    {"repair_s", "s", "from a death's news until its plan, and downloads"},
    {"checkpoint_s", "s", "held up by the writing of state"},
    {"start_s", "s", "before the peer could take work"},
    {"idle_s", "s", "the rest: the peer waited for others"},
};

constexpr std::span<const ColumnNote> notes_of(const StepRow*) { return kStepNotes; }
constexpr std::span<const ColumnNote> notes_of(const ValidationRow*) { return kValidationNotes; }
constexpr std::span<const ColumnNote> notes_of(const PeerRow*) { return kPeerNotes; }
constexpr std::span<const ColumnNote> notes_of(const EventRow*) { return kEventNotes; }
constexpr std::span<const ColumnNote> notes_of(const ThroughputRow*) { return kThroughputNotes; }
constexpr std::span<const ColumnNote> notes_of(const GoodputRow*) { return kGoodputNotes; }

/// The column by which rows of a table are looked up: the others have it as their coordinate.
inline constexpr std::string_view kScaleColumn = "step";

}  // namespace swarmpi
