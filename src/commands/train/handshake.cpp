#include "commands/train/handshake.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "config/deck.hpp"
#include "core/archive.hpp"
#include "core/hash.hpp"
#include "core/machine.hpp"
#include "core/version.hpp"
#include "transport/mpi/info.hpp"

namespace swarmpi {
namespace {

constexpr char kWireMark[] = "wire version ";

// Behind its length, as in all builds: else a rank of an earlier one could not name it.
std::string wire_version() {
  const std::string version = kWireMark + std::to_string(kWireVersion);
  return std::to_string(version.size()) + ":" + version;
}

std::string name_of_rank(const std::vector<StartInfo>& ranks, std::size_t rank) {
  return fmt::format("rank {} on {}", rank, ranks[rank].host);
}

// Compares a field of all ranks with that of rank 0; the message names both values.
Status refuse_unequal(const std::vector<StartInfo>& ranks, std::string StartInfo::*field,
                      const char* what, const char* advice) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].*field == ranks[0].*field) continue;
    return Status::bad_input(fmt::format("{} mismatch: {} has {}, {} has {}: {}", what,
                                         name_of_rank(ranks, 0), ranks[0].*field,
                                         name_of_rank(ranks, r), ranks[r].*field, advice));
  }
  return {};
}

// The keys in which two resolved decks differ, with both values.
std::string deck_difference(const std::string& a, const std::string& b) {
  const Result<Config> config_a = parse_deck(a, "a deck", {}),
                       config_b = parse_deck(b, "a deck", {});
  if (!config_a.ok() || !config_b.ok()) return "they cannot be compared";
  std::string text;
  for (const DeckDifference& key : deck_differences(config_a.value(), config_b.value())) {
    text += (text.empty() ? "" : ", ") + key.key + " is " + key.a + " and " + key.b;
  }
  return text;
}

Status refuse_unequal_decks(const std::vector<StartInfo>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].deck == ranks[0].deck) continue;
    return Status::bad_input(
        "deck mismatch between " + name_of_rank(ranks, 0) + " and " + name_of_rank(ranks, r) +
        ": " + deck_difference(ranks[0].deck, ranks[r].deck) + ": give all ranks the same deck");
  }
  return {};
}

// Good if all have done well what each does on its own.
Status refuse_failed(const std::vector<StartInfo>& ranks) {
  const auto failed = std::find_if(ranks.begin(), ranks.end(),
                                   [](const StartInfo& rank) { return !rank.status.ok(); });
  if (failed == ranks.end()) return {};
  // What all ranks found is wrong with the deck or the files: then the message names no rank.
  const Status& status = failed->status;
  const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const StartInfo& rank) {
    return rank.status.message() == status.message();
  });
  if (all) return status;
  const auto rank = static_cast<std::size_t>(failed - ranks.begin());
  return Status::error(status.code(), name_of_rank(ranks, rank) + ": " + status.message());
}

Status refuse_unequal_data(const std::vector<StartInfo>& ranks) {
  const std::vector<std::string> hashes = data_hashes(ranks);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (hashes[r] == hashes[0]) continue;
    return Status::bad_input(fmt::format(
        "data mismatch: that of {} has hash {}, that of {} has {}: give all ranks data files of "
        "the same content",
        name_of_rank(ranks, 0), hashes[0], name_of_rank(ranks, r), hashes[r]));
  }
  return {};
}

Status refuse_unequal_steps(const std::vector<StartInfo>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].step == ranks[0].step) continue;
    return Status::bad_input(
        fmt::format("{} would resume after step {}, {} after step {}: let --resume name one folder "
                    "that all hosts share",
                    name_of_rank(ranks, 0), ranks[0].step, name_of_rank(ranks, r), ranks[r].step));
  }
  return {};
}

Status refuse_unequal_builds(const std::vector<StartInfo>& ranks) {
  return refuse_unequal(ranks, &StartInfo::build, "build", "install the same build on all hosts");
}

}  // namespace

StartInfo own_start_info(const Status& status) {
  StartInfo info;
  info.status = status;
  info.host = host_name();
  info.build = build_line();
  return info;
}

std::string with_wire_version(const std::string& bytes) { return wire_version() + bytes; }

Result<std::string> behind_wire_version(const std::string& text) {
  const std::string own = wire_version();
  if (text.starts_with(own)) return text.substr(own.size());
  // Ranks of early commits begin with something else.
  const std::size_t mark = text.find(kWireMark);
  const bool known = mark != std::string::npos && mark == text.find(':') + 1;
  const std::size_t digits = mark + std::strlen(kWireMark);
  const std::size_t end = text.find_first_not_of("0123456789", digits);
  return Status::failed("it speaks " + (known ? text.substr(mark, end - mark) : "no wire version") +
                        ", this rank " + own.substr(own.find(':') + 1) + " (SwarMPI " +
                        version_line() + "): install the same build on all hosts");
}

std::string StartInfo::packed() const { return with_wire_version(to_bytes(*this)); }

Result<StartInfo> unpack_start_info(const std::string& text) {
  const Result<std::string> bytes = behind_wire_version(text);
  if (!bytes.ok()) return bytes.status();
  Result<StartInfo> rank = from_bytes<StartInfo>(bytes.value());
  if (rank.ok()) return rank;
  return Status::failed("it sent " + rank.status().message() + "; this rank runs " + build_line() +
                        ": install the same build on all hosts");
}

// Ranks of another build may fail for that alone, so this is looked at first.
Status check_compatible(const std::vector<StartInfo>& ranks, bool allow_mixed) {
  const Status checks[] = {
      refuse_unequal_builds(ranks),
      refuse_failed(ranks),
      refuse_unequal_decks(ranks),
      refuse_unequal_data(ranks),
      allow_mixed ? Status()
                  : refuse_unequal(ranks, &StartInfo::fingerprint, "fingerprint",
                                   "they would not compute the same bits; compute.max_isa or "
                                   "compute.kernels = \"reference\" can make different processors "
                                   "equal, swarm.allow_mixed lets them differ"),
      refuse_unequal_steps(ranks)};
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  return {};
}

std::string mixed_fingerprint(const std::vector<StartInfo>& ranks, const std::string& resumed) {
  std::set<std::string> different;
  if (!resumed.empty()) different.insert(resumed);
  for (const StartInfo& rank : ranks) different.insert(rank.fingerprint);
  std::string all;
  for (const std::string& one : different) all += one + " ";
  return "mixed " + hex(hash_bytes(all.data(), all.size()));
}

std::int64_t first_term(const std::vector<StartInfo>& ranks) {
  std::int64_t first = 1;
  for (const StartInfo& rank : ranks) first = std::max(first, rank.first_term);
  return first;
}

std::vector<std::string> data_hashes(const std::vector<StartInfo>& ranks) {
  std::map<std::pair<std::string, std::string>, std::string> read;
  for (const StartInfo& rank : ranks) {
    if (rank.data_hash.empty() || rank.data_files.empty()) continue;
    read.try_emplace({rank.host, rank.data_files}, rank.data_hash);
  }
  std::vector<std::string> hashes;
  for (const StartInfo& rank : ranks) {
    const auto of_host = read.find({rank.host, rank.data_files});
    const bool own = !rank.data_hash.empty() || of_host == read.end();
    hashes.push_back(own ? rank.data_hash : of_host->second);
  }
  return hashes;
}

bool has_unread_data(const std::vector<StartInfo>& ranks) {
  const Status checks[] = {refuse_unequal_builds(ranks), refuse_failed(ranks),
                           refuse_unequal_decks(ranks)};
  const auto good = [](const Status& status) { return status.ok(); };
  if (!std::all_of(std::begin(checks), std::end(checks), good)) return false;
  const std::vector<std::string> hashes = data_hashes(ranks);
  return std::find(hashes.begin(), hashes.end(), "") != hashes.end();
}

std::vector<DamagedCheckpoint> damaged_unknown_to_some(const std::vector<StartInfo>& ranks) {
  if (!refuse_unequal_builds(ranks).ok() || !refuse_failed(ranks).ok()) return {};
  std::map<std::int64_t, DamagedCheckpoint> all;  // by step: ranks may spell a path otherwise
  for (const StartInfo& rank : ranks) {
    for (const DamagedCheckpoint& damaged : rank.damaged) all.try_emplace(damaged.step, damaged);
  }
  const auto knows_all = [&](const StartInfo& rank) { return rank.damaged.size() == all.size(); };
  if (std::all_of(ranks.begin(), ranks.end(), knows_all)) return {};
  std::vector<DamagedCheckpoint> damaged;
  for (auto& [step, one] : all) damaged.push_back(std::move(one));
  return damaged;
}

Status check_loaded(const std::vector<StartInfo>& ranks, const std::string& checkpoint,
                    std::uint64_t state_hash) {
  std::map<StageId, std::size_t> first;  // the first rank that has loaded a stage
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const auto& [stage, hash] : ranks[r].stage_hashes) {
      const auto [known, is_new] = first.try_emplace(stage, r);
      const StartInfo& other = ranks[known->second];
      const auto weights = ranks[r].weight_hashes.find(stage);
      const bool owns_range = weights != ranks[r].weight_hashes.end();
      if (is_new || owns_range) sum += hash;
      const bool same = owns_range ? other.weight_hashes.at(stage) == weights->second
                                   : other.stage_hashes.at(stage) == hash;
      if (same) continue;
      return Status::bad_input(
          fmt::format("{} and {} have loaded different states of stage {} from the checkpoint: "
                      "let --resume name one folder that all hosts share",
                      name_of_rank(ranks, known->second), name_of_rank(ranks, r), stage.value));
    }
  }
  // Who joins a running swarm has loaded nothing.
  if (first.empty() || sum == state_hash) return {};
  return Status::bad_input(fmt::format(
      "{} is damaged: its state hashes to {}, its manifest says {}: resume from another checkpoint",
      checkpoint, hex(sum), hex(state_hash)));
}

Result<std::unique_ptr<MpiSession>> open_session(const Launcher& launcher, bool starts_processes) {
  if (launcher.ranks == 0) {
    return Status::bad_input(launcher.name + " does not say how many ranks it started: use mpirun");
  }
  if (launcher.alone()) return MpiSession::of_one();
  const MpiInfo mpi = mpi_info();
  if (Status status = check_launcher(launcher, mpi.library, mpi.mpirun); !status.ok())
    return status;
  Result<std::unique_ptr<MpiSession>> session = MpiSession::start(starts_processes);
  if (!session.ok() || session.value()->ranks() == launcher.ranks) return session;
  return Status::bad_input(fmt::format(
      "{} has started {} ranks, but MPI counts {}: this program was built with {}. Start "
      "it with {}",
      launcher.name, launcher.ranks, session.value()->ranks(), mpi.library, mpi.mpirun));
}

Result<std::vector<StartInfo>> gather_start_info(MpiSession& session, const StartInfo& mine) {
  std::vector<StartInfo> ranks;
  for (const std::string& text : session.gather(mine.packed())) {
    Result<StartInfo> rank = unpack_start_info(text);
    if (!rank.ok()) {
      return Status::failed(fmt::format("handshake mismatch with rank {}: ", ranks.size()) +
                            rank.status().message());
    }
    ranks.push_back(std::move(rank).value());
  }
  return ranks;
}

Status all_agree(MpiSession& session, const Status& mine) {
  const Result<std::vector<StartInfo>> ranks = gather_start_info(session, own_start_info(mine));
  return ranks.ok() ? check_compatible(ranks.value()) : ranks.status();
}

Status agree_on_state(MpiSession& session, const Result<StartedStages>& mine,
                      const std::optional<Checkpoint>& checkpoint) {
  StartInfo info = own_start_info(mine.status());
  if (mine.ok()) {
    info.stage_hashes = mine.value().hashes;
    info.weight_hashes = mine.value().weight_hashes;
  }
  const Result<std::vector<StartInfo>> ranks = gather_start_info(session, info);
  if (!ranks.ok()) return ranks.status();
  Status status = check_compatible(ranks.value());
  if (!status.ok() || !checkpoint) return status;
  return check_loaded(ranks.value(), checkpoint->path(), checkpoint->head().state.state_hash);
}

ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error) {
  const Result<std::unique_ptr<MpiSession>> session =
      launcher.ranks == 0 ? MpiSession::of_one() : open_session(launcher);
  const Status common = session.ok() ? all_agree(*session.value(), status) : status;
  // Before MPI_Finalize: mpirun drops what a rank prints when others have left already.
  const bool alike = session.ok() || session.status().code() == ExitStatus::bad_input;
  const bool prints = launcher.speaks() || !alike;
  if (prints) error << "swarmpi: " << common.message() << std::endl;
  if (session.ok()) (void)session.value()->finish();
  return status_of_rank(common.code(), prints);
}

void await_turn_to_leave(int rank) {
  constexpr std::chrono::milliseconds kApart(20);
  constexpr int kTurns = 256;  // more are spread over several hosts, each with its own daemon
  std::this_thread::sleep_for(kApart * (rank % kTurns));
}

}  // namespace swarmpi
