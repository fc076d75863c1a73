#pragma once
// Which job runs, for people. Its text is made when it is asked for: most jobs end unnoticed.

#include <cstdint>
#include <optional>
#include <string>

#include "core/ids.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class JobName {
 public:
  explicit JobName(const Job& job);

  StageId stage() const { return stage_; }
  /// Of a forward or backward pass.
  std::optional<Step> step_of_pass() const {
    return of_ == Of::microbatch ? std::optional(step_) : std::nullopt;
  }
  std::string text() const;

 private:
  enum class Of : std::uint8_t { microbatch, chunk, step, blocks, stage };

  const char* what_ = "";
  Of of_ = Of::stage;
  StageId stage_;
  Step step_;
  std::int64_t first_ = 0;  // microbatch, chunk or block
  std::int64_t last_ = 0;   // block
};

}  // namespace swarmpi
