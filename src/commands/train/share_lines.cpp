#include "commands/train/share_lines.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/train/handshake.hpp"
#include "config/deck.hpp"
#include "config/machine_rules.hpp"
#include "emulation/emulated_links.hpp"
#include "emulation/lines_in_memory.hpp"

namespace swarmpi {
namespace {

// A rank that is stopped with the lines' lock holds the others up for so long.
constexpr double kLongestWaitS = 1;
constexpr double kOfThePatience = 0.25;

// The line that ranks must know of each other; none: each knows all that its lines carry.
std::optional<CommonRate> common_line(const MpiSession& session, const PreparedRun& run) {
  if (!emulates_links(run.config) || session.alone()) return std::nullopt;
  return common_rate(run.config);
}

LinesInMemory::Plan plan_for(const MpiSession& session, const Config& config) {
  const auto ranks = static_cast<std::size_t>(session.ranks());
  // Each pair of peers that live has a flow, and what one that has died has sent may still be
  // there.
  return {common_mbps(config), 2 * ranks * ranks,
          std::min(kLongestWaitS, kOfThePatience * config.swarm.suspect_after_s)};
}

}  // namespace

Status check_common_lines(const MpiSession& session, const PreparedRun& run) {
  const std::optional<CommonRate> common = common_line(session, run);
  if (!common || session.ranks_on_host() == session.ranks()) return {};
  return with_place(
      run.config, Status::bad_input(common->id + ": " + common->key +
                                    " is shared by several peers, and with compute.fidelity = "
                                    "\"emulated\" such a line takes ranks that share memory: "
                                    "start all " +
                                    std::to_string(session.ranks()) + " on one host, or simulate"));
}

Status share_lines(MpiSession& session, PreparedRun& run) {
  if (!common_line(session, run)) return {};
  const LinesInMemory::Plan plan = plan_for(session, run.config);
  std::optional<Result<std::unique_ptr<LinesInMemory>>> mine;
  std::string address;
  if (session.rank() == 0) {
    mine.emplace(LinesInMemory::make(plan));
    if (mine->ok()) address = mine->value()->address();
  }
  address = session.gather(address).front();
  if (!mine && !address.empty()) mine.emplace(LinesInMemory::find(plan, address));
  const Status found = mine ? mine->status() : Status();  // where there are none rank 0 says why
  if (Status status = all_agree(session, found); !status.ok()) return status;
  run.common_lines = std::move(*mine).value();
  return {};
}

}  // namespace swarmpi
