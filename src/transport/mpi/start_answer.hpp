#pragma once
// What a process that was started tells the one that has started it, before it is taken.

#include <functional>
#include <string>

#include "core/field_list.hpp"
#include "core/status.hpp"
#include "transport/mpi/process.hpp"

namespace swarmpi {

struct StartAnswer {
  Process process;
  std::string shows;    ///< for a StartCheck
  std::string why_not;  ///< "": it can take part
};
SWARMPI_FIELDS(StartAnswer, process, shows, why_not);

/// Whether a process that shows this is to take part. Called in a thread of its own.
using StartCheck = std::function<Status(const std::string& shows)>;

/// What a process answers to its start-up data; its `process` is filled in.
using AnswerStart = std::function<StartAnswer(const std::string& start_info)>;

}  // namespace swarmpi
