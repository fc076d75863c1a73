#pragma once
// Tokens in memory-mapped files, and the microbatches made of them: a function of (seed, step,
// index) alone, so that any peer can make any of them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"

namespace swarmpi {

class Dataset {
 public:
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  /// Maps the files of `data.paths` as one stream of tokens and cuts it into sequences of context +
  /// 1 tokens that overlap by one; those of `data.validation_paths`, where there are any, as
  /// another one, all of which is held out. Errors (bad_input, with key and file): missing,
  /// unreadable, odd-sized, too short for one microbatch of each kind that is needed.
  static Result<Dataset> open(const Config& config);
  /// Nothing to train on, and these files to validate on, whatever the deck's are. `key`: what
  /// messages begin with. Errors: bad_input.
  static Result<Dataset> open_held_out(const Config& config, const std::vector<std::string>& paths,
                                       const std::string& key);

  /// Reads every token once: XXH3 of them, in order; with `data.validation_paths` the hash of both
  /// streams' hashes. Errors (bad_input, with key and file): a token >= vocab, `data.hash` given
  /// and different.
  Result<std::uint64_t> scan() const;
  /// A line for each file that looks like one of another format, with key and file.
  std::vector<std::string> warnings() const;
  /// Equal where processes of a host see the same files: then one of them may scan for all.
  std::string identity() const;

  /// Of `data.paths`.
  std::int64_t tokens() const;
  std::int64_t train_sequences() const;
  std::int64_t validation_sequences() const;
  /// Microbatches of one validation pass. The last may lack sequences.
  std::int64_t validation_microbatches() const;
  /// Tokens of these microbatches that have a target: all of the held-out sequences.
  std::int64_t validation_tokens() const;

  /// Inputs and targets, (B, T) each. Training: sequence number ((step-1) * M + index) * B + b of
  /// the endless concatenation of passes, each pass a stateless permutation of the training
  /// sequences, none twice in a pass; step 0 has the microbatches of step 1. Validation: the
  /// held-out sequences in order; in the place of those that the last microbatch lacks the last
  /// sequence again, without targets (kernels::kNoTarget). Errors: stopped, if a file was
  /// changed since it was opened.
  Status microbatch(const MicrobatchId& id, std::span<std::int32_t> inputs,
                    std::span<std::int32_t> targets) const;

  /// Whether the files can be read now, from where they lie.
  bool can_be_read_anew() const;

 private:
  struct Impl;
  explicit Dataset(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace swarmpi
