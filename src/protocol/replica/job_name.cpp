#include "protocol/replica/job_name.hpp"

#include <fmt/core.h>

#include <variant>

#include "core/overloaded.hpp"
#include "protocol/messages/all_jobs.hpp"

namespace swarmpi {

JobName::JobName(const Job& job) : stage_(stage_of(job)) {
  const auto pass = [&](const char* what, const MicrobatchId& microbatch) {
    what_ = what;
    of_ = Of::microbatch;
    step_ = microbatch.step;
    first_ = microbatch.index;
  };
  const auto chunk = [&](const char* what, Step step, std::int32_t number) {
    what_ = what;
    of_ = Of::chunk;
    step_ = step;
    first_ = number;
  };
  const auto blocks = [&](const char* what, const BlockRange& range) {
    what_ = what;
    of_ = Of::blocks;
    first_ = range.first;
    last_ = range.end - 1;
  };
  visit(Overloaded{[&](const ForwardJob& j) { pass("forward pass", j.work.microbatch); },
                   [&](const BackwardJob& j) { pass("backward pass", j.work.microbatch); },
                   [&](const ApplyJob& j) {
                     what_ = "update";
                     of_ = Of::step;
                     step_ = j.record->step;
                   },
                   [&](const UpdateJob& j) { chunk("update", j.record->step, j.chunk); },
                   [&](const PlaceWeightsJob& j) { chunk("placing the weights", j.step, j.chunk); },
                   [&](const CopyWeightsJob& j) { chunk("copying the weights", j.step, j.chunk); },
                   [&](const TryJob&) { what_ = "reading data for a pass in"; },
                   [&](const PrepareJob&) { what_ = "allocating"; },
                   [&](const DropJob&) { what_ = "freeing"; },
                   [&](const ReadJob& j) { blocks("reading", j.blocks); },
                   [&](const WriteJob& j) { blocks("writing", j.blocks); },
                   [&](const auto& j) { chunk("reduction", j.step, j.chunk); }},
        job);
}

std::string JobName::text() const {
  switch (of_) {
    case Of::microbatch:
      return fmt::format("{} of microbatch {} of step {} in stage {}", what_, first_, step_.value,
                         stage_.value);
    case Of::chunk:
      return fmt::format("{} of chunk {} of step {} in stage {}", what_, first_, step_.value,
                         stage_.value);
    case Of::step:
      return fmt::format("{} of step {} in stage {}", what_, step_.value, stage_.value);
    case Of::blocks:
      return fmt::format("{} blocks {} to {} of stage {}", what_, first_, last_, stage_.value);
    case Of::stage:
      break;
  }
  return fmt::format("{} stage {}", what_, stage_.value);
}

}  // namespace swarmpi
