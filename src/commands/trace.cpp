#include "commands/trace.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "io/files.hpp"

namespace swarmpi {

Status run_trace(const TraceOptions& options, std::ostream& out) {
  TraceModel model = options.numbers;
  model.kind = options.model == "diurnal" ? TraceModel::Kind::diurnal
               : options.model == "burst" ? TraceModel::Kind::burst
                                          : TraceModel::Kind::poisson;
  const std::vector<TraceEvent> events = make_trace(model);
  if (Status status = write_file_durably(options.out, trace_text(events)); !status.ok()) {
    return status;
  }
  const auto joins = std::count_if(events.begin(), events.end(),
                                   [](const TraceEvent& event) { return event.event == "join"; });
  out << format("%s: %lld peers, %g hours, %s: %lld kills, %lld joins\n", options.out.c_str(),
                static_cast<long long>(model.peers), model.hours, options.model.c_str(),
                static_cast<long long>(events.size()) - static_cast<long long>(joins),
                static_cast<long long>(joins));
  return {};
}

}  // namespace swarmpi
