#pragma once
// The lines at the start of a run: what will be trained, on what, and what it can survive.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "commands/train/start_point.hpp"
#include "config/config.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/view.hpp"
#include "report/terminal.hpp"

namespace swarmpi {

/// Who takes part; as it stands, a process of its own without MPI.
struct WelcomePeers {
  View view;  ///< who serves what at the start, spares included; empty: one peer serves all
  std::int64_t hosts = 1;
  std::string
      survives;  ///< what a run over this MPI gets over, for people (no full stop); "" without MPI
};

/// Lines of at most `columns`, each with its end.
std::string welcome(const Config& config, const std::vector<StageSpec>& stages,
                    const StartPoint& start, const std::string& fingerprint,
                    const WelcomePeers& peers = {}, std::size_t columns = text_columns(stdout));

/// "peers by stage: 0-2 | 3"; how many they are where that gets long.
std::string serving_text(const View& view);

}  // namespace swarmpi
