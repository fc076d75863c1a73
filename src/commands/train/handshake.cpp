#include "commands/train/handshake.hpp"

#include <optional>
#include <utility>

#include "commands/train/shared_folder.hpp"
#include "core/machine.hpp"

namespace swarmpi {
namespace {

Result<std::vector<StartInfo>> introduce(MpiSession& session, const StartInfo& mine) {
  std::vector<StartInfo> ranks;
  for (const std::string& text : session.gather(mine.packed())) {
    Result<StartInfo> rank = unpack_start_info(text);
    if (!rank.ok()) return rank.status();
    ranks.push_back(std::move(rank).value());
  }
  return ranks;
}

}  // namespace

Result<std::vector<std::string>> exchange_start_info(MpiSession& session, const StartInfo& mine,
                                                     bool resumed, std::uint64_t state_hash) {
  const Result<std::vector<StartInfo>> ranks = introduce(session, mine);
  if (!ranks.ok()) return ranks.status();
  if (Status status = check_compatible(ranks.value(), resumed, state_hash); !status.ok())
    return status;
  std::vector<std::string> hosts;
  for (const StartInfo& rank : ranks.value()) hosts.push_back(rank.host);
  return hosts;
}

Status all_agree(MpiSession& session, const Status& mine) {
  StartInfo self;
  self.status = mine;
  self.host = host_name();
  const Result<std::vector<StartInfo>> ranks = introduce(session, self);
  return ranks.ok() ? check_compatible(ranks.value(), false, 0) : ranks.status();
}

Status prove_folder_shared(MpiSession& session, const std::string& run_file) {
  std::optional<SharedFolderProbe> probe;
  if (session.rank() == 0) probe.emplace(run_file);
  const std::string path = session.gather(probe ? probe->path() : "").front();
  return all_agree(session, probe ? probe->status() : see_probe(path));
}

}  // namespace swarmpi
