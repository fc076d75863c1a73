#pragma once
// The file system that all peers share. It holds what is durable: writes that were completed.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

/// How often something happened to a disk that its peers had not asked for.
struct DiskMishaps {
  std::int64_t landed_late = 0;  ///< writes carried out after their writer had given them up
  std::int64_t parts_lost = 0;   ///< of checkpoints, before their manifest
  std::int64_t damages = 0;      ///< of the newest checkpoint
  std::int64_t refused = 0;      ///< loads of a part that was damaged, set aside or misread

  void add(const DiskMishaps& other) {
    landed_late += other.landed_late;
    parts_lost += other.parts_lost;
    damages += other.damages;
    refused += other.refused;
  }
};

/// Gets what is written into the journal as it becomes durable.
class JournalSink {
 public:
  virtual ~JournalSink() = default;
  virtual void term_created(Term term) = 0;
  /// `term`: that the writer led.
  virtual void stored(Term term, const StoreRecord& record) = 0;
  /// The run has ended.
  virtual void ended(Term term, const StoreEnd& end) = 0;
};

struct VirtualDisk {
  struct Entry {
    PeerId writer;
    Term term;  ///< that the writer led
    std::shared_ptr<const StoreRecord> record;
  };

  std::set<Term> terms;
  std::set<Term> strangers;  ///< of these: no peer has created them
  std::vector<Entry> journal;
  JournalSink* sink = nullptr;            ///< may be null
  bool keeps_journal = true;              ///< false: only the sink has it
  std::vector<RestartPoint> checkpoints;  ///< those with a manifest, the last ones of each step
  using Part = std::pair<std::int64_t, std::int64_t>;  // of a checkpoint: its step and stage
  std::set<Part> flipped_bits;  ///< parts that are damaged where only who reads them finds it
  std::set<Part> misread;       ///< parts that the next to read them reads wrongly
  std::set<std::int64_t> were_set_aside;  ///< steps of those that were taken for damaged
  std::int64_t resumed_from = -1;         ///< the run that writes here never goes back behind that
  std::int64_t newest_ever = -1;          ///< step of the newest that was complete at any time
  std::shared_ptr<const EndMessage> ended;  ///< the mark of the end of the run; null: none
  Term ended_in;                            ///< term of the leader that wrote the mark
  DiskMishaps mishaps;

  /// False where the term existed.
  bool create(Term term) {
    if (!terms.insert(term).second) return false;
    if (sink != nullptr) sink->term_created(term);
    return true;
  }
  /// A later term than all others appears, which no peer has created. False before the first term,
  /// and after the end, whose mark it would void.
  bool outbid() {
    if (terms.empty() || ended) return false;
    const Term next = terms.rbegin()->next();
    strangers.insert(next);
    return terms.insert(next).second;
  }
  /// Whether a peer has created a later term than this one.
  bool has_successor(Term term) const {
    return std::any_of(terms.upper_bound(term), terms.end(),
                       [this](Term later) { return !strangers.contains(later); });
  }
  void append(PeerId writer, Term term, const StoreRecord& record);

  /// So many checkpoints are kept: older ones are deleted.
  static constexpr std::size_t kKeep = 2;

  /// A checkpoint is complete.
  void keep(RestartPoint made) {
    const std::int64_t step = made.state.step;
    newest_ever = std::max(newest_ever, step);
    set_aside(step);
    were_set_aside.erase(step);
    checkpoints.push_back(std::move(made));
    const auto earlier = [](const auto& a, const auto& b) { return a.state.step < b.state.step; };
    while (checkpoints.size() > kKeep) {
      checkpoints.erase(std::min_element(checkpoints.begin(), checkpoints.end(), earlier));
    }
  }
  /// It is none any more.
  void set_aside(std::int64_t step) {
    for (auto* parts : {&flipped_bits, &misread}) {
      std::erase_if(*parts, [step](const Part& part) { return part.first == step; });
    }
    were_set_aside.insert(step);
    std::erase_if(checkpoints, [&](const auto& other) { return other.state.step == step; });
  }
  /// Who resumes a run proves what it resumes from.
  void set_damaged_aside() {
    while (!flipped_bits.empty()) set_aside(flipped_bits.begin()->first);
  }
  bool is_damaged(std::int64_t step) const {
    const auto part = flipped_bits.lower_bound({step, 0});
    return part != flipped_bits.end() && part->first == step;
  }
  bool complete() const;
  /// Whether the run has ended, and no later term exists: the mark of a dead leader may come late.
  bool has_ended() const { return ended && ended_in == *terms.rbegin(); }

  /// Whether the run could go back to another checkpoint than the newest.
  bool has_older() const {
    return std::count_if(checkpoints.begin(), checkpoints.end(), [this](const auto& checkpoint) {
             return checkpoint.state.step >= resumed_from;
           }) > 1;
  }

  /// The checkpoint of the latest step; null if there is none.
  const RestartPoint* newest() const {
    const auto earlier = [](const auto& a, const auto& b) { return a.state.step < b.state.step; };
    const auto last = std::max_element(checkpoints.begin(), checkpoints.end(), earlier);
    return last == checkpoints.end() ? nullptr : &*last;
  }
};

}  // namespace swarmpi
