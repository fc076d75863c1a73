#include "run/start_point.hpp"

#include <filesystem>
#include <utility>

#include "config/deck.hpp"
#include "core/text.hpp"
#include "worker/run_storage.hpp"

namespace swarmpi {
namespace {

// Keys in which the run differs from what it would go on from, and must not.
Status refuse_other_deck(const std::string& deck, const std::string& where, const Config& config) {
  const Result<Config> other = parse_deck(deck, where, {});
  if (!other.ok()) return other.status();
  for (const DeckDifference& difference : deck_differences(other.value(), config)) {
    if (may_change_on_resume(difference.key)) continue;
    return Status::bad_input(
        format("%s was made with %s = %s, this deck says %s: a resumed run cannot "
               "change it",
               where.c_str(), difference.key.c_str(), difference.a.c_str(), difference.b.c_str()));
  }
  return {};
}

bool same_schedule(const std::string& deck, const Config& config) {
  const Result<Config> other = parse_deck(deck, "checkpoint", {});
  if (!other.ok()) return false;
  const TrainConfig& a = other.value().train;
  return a.steps == config.train.steps || a.schedule == "constant";
}

Status fit_journal(const OutputPaths& paths, const Config& config, StartPoint& start) {
  const std::int64_t from = start.state.step;
  start.first_term = highest_term(paths.journal) + 1;
  History history = history_up_to(start.checkpoint->history(), from, config.train.delay());
  if (start.first_term == 1) {
    start.carried = std::move(history);
    return {};
  }
  const Result<JournalContent> journal = read_journal(paths.journal);
  if (!journal.ok()) return journal.status();
  const std::string& deck = journal.value().last.deck;
  if (!deck.empty()) {
    if (Status status = refuse_other_deck(deck, paths.journal, config); !status.ok()) return status;
    start.must_agree = start.must_agree && same_schedule(deck, config);
  }
  const auto& rows = journal.value().history.steps;
  if (rows.empty() || rows.back().step < from) start.carried = std::move(history);
  return {};
}

}  // namespace

Result<StartPoint> find_start(const TrainOptions& options, const OutputPaths& paths,
                              const std::string& fingerprint) {
  StartPoint start;
  if (!options.resume) {
    if (Status status = refuse_existing(paths); !status.ok()) return status;
    return start;
  }

  const std::string& where = *options.resume;
  bool none_there = false;
  Result<Checkpoint> opened = Checkpoint::open(where, &none_there);
  if (!opened.ok()) {
    if (!none_there) return opened.status();
    start.replaces = true;
    return start;
  }
  const CheckpointHead& head = opened.value().head();
  if (Status status = refuse_other_deck(head.deck, opened.value().path(), options.config);
      !status.ok()) {
    return status;
  }
  if (head.fingerprint != fingerprint) {
    return Status::bad_input(
        format("%s was made with fingerprint %s, this machine with this [compute] gives "
               "%s: the run would not go on bit for bit (kernels, threads and max_isa "
               "decide it, and the CPU)",
               opened.value().path().c_str(), head.fingerprint.c_str(), fingerprint.c_str()));
  }
  if (head.state.step > options.config.train.steps) {
    return Status::bad_input(format("%s stands after step %lld, but train.steps is %lld",
                                    opened.value().path().c_str(),
                                    static_cast<long long>(head.state.step),
                                    static_cast<long long>(options.config.train.steps)));
  }
  if (Status status = refuse_later_checkpoints(paths, head.state.step); !status.ok()) return status;
  start.state = head.state;
  start.must_agree = same_schedule(head.deck, options.config);
  start.checkpoint = std::move(opened).value();
  if (Status status = fit_journal(paths, options.config, start); !status.ok()) return status;
  return start;
}

}  // namespace swarmpi
