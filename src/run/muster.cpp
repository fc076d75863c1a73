#include "run/muster.hpp"

#include <optional>
#include <utility>

#include "core/host_name.hpp"
#include "run/shared_folder.hpp"

namespace swarmpi {
namespace {

Result<std::vector<Introduction>> introduce(MpiSession& session, const Introduction& mine) {
  std::vector<Introduction> ranks;
  for (const std::string& text : session.gather(mine.packed())) {
    Result<Introduction> rank = unpack_introduction(text);
    if (!rank.ok()) return rank.status();
    ranks.push_back(std::move(rank).value());
  }
  return ranks;
}

}  // namespace

Result<std::vector<std::string>> muster(MpiSession& session, const Introduction& mine, bool resumed,
                                        std::uint64_t state_hash) {
  const Result<std::vector<Introduction>> ranks = introduce(session, mine);
  if (!ranks.ok()) return ranks.status();
  if (Status status = fit_together(ranks.value(), resumed, state_hash); !status.ok()) return status;
  std::vector<std::string> hosts;
  for (const Introduction& rank : ranks.value()) hosts.push_back(rank.host);
  return hosts;
}

Status all_agree(MpiSession& session, const Status& mine) {
  Introduction self;
  self.status = mine;
  self.host = host_name();
  const Result<std::vector<Introduction>> ranks = introduce(session, self);
  return ranks.ok() ? fit_together(ranks.value(), false, 0) : ranks.status();
}

Status prove_folder_shared(MpiSession& session, const std::string& run_file) {
  std::optional<SharedFolderProbe> probe;
  if (session.rank() == 0) probe.emplace(run_file);
  const std::string path = session.gather(probe ? probe->path() : "").front();
  return all_agree(session, probe ? probe->status() : see_probe(path));
}

}  // namespace swarmpi
