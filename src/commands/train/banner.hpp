#pragma once
// The lines printed at the start of a run: what is trained, on what, and which losses it survives.

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

/// The peers of the run; by default one process without MPI.
struct BannerPeers {
  View view;  ///< who serves what at the start, spares included; empty: one peer serves all
  std::int64_t hosts = 1;
  /// Which losses a run over this MPI survives, without a full stop; "" without MPI.
  std::string survives = {};
};

/// Of a run whose ranks are on these hosts, one for each, and that begins with this view.
BannerPeers banner_peers(const Config& config, const View& view,
                         const std::vector<std::string>& hosts, bool reports_lost_ranks);

/// Lines of at most `columns`, each with a line end.
std::string start_banner(const Config& config, const std::vector<StageSpec>& stages,
                         const StartPoint& start, const std::string& fingerprint,
                         const BannerPeers& peers = {}, std::size_t columns = text_columns(stdout));

/// "peers by stage: 0-2 | 3"; where that gets long, how many peers serve each stage.
std::string serving_text(const View& view);

}  // namespace swarmpi
