// The merge of terms as they come, against one that has all of them in memory.

#include "io/journal/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <unordered_set>

#include "io/file_calls.hpp"
#include "io/files.hpp"
#include "io/journal/follower.hpp"
#include "io/journal/journal.hpp"
#include "io/row_fields.hpp"
#include "io/test_support.hpp"

namespace swarmpi::merge_test {
namespace {

struct Term {
  JournalBegin begin;
  std::vector<Record> records;
};

/// The rules of docs/files.md, one after the other.
class PlainMerge {
 public:
  void add(const Term& term) {
    const JournalBegin& begin = term.begin;
    const auto later = [&begin](const auto& entry) { return entry.first > begin.from_step; };
    if (!begin.must_agree) {
      std::erase_if(steps_, later);
      std::erase_if(validation_, later);
      std::erase_if(peers_,
                    [&](const auto& entry) { return std::get<0>(entry.first) > begin.from_step; });
      std::erase_if(events_, [&](const EventRow& row) { return row.step > begin.from_step; });
    }
    const auto last = steps_.find(begin.from_step);
    const double end_s = last == steps_.end() ? 0 : last->second.time_s;
    std::erase_if(throughput_, [&](const ThroughputRow& row) { return row.time_s > end_s; });
    std::erase_if(events_, [&](const EventRow& row) {
      return row.step > begin.from_step &&
             (row.kind == EventKind::commit || row.kind == EventKind::checkpoint);
    });
    std::unordered_set<std::string> known;
    for (const EventRow& row : events_) known.insert(payload_of(row));
    for (const ThroughputRow& row : throughput_) known.insert(payload_of(row));
    std::int64_t reached = begin.from_step;
    for (const Record& record : term.records) {
      const bool again = begin.carries_history && known.contains(payload_of(record));
      if (const auto* step = std::get_if<StepRow>(&record)) {
        steps_[step->step] = *step;
        reached = std::max(reached, step->step);
      }
      if (const auto* row = std::get_if<ValidationRow>(&record)) {
        validation_[row->step] = {*row, begin.term};
      }
      if (const auto* row = std::get_if<PeerRow>(&record)) peers_[key_of(*row)] = *row;
      if (const auto* row = std::get_if<EventRow>(&record); row && !again) events_.push_back(*row);
      if (const auto* row = std::get_if<ThroughputRow>(&record); row && !again) {
        throughput_.push_back(*row);
      }
    }
    if (begin.from_step < 0 || reached < begin.from_step + begin.delay) return;
    std::erase_if(validation_, [&](const auto& entry) {
      return entry.second.second != begin.term && entry.first > begin.from_step - begin.delay &&
             entry.first <= reached - begin.delay;
    });
  }
  std::vector<std::string> payloads() {
    std::vector<std::string> found;
    const auto by_time = [](const auto& a, const auto& b) { return a.time_s < b.time_s; };
    std::stable_sort(events_.begin(), events_.end(), by_time);
    std::stable_sort(throughput_.begin(), throughput_.end(), by_time);
    for (const auto& [step, row] : steps_) found.push_back(payload_of(row));
    for (const auto& [step, row] : validation_) found.push_back(payload_of(row.first));
    for (const auto& [key, row] : peers_) found.push_back(payload_of(row));
    for (const EventRow& row : events_) found.push_back(payload_of(row));
    for (const ThroughputRow& row : throughput_) found.push_back(payload_of(row));
    return found;
  }

 private:
  std::map<std::int64_t, StepRow> steps_;
  std::map<std::int64_t, std::pair<ValidationRow, std::int64_t>> validation_;
  std::map<KeyOf<PeerRow>, PeerRow> peers_;
  std::vector<EventRow> events_;
  std::vector<ThroughputRow> throughput_;
};

std::vector<std::string> payloads_of(const History& history) {
  std::vector<std::string> found;
  for_each_table(history, [&found](const char*, const auto& rows) {
    for (const auto& row : rows) found.push_back(payload_of(Record(row)));
  });
  return found;
}

/// A run of some terms, each of which goes on where the one before was, or at an earlier
/// checkpoint, and may go back once more in its midst.
class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : random_(seed) {}

  Term next(std::int64_t number) {
    Term term;
    JournalBegin& begin = term.begin;
    begin.term = number;
    begin.from_step = number == 1 ? -1 : between(-1, step_);
    begin.must_agree = chance(5) != 0;
    begin.carries_history = begin.from_step >= 0 && chance(4) == 0;
    step_ = begin.from_step;
    time_s_ = static_cast<double>(step_);
    if (begin.carries_history) make_steps(term, 0, step_);
    make_steps(term, step_ + 1, step_ + between(0, 400));
    if (chance(2) == 0) {
      step_ = between(-1, step_);
      make_steps(term, step_ + 1, step_ + between(0, 400));
    }
    return term;
  }

 private:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, std::max(least, most))(random_);
  }
  std::int64_t chance(std::int64_t of) { return between(0, of - 1); }

  void make_steps(Term& term, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; ++step) {
      time_s_ = std::max(time_s_ + 0.25, static_cast<double>(step));
      StepRow row = step_row(step);
      row.time_s = time_s_;
      row.term = term.begin.term;
      if (step % 3 == 0 && step > 0) {
        term.records.emplace_back(
            ValidationRow{step - 1, 2.5 * static_cast<double>(step), time_s_});
      }
      term.records.emplace_back(row);
      for (std::int64_t peer = between(0, 1); peer < 3; ++peer) {
        PeerRow of_peer{step, peer, peer % 2};
        of_peer.compute_s = time_s_;
        term.records.emplace_back(of_peer);
      }
      term.records.emplace_back(ThroughputRow{time_s_, 100, 1, 1});
      const bool kill = chance(20) == 0;
      const double late_s = static_cast<double>(chance(3));
      term.records.emplace_back(EventRow{time_s_ - late_s, step,
                                         kill ? EventKind::kill : EventKind::commit, 0, 0, 0,
                                         std::to_string(step)});
      step_ = step;
    }
  }

  std::mt19937 random_;
  std::int64_t step_ = -1;
  double time_s_ = 0;
};

TEST(JournalMerge, AsTermsComeItIsWhatAllOfThemGive) {
  const TestFolder folder;
  for (unsigned seed = 0; seed < 25; ++seed) {
    RandomRun run(seed);
    PlainMerge plain;
    JournalMerge merge(folder.path());
    for (std::int64_t number = 1; number <= 6; ++number) {
      const Term term = run.next(number);
      plain.add(term);
      merge.begin(term.begin);
      for (const Record& record : term.records) ASSERT_TRUE(merge.add(record).ok());
    }
    ASSERT_EQ(payloads_of(merge.history()), plain.payloads()) << "seed " << seed;
    ASSERT_TRUE(merge.status().ok());
  }
}

// A term of one start: its rows, under terms that follow one another.
JournalBegin begin_of(std::int64_t term, std::int64_t first_term, std::int64_t from_step = -1) {
  JournalBegin begin;
  begin.term = term;
  begin.first_term = first_term;
  begin.from_step = from_step;
  return begin;
}

std::size_t rows_in(JournalMerge& merge) {
  return merge.count<StepRow>() + merge.count<ValidationRow>() + merge.count<PeerRow>() +
         merge.count<EventRow>() + merge.count<ThroughputRow>() + merge.count<GoodputRow>();
}

TEST(JournalMerge, LeavesEarlierStartsWhenTheRunBeginsAgain) {
  JournalMerge merge;
  merge.begin(begin_of(1, 1));
  for (const Record& record :
       {Record(step_row(0)), Record(ValidationRow{0, 1, 1}), Record(PeerRow{0, 0, 0}),
        Record(EventRow{}), Record(ThroughputRow{}), Record(GoodputRow{})}) {
    ASSERT_TRUE(merge.add(record).ok());
  }
  ASSERT_EQ(rows_in(merge), 6u);
  merge.begin(begin_of(3, 3));
  EXPECT_EQ(rows_in(merge), 0u);
  StepRow other = step_row(0);
  other.loss += 1;
  EXPECT_TRUE(merge.add(other).ok()) << "nothing is there that it could contradict";
}

// It read the end of term 1 before the row of step 0 was there, and will not store it again.
TEST(JournalMerge, KeepsRowsOfItsStartWhenASuccessorSawNone) {
  JournalMerge merge;
  merge.begin(begin_of(1, 1));
  ASSERT_TRUE(merge.add(step_row(0)).ok());
  merge.begin(begin_of(2, 1));
  ASSERT_TRUE(merge.add(step_row(1)).ok());
  EXPECT_EQ(merge.count<StepRow>(), 2u);
}

TEST(JournalMerge, NamesTheStepsThatHaveNoRow) {
  JournalMerge merge;
  merge.begin(begin_of(1, 1));
  EXPECT_EQ(missing_steps(merge, 2), "0 to 2");
  for (const std::int64_t step : {1, 2, 4, 7}) ASSERT_TRUE(merge.add(step_row(step)).ok());
  EXPECT_EQ(missing_steps(merge, 6), "0, 3, 5 to 6");
  EXPECT_EQ(missing_steps(merge, 9), "0, 3, 5 to 6, 8 to 9");
  for (const std::int64_t step : {0, 3, 5, 6}) ASSERT_TRUE(merge.add(step_row(step)).ok());
  EXPECT_EQ(missing_steps(merge, 7), "");
  EXPECT_EQ(missing_steps(merge, 5), "") << "an earlier start had more steps";
}

TEST(JournalFollower, ReadsOnWhereItWasAndSeesNewTerms) {
  const TestFolder folder;
  JournalFollower follower(folder.path(), folder.path());
  const auto rows = [&follower] {
    EXPECT_TRUE(follower.read_on(1e9).value());
    return follower.merge().count<StepRow>();
  };
  EXPECT_EQ(rows(), 0u);
  JournalBegin begin;
  begin.term = 1;
  const auto first = JournalWriter::create(folder.path(), begin).value();
  for (std::int64_t step = 0; step < 20'000; ++step)
    ASSERT_TRUE(first->append(step_row(step)).ok());
  EXPECT_EQ(rows(), 20'000u);
  ASSERT_TRUE(first->append(step_row(20'000)).ok());
  EXPECT_EQ(rows(), 20'001u);
  begin.term = 2;
  begin.from_step = 20'000;
  const auto second = JournalWriter::create(folder.path(), begin).value();
  ASSERT_TRUE(second->append(step_row(20'001)).ok());
  EXPECT_EQ(rows(), 20'002u);
  EXPECT_EQ(follower.last().term, 2);
}

// A leader that was taken for dead has synced rows, and shown them.
TEST(JournalFollower, KnowsWhereAnEarlierTermHasGotRowsSince) {
  const TestFolder folder;
  JournalBegin begin;
  begin.term = 1;
  const auto first = JournalWriter::create(folder.path(), begin).value();
  ASSERT_TRUE(first->append(step_row(0)).ok());
  begin.term = 2;
  begin.from_step = 0;
  const auto second = JournalWriter::create(folder.path(), begin).value();
  JournalFollower follower(folder.path());
  ASSERT_TRUE(follower.read_on(1e9).value());
  EXPECT_FALSE(follower.missed_rows());
  ASSERT_TRUE(second->append(step_row(1)).ok());
  EXPECT_FALSE(follower.missed_rows());
  ASSERT_TRUE(first->append(step_row(1)).ok());
  EXPECT_TRUE(follower.missed_rows());
}

// ---- The ends of files

JournalEnd end_of(const std::string& folder) {
  const Result<JournalEnd> end = read_journal_end(folder);
  EXPECT_TRUE(end.ok()) << end.status().message();
  return end.ok() ? end.value() : JournalEnd();
}

TEST(JournalEnd, IsThatOfTheNewestFileWithSteps) {
  const TestFolder folder;
  EXPECT_EQ(end_of(folder / "none").last_step, -1);
  JournalBegin begin;
  begin.term = 1;
  begin.origin.deck = std::string(200'000, 'x');
  const auto first = JournalWriter::create(folder.path(), begin).value();
  EXPECT_EQ(end_of(folder.path()).last_step, -1);
  for (std::int64_t step = 0; step < 3000; ++step) {
    ASSERT_TRUE(first->append(step_row(step)).ok());
    if (step % 10 == 0) {
      ASSERT_TRUE(first->sync().ok());
    }
  }
  for (std::int64_t peer = 0; peer < 3000; ++peer) {
    ASSERT_TRUE(first->append(PeerRow{2999, peer, 0}).ok());
  }
  EXPECT_EQ(end_of(folder.path()).last_step, 2999);
  begin.term = 2;
  begin.origin.hosts = "b";
  const auto second = JournalWriter::create(folder.path(), begin).value();
  EXPECT_EQ(end_of(folder.path()).last_step, 2999);
  EXPECT_EQ(end_of(folder.path()).last.origin.hosts, "b");
  ASSERT_TRUE(second->append(step_row(17)).ok());
  EXPECT_EQ(end_of(folder.path()).last_step, 17);
  EXPECT_EQ(end_of(folder.path()).highest_term, 2);
}

TEST(JournalEnd, HasNoRowsOfEarlierStartsWhenTheRunBeginsAgain) {
  const TestFolder folder;
  const auto first = JournalWriter::create(folder.path(), begin_of(1, 1)).value();
  ASSERT_TRUE(first->append(step_row(8)).ok());
  JournalWriter::create(folder.path(), begin_of(2, 2)).value();
  EXPECT_EQ(end_of(folder.path()).last_step, -1);
  JournalWriter::create(folder.path(), begin_of(3, 2)).value();
  EXPECT_EQ(end_of(folder.path()).last_step, -1);
  JournalWriter::create(folder.path(), begin_of(4, 4, 5)).value();
  EXPECT_EQ(end_of(folder.path()).last_step, -1) << "those of its checkpoint are not here, either";
}

TEST(JournalEnd, TellsASuccessionFromAResumedRun) {
  const TestFolder folder;
  const auto start = [&] {
    return step_of_start(folder.path(), end_of(folder.path()).last).value();
  };
  JournalWriter::create(folder.path(), begin_of(1, 1)).value();
  JournalWriter::create(folder.path(), begin_of(2, 1, 18)).value();
  EXPECT_EQ(start(), -1) << "the leader died after step 18";
  JournalWriter::create(folder.path(), begin_of(3, 3, 12)).value();
  JournalWriter::create(folder.path(), begin_of(4, 3, 20)).value();
  EXPECT_EQ(start(), 12);
  std::ofstream(folder / "term-5") << "";  // its leader died as it created it
  JournalWriter::create(folder.path(), begin_of(6, 5, 14)).value();
  JournalWriter::create(folder.path(), begin_of(7, 5, 15)).value();
  EXPECT_EQ(start(), 14);
  JournalWriter::create(folder.path(), begin_of(8, 0, 16)).value();
  EXPECT_EQ(start(), 16) << "an earlier version does not say to which start it belongs";
}

TEST(JournalTerms, TheHighestIsThatOfAllThatNamesOne) {
  const TestFolder folder;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
    return highest_named_term(folder.path());
  };
  EXPECT_EQ(highest_named_term(folder / "none"), 0);
  EXPECT_EQ(write("over-1", "term 2\n"), 2);
  EXPECT_EQ(write("proof-3", ""), 3);
  EXPECT_EQ(write("over-2", ""), 3);
  EXPECT_EQ(write("proof-1", "term 5\n"), 5);
  EXPECT_EQ(write("term-4", ""), 5);
  EXPECT_EQ(write("complete", "term 6\n"), 6);
  EXPECT_EQ(write("ended", "run 7 term 7 status 3\nsomebody asked\n"), 7);
  for (const char* name : {"over-09", "term--10", "over-9999999999999999999", "term-10.old"}) {
    EXPECT_EQ(write(name, "term 1"), 7) << name;
  }
  EXPECT_EQ(write("over-6", "term 9223372036854775807\n"), 7) << "nobody has led so often";
}

// By calls of the file system: of a run that is thirty times as long no more is read.
TEST(JournalEnd, IsFoundWithoutALookAtTheRowsBefore) {
  const auto calls_of = [](std::int64_t steps) {
    const TestFolder folder;
    JournalBegin begin;
    begin.term = 1;
    const auto writer = JournalWriter::create(folder.path(), begin).value();
    for (std::int64_t step = 0; step < steps; ++step) {
      EXPECT_TRUE(writer->append(step_row(step)).ok());
      if (step % 10 == 0) {
        EXPECT_TRUE(writer->sync().ok());
      }
    }
    FileCalls calls;
    calls.begin("looking for the end");
    EXPECT_EQ(end_of(folder.path()).last_step, steps - 1);
    calls.end();
    return calls.progress().calls;
  };
  EXPECT_EQ(calls_of(30'000), calls_of(1'000));
}

// Each cut, and each byte of the last burst damaged: the same as by reading all of it.
TEST(JournalEnd, AgreesWithAWholeReadWhateverACrashHasLeft) {
  const TestFolder folder;
  JournalBegin begin;
  begin.term = 1;
  std::string whole = encode(begin);
  for (std::uint64_t step = 0; step < 1200; ++step) {
    whole += encode(Record(step_row(static_cast<std::int64_t>(step))), step + 1 - step % 4);
  }
  const std::string path = folder / "term-1";
  const auto check = [&](const std::string& bytes, std::size_t at) {
    ASSERT_TRUE(write_file_durably(path, bytes).ok());
    const Result<JournalContent> read = read_journal(folder.path());
    ASSERT_TRUE(read.ok()) << at << ": " << read.status().message();
    const auto& steps = read.value().history.steps;
    EXPECT_EQ(end_of(folder.path()).last_step, steps.empty() ? -1 : steps.back().step) << at;
  };
  const std::size_t row_bytes = encode(Record(step_row(0)), 0).size();
  for (std::size_t at = whole.size() - 6 * row_bytes; at <= whole.size(); at += 7) {
    check(whole.substr(0, at), at);
  }
  for (std::size_t at = whole.size() - 3 * row_bytes; at < whole.size(); at += 5) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    check(damaged, at);
  }
}

}  // namespace
}  // namespace swarmpi::merge_test
