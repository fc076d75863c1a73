#pragma once
// The rows of the token table that a microbatch reads: only they have a gradient, which takes as
// many rows as the microbatch has tokens, however large the vocabulary is.

#include <cstdint>
#include <span>
#include <vector>

namespace swarmpi {

class TokenRows {
 public:
  /// Takes all memory: for up to `tokens` tokens below `vocabulary`.
  TokenRows(std::int64_t tokens, std::int64_t vocabulary);

  void read(std::span<const std::int32_t> tokens);
  /// Each token that was read, once.
  std::span<const std::int32_t> rows() const { return rows_; }
  /// For each token that was read its place in rows().
  std::span<const std::int32_t> places() const { return places_; }

 private:
  std::vector<std::int32_t> place_of_;  // by token; -1: not read
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> places_;
};

}  // namespace swarmpi
