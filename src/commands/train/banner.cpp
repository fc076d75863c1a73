#include "commands/train/banner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "kernels/backend.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kNameColumns = 10;
// Longer lists of peers become counts.
constexpr std::size_t kListCharacters = 120;

std::string model_text(const Config& config) {
  const ModelConfig& m = config.model;
  return fmt::format("{} of {}, {}, context {}, vocabulary {}; {} parameters, {}",
                     counted(m.layers, "layer"), m.width, counted(m.heads, "head"), m.context,
                     m.vocab, readable_count(static_cast<double>(parameter_count(config))),
                     name_of(m.precision));
}

std::string training_text(const TrainConfig& t) {
  return fmt::format("{} of {} x {}, {}, lr {:g}, seed {}, {} updates, {} sums",
                     counted(t.steps, "step"), t.microbatches,
                     counted(t.microbatch_size, "sequence"), name_of(t.optimizer), t.lr, t.seed,
                     name_of(t.updates), name_of(t.reduction));
}

std::string swarm_text(std::size_t stages, const BannerPeers& peers) {
  std::string text = counted(static_cast<std::int64_t>(stages), "stage") + " on ";
  if (peers.view.members().size() < 2) return text + "1 peer";
  std::int64_t workers = 0, spares = 0;
  for (const auto& [peer, served] : peers.view.members()) ++(served.empty() ? spares : workers);
  text += counted(workers, "peer");
  if (spares > 0) text += " and " + counted(spares, "spare");
  if (peers.hosts > 1) text += " on " + counted(peers.hosts, "host");
  return text + "; " + serving_text(peers.view);
}

std::string compute_text(const ComputeConfig& compute, const std::string& fingerprint) {
  if (compute.kernels == Kernels::cuda) {
    return fmt::format("{}, cuda kernels, fingerprint {}", kernels::cuda_description(),
                       fingerprint);
  }
  if (compute.kernels == Kernels::none) return "nothing is computed: kernels = \"none\"";
  return fmt::format("{}, {} a peer, {} kernels, fingerprint {}", this_machine().cpu,
                     counted(compute.threads, "thread"), name_of(compute.kernels), fingerprint);
}

// How much is lost with the run, at most.
std::string since_checkpoint_text(const Config& config) {
  const std::int64_t every = config.output.checkpoint_every;
  const double every_s = config.output.checkpoint_every_s;
  const bool by_deaths =
      config.swarm.has_pipelines() && (config.faults.mtbf_s > 0 || !config.faults.trace.empty());
  const std::string time = every_s > 0 ? fmt::format("every {:g} s", every_s) : "";
  std::string when;
  if (every > 0) {
    when = "every " + counted(every, "step") + (time.empty() ? "" : ", and " + time);
  } else if (by_deaths) {
    return "the steps since the last checkpoint (as often as deaths are to be expected)";
  } else {
    when = time;
  }
  if (!when.empty()) return "the steps since the last checkpoint (one " + when + ")";
  return "all steps (checkpoints are written at the end and when stopped; set "
         "output.checkpoint_every_s)";
}

std::string survival_text(const Config& config, const BannerPeers& peers) {
  const std::string since = since_checkpoint_text(config);
  if (peers.survives.empty()) {
    return "a kill costs " + since +
           "; what was reported is never lost. INT, TERM or USR1: checkpoint and stop.";
  }
  return peers.survives + ". What ends the run costs " + since +
         "; what was reported is never lost. USR1 to mpirun: checkpoint and stop.";
}

/// Why notices that swarm.notice_s asks for come too late to be of use; "" where they do not.
std::string late_notices_text(double notice_s) {
  if (notice_s <= 0 || notice_s >= kNoticesTogetherS) return "";
  return fmt::format(
      "swarm.notice_s = {:g} is too short: the leader waits {:g} s before it acts on a notice, so "
      "each peer is killed before it has left. Set swarm.notice_s above {:g}.",
      notice_s, kNoticesTogetherS, kNoticesTogetherS);
}

/// What a loss that the run survives costs, where that is more than the work of the dead.
std::string cost_of_a_loss(const SwarmConfig& swarm) {
  return swarm.has_pipelines() ? ", and sends all back to the last checkpoint (swarm.method = \"" +
                                     name_of(swarm.method) + "\")"
                               : "";
}

std::string survived_losses(const Config& config, bool reports_lost_ranks) {
  const double suspect_after_s = config.swarm.suspect_after_s;
  if (config.swarm.recovery == Recovery::off) return "no loss of a rank (swarm.recovery = \"off\")";
  if (config.faults.mode == FaultsMode::emulated) {
    return fmt::format(
        "the deaths and cuts that [faults] emulates; a peer that is silent for {:g} s is killed{}",
        suspect_after_s, cost_of_a_loss(config.swarm));
  }
  if (reports_lost_ranks) {
    return fmt::format("the loss of any rank (ULFM); a rank that is silent for {:g} s is killed{}",
                       suspect_after_s, cost_of_a_loss(config.swarm));
  }
  return fmt::format(
      "this MPI (or mpirun without --with-ft ulfm) does not report lost ranks: mpirun ends the "
      "run, or this program after {:g} s of silence",
      suspect_after_s);
}

}  // namespace

BannerPeers banner_peers(const Config& config, const View& view,
                         const std::vector<std::string>& hosts, bool reports_lost_ranks) {
  if (hosts.size() == 1) return {};
  return {view, static_cast<std::int64_t>(std::set(hosts.begin(), hosts.end()).size()),
          survived_losses(config, reports_lost_ranks)};
}

std::string serving_text(const View& view) {
  std::map<std::int64_t, std::set<std::int64_t>> serving;
  for (const auto& [peer, served] : view.members()) {
    for (const StageId stage : served) serving[stage.value].insert(peer.value);
  }
  std::string lists, counts;
  std::size_t least = view.members().size(), most = 0;
  for (const auto& [stage, peers] : serving) {
    lists += (lists.empty() ? "" : " | ") + number_list(peers);
    counts += (counts.empty() ? "" : "+") + std::to_string(peers.size());
    least = std::min(least, peers.size());
    most = std::max(most, peers.size());
  }
  if (lists.size() <= kListCharacters) return "peers by stage: " + lists;
  if (least == most) return counted(static_cast<std::int64_t>(most), "peer") + " for each stage";
  if (counts.size() <= kListCharacters) return counts + " peers for the stages";
  return fmt::format("{} to {} peers for each stage", least, most);
}

std::string start_banner(const Config& config, const std::vector<StageSpec>& stages,
                         const StartPoint& start, const std::string& fingerprint,
                         const BannerPeers& peers, std::size_t columns) {
  std::string text = wrapped("swarmpi " + version_line(), columns, kNameColumns) + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:{}}", name, kNameColumns) +
            wrapped(value, columns, kNameColumns, kNameColumns) + "\n";
  };
  line("model", model_text(config));
  line("training", training_text(config.train));
  line("swarm", swarm_text(stages.size(), peers));
  line("compute", compute_text(config.compute, fingerprint));
  line("survival", survival_text(config, peers));
  const std::string late_notices = late_notices_text(config.swarm.notice_s);
  if (!late_notices.empty()) line("WARNING", late_notices);
  if (start.state.step >= 0) {
    line("start", fmt::format("resumes after step {} of {}{}", start.state.step, config.train.steps,
                              start.checkpoint ? ", from " + start.checkpoint->path() : ""));
  }
  if (!start.found_empty.empty()) {
    line("start", fmt::format("there is no checkpoint in {} yet: {} at step 0", start.found_empty,
                              start.begins_again ? "the unfinished run begins anew" : "begins"));
  }
  return text;
}

}  // namespace swarmpi
