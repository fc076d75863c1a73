#include "io/journal/journal.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "io/files.hpp"
#include "io/journal/format.hpp"
#include "io/test_support.hpp"

namespace swarmpi::journal_test {
namespace {

JournalBegin begin_of(std::int64_t term, std::int64_t from_step = -1) {
  JournalBegin begin;
  begin.term = term;
  begin.incarnation = 4;
  begin.from_step = from_step;
  begin.origin.deck = "[train]\nsteps = 10\n";
  begin.origin.seed = "7";
  begin.origin.version = "0.1.0";
  begin.origin.build = "g++";
  begin.origin.fingerprint = "00ff";
  begin.origin.hosts = "here";
  return begin;
}

StepRow remade(std::int64_t step, std::int64_t term) {
  StepRow row = step_row(step);
  row.term = term;
  row.time_s += 100;
  row.incarnation = 9;
  return row;
}

/// Writes a term file and closes it.
void write_term(const std::string& folder, const JournalBegin& begin,
                const std::vector<Record>& records) {
  auto writer = JournalWriter::create(folder, begin);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_NE(writer.value(), nullptr);
  for (const Record& record : records) {
    ASSERT_TRUE(writer.value()->append(record).ok());
    ASSERT_TRUE(writer.value()->sync().ok());
  }
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<std::int64_t> steps_of(const History& history) {
  std::vector<std::int64_t> steps;
  for (const StepRow& row : history.steps) steps.push_back(row.step);
  return steps;
}

std::string failure(const std::string& folder) {
  const Result<JournalContent> read = read_journal(folder);
  EXPECT_FALSE(read.ok());
  if (read.ok()) return "";
  EXPECT_EQ(read.status().code(), ExitStatus::no);
  return read.status().message();
}

using Steps = std::vector<std::int64_t>;

TEST(Journal, WhatWasAppendedIsRead) {
  const TestFolder folder;
  const History rows = sample_history(3);
  std::vector<Record> records(rows.steps.begin(), rows.steps.end());
  records.insert(records.end(), rows.validation.begin(), rows.validation.end());
  records.insert(records.end(), rows.peers.begin(), rows.peers.end());
  records.insert(records.end(), rows.events.begin(), rows.events.end());
  records.insert(records.end(), rows.throughput.begin(), rows.throughput.end());
  records.insert(records.end(), rows.goodput.begin(), rows.goodput.end());
  write_term(folder / "j", begin_of(3), records);

  const JournalContent read = read_journal(folder / "j").value();
  EXPECT_EQ(read.highest_term, 3);
  EXPECT_EQ(read.last.term, 3);
  EXPECT_EQ(read.last.incarnation, 4);
  EXPECT_EQ(read.last.origin.deck, begin_of(3).origin.deck);
  EXPECT_EQ(read.last.origin.hosts, "here");
  EXPECT_TRUE(read.last.must_agree);
  EXPECT_FALSE(read.complete);
  std::vector<Record> found(read.history.steps.begin(), read.history.steps.end());
  const History& h = read.history;
  found.insert(found.end(), h.validation.begin(), h.validation.end());
  found.insert(found.end(), h.peers.begin(), h.peers.end());
  found.insert(found.end(), h.events.begin(), h.events.end());
  found.insert(found.end(), h.throughput.begin(), h.throughput.end());
  found.insert(found.end(), h.goodput.begin(), h.goodput.end());
  ASSERT_EQ(found.size(), records.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(payload_of(found[i]), payload_of(records[i])) << i;
  }
}

TEST(Journal, ATermBelongsToWhoCreatesItFirst) {
  const TestFolder folder;
  const auto first = JournalWriter::create(folder / "j", begin_of(1));
  ASSERT_TRUE(first.ok() && first.value() != nullptr);
  const auto second = JournalWriter::create(folder / "j", begin_of(1));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value(), nullptr);
}

TEST(Journal, NoFolderIsAnEmptyJournal) {
  const TestFolder folder;
  EXPECT_EQ(highest_term(folder / "none"), 0);
  const Result<JournalContent> read = read_journal(folder / "none");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().highest_term, 0);
  EXPECT_TRUE(read.value().history.steps.empty());
}

TEST(Journal, CutAnywhereItKeepsAllWholeRecordsBefore) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1),
             {step_row(0), EventRow{1, 0, EventKind::skip, 0, 0, 0, "why"}, step_row(1)});
  const std::string file = folder / "j/term-1";
  const std::string whole = read_file(file).value();
  std::vector<std::size_t> ends = {encode(begin_of(1)).size()};
  for (const Record& record :
       {Record(step_row(0)), Record(EventRow{1, 0, EventKind::skip, 0, 0, 0, "why"}),
        Record(step_row(1))}) {
    ends.push_back(ends.back() + encode(record, 0).size());
  }
  ASSERT_EQ(ends.back(), whole.size());
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_bytes(file, whole.substr(0, size));
    const Result<JournalContent> read = read_journal(folder / "j");
    ASSERT_TRUE(read.ok()) << size << ": " << read.status().message();
    const History& history = read.value().history;
    EXPECT_EQ(read.value().highest_term, 1);
    EXPECT_EQ(read.value().last.term, size >= ends[0] ? 1 : 0);
    EXPECT_EQ(
        history.steps.size() + history.events.size(),
        (size >= ends[1] ? 1u : 0u) + (size >= ends[2] ? 1u : 0u) + (size >= ends[3] ? 1u : 0u))
        << size;
  }
}

TEST(Journal, ADamagedByteIsNoticedUnlessItIsInTheUnsyncedTail) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1), step_row(2)});
  const std::string file = folder / "j/term-1";
  const std::string whole = read_file(file).value();
  const std::size_t last = whole.size() - encode(Record(step_row(2)), 0).size();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_bytes(file, damaged);
    const Result<JournalContent> read = read_journal(folder / "j");
    EXPECT_EQ(read.ok(), at >= last) << at;
    if (!read.ok()) continue;
    EXPECT_EQ(steps_of(read.value().history), (Steps{0, 1})) << at;
  }
}

TEST(Journal, APowerLossMayLoseAnyOfTheRecordsThatWereNotSynced) {
  const TestFolder folder;
  const std::string synced = encode(begin_of(1)) + encode(Record(step_row(0)), 1);
  const std::string lost(encode(Record(step_row(1)), 2).size(), '\0');
  ASSERT_TRUE(std::filesystem::create_directory(folder / "j"));
  write_bytes(folder / "j/term-1", synced + lost + encode(Record(step_row(2)), 2));
  EXPECT_EQ(steps_of(read_journal(folder / "j").value().history), Steps{0});
  // The same hole is damage once a later record knows that the lost one was durable.
  write_bytes(folder / "j/term-1", synced + lost + encode(Record(step_row(2)), 3));
  EXPECT_NE(failure(folder / "j").find("damaged"), std::string::npos);
}

TEST(Journal, NamesATermThatIsNoFile) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  const std::string term = folder / "j/term-2";
  const auto expect_refused = [&](const Status& status, const std::string& what) {
    EXPECT_EQ(status.message(), "cannot read " + term + ": it is a " + what + ", not a file");
  };
  ASSERT_EQ(::mkfifo(term.c_str(), 0600), 0);
  expect_refused(read_journal(folder / "j").status(), "pipe");
  expect_refused(read_journal_end(folder / "j").status(), "pipe");
  EXPECT_FALSE(is_being_written(folder / "j"));
  std::filesystem::remove(term);
  std::filesystem::create_symlink("/dev/zero", term);
  expect_refused(read_journal(folder / "j").status(), "device");
  expect_refused(read_journal_end(folder / "j").status(), "device");
}

// As after a power loss on a file system that keeps sizes but not contents.
TEST(Journal, ReadsALongTornEndInLittleMemory) {
  constexpr std::int64_t kEnd = std::int64_t{1} << 30;
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1)});
  std::filesystem::resize_file(folder / "j/term-1", kEnd);
  const auto peak_kib = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
  };
  const auto before = peak_kib();
  const JournalEnd end = read_journal_end(folder / "j").value();
  EXPECT_EQ(end.last_step, 1);
  EXPECT_EQ(end.last.term, 1);
  EXPECT_EQ(steps_of(read_journal(folder / "j").value().history), (Steps{0, 1}));
  EXPECT_LT(peak_kib() - before, 300 << 10);
  // A record at the end shows that one in the break was durable.
  std::ofstream(folder / "j/term-1", std::ios::binary | std::ios::app)
      << encode(Record(step_row(9)), 4);
  EXPECT_NE(failure(folder / "j").find("damaged"), std::string::npos);
}

TEST(Journal, ForeignFilesAndOtherVersionsAreRefused) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  write_bytes(folder / "j/notes.txt", "passed over");
  ASSERT_TRUE(read_journal(folder / "j").ok());
  const std::string other = folder / "j/term-2";
  for (const char* foreign : {"dear diary\n", "SWJ and so on"}) {
    write_bytes(other, foreign);
    const Status status = read_journal(folder / "j").status();
    EXPECT_EQ(status.code(), ExitStatus::bad_input);
    EXPECT_NE(status.message().find(other + " is not a journal"), std::string::npos);
  }
  write_bytes(other, "SWJ9 and so on");
  expect_names_version(read_journal(folder / "j").status(), other, 9, kJournalFormat);
  write_bytes(other, "SWJ1 and so on");
  const std::string why = read_journal(folder / "j").status().message();
  EXPECT_NE(why.find("version 1 of its format"), std::string::npos) << why;
  EXPECT_EQ(why.find("newer"), std::string::npos) << why;
  write_bytes(folder / "j/term-2", read_file(folder / "j/term-1").value());
  EXPECT_NE(failure(folder / "j").find("renamed"), std::string::npos);
}

TEST(Journal, ATermThatNeverBeganCountsOnlyForTheNumber) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  write_bytes(folder / "j/term-12", "");
  write_bytes(folder / "j/term-9", "SWJ");
  EXPECT_EQ(highest_term(folder / "j"), 12);
  const JournalContent read = read_journal(folder / "j").value();
  EXPECT_EQ(read.highest_term, 12);
  EXPECT_EQ(read.last.term, 1);
  EXPECT_EQ(steps_of(read.history), Steps{0});
}

TEST(JournalMerge, TheLaterTermCountsWhereBothMadeARow) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1), step_row(2)});
  write_term(folder / "j", begin_of(2, 0), {remade(1, 2)});
  const History history = read_journal(folder / "j").value().history;
  ASSERT_EQ(steps_of(history), (Steps{0, 1, 2}));
  EXPECT_EQ(history.steps[0].term, 1);
  EXPECT_EQ(history.steps[1].term, 2);
  EXPECT_EQ(history.steps[1].time_s, remade(1, 2).time_s);
  EXPECT_EQ(history.steps[2].term, 1) << "stays until it is made again";
}

TEST(JournalMerge, ARowThatIsMadeAgainMustAgreeBitForBit) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(7)});
  StepRow other = remade(7, 2);
  other.loss = std::nextafter(other.loss, 10);
  write_term(folder / "j", begin_of(2, 0), {other});
  const std::string why = failure(folder / "j");
  EXPECT_NE(why.find("step 7 has loss"), std::string::npos) << why;
  EXPECT_NE(why.find("term 1"), std::string::npos) << why;
}

TEST(JournalMerge, NaNAgreesWithItselfOnly) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  write_term(folder / "j", begin_of(2), {remade(0, 2)});
  EXPECT_TRUE(read_journal(folder / "j").ok());
  StepRow other = remade(0, 3);
  other.grad_norm = std::bit_cast<double>(std::bit_cast<std::uint64_t>(other.grad_norm) + 1);
  write_term(folder / "j", begin_of(3), {other});
  EXPECT_NE(failure(folder / "j").find("grad_norm"), std::string::npos);
}

TEST(JournalMerge, ValidationMustAgreeToo) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {ValidationRow{5, 2.5, 1}});
  write_term(folder / "j", begin_of(2), {ValidationRow{5, 2.5, 9}});
  EXPECT_EQ(read_journal(folder / "j").value().history.validation.at(0).time_s, 9);
  write_term(folder / "j", begin_of(3), {ValidationRow{5, 2.25, 9}});
  EXPECT_NE(failure(folder / "j").find("validation after step 5"), std::string::npos);
}

TEST(JournalMerge, AChangedScheduleReplacesWhatCameAfterTheCheckpoint) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1),
             {step_row(0), step_row(1), step_row(2), ValidationRow{2, 1, 0}, PeerRow{2, 0, 0},
              EventRow{0.2, 1, EventKind::commit, 0, 0, 0, ""},
              EventRow{0.5, 2, EventKind::kill, 0, 0, 0, ""}, ThroughputRow{0.25, 1, 1},
              ThroughputRow{0.5, 1, 1}});
  JournalBegin changed = begin_of(2, 1);
  changed.must_agree = false;
  StepRow other = remade(2, 2);
  other.lr = 5;
  write_term(folder / "j", changed, {});
  const History before = read_journal(folder / "j").value().history;
  EXPECT_EQ(steps_of(before), (Steps{0, 1}));
  EXPECT_TRUE(before.validation.empty());
  EXPECT_TRUE(before.peers.empty());
  EXPECT_EQ(before.events.size(), 1u);
  EXPECT_EQ(before.throughput.size(), 1u);
  changed.term = 3;
  write_term(folder / "j", changed, {other});
  EXPECT_EQ(read_journal(folder / "j").value().history.steps.at(2).lr, 5);
}

TEST(Journal, AWriterIsKnownWhileItLives) {
  const TestFolder folder;
  EXPECT_FALSE(is_being_written(folder / "j"));
  {
    auto writer = JournalWriter::create(folder / "j", begin_of(1));
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE(is_being_written(folder / "j"));
  }
  EXPECT_FALSE(is_being_written(folder / "j"));
}

// A run of one step validates its last weights; resumed for more steps, only every second is
// validated.
TEST(JournalMerge, ALongerRunDropsTheLastValidationOfTheShorterOne) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1),
             {step_row(0), ValidationRow{0, 3, 0}, step_row(1), ValidationRow{1, 2, 0}});
  write_term(folder / "j", begin_of(2, 1), {});
  EXPECT_EQ(read_journal(folder / "j").value().history.validation.size(), 2u);
  write_term(folder / "j", begin_of(3, 1), {step_row(2), step_row(3), ValidationRow{2, 1, 0}});
  const auto validation = read_journal(folder / "j").value().history.validation;
  ASSERT_EQ(validation.size(), 2u);
  EXPECT_EQ(validation[0].step, 0);
  EXPECT_EQ(validation[1].step, 2);
}

TEST(JournalMerge, HistoryThatACheckpointCarriesIsNotCountedTwice) {
  const TestFolder folder;
  const EventRow commit{0.25, 1, EventKind::commit, 0, 0, 0, ""},
      kill{0.75, 3, EventKind::kill, 0, 0, 0, ""};
  const EventRow resume{0.5, 1, EventKind::resume, 0, 0, 0, "from step-1"};
  const ThroughputRow rate{0.25, 100, 1};
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1), commit, rate, kill});
  JournalBegin carrying = begin_of(2, 1);
  carrying.carries_history = true;
  write_term(folder / "j", carrying, {step_row(0), step_row(1), commit, rate, resume, resume});
  const History history = read_journal(folder / "j").value().history;
  EXPECT_EQ(steps_of(history), (Steps{0, 1}));
  EXPECT_EQ(history.throughput.size(), 1u);
  std::vector<EventKind> kinds;
  for (const EventRow& row : history.events) kinds.push_back(row.kind);
  EXPECT_EQ(kinds, (std::vector{EventKind::commit, EventKind::resume, EventKind::resume,
                                EventKind::kill}));
}

TEST(JournalMerge, APeersRowsAreOnePerStepPeerAndStage) {
  const TestFolder folder;
  PeerRow again{1, 0, 0};
  again.compute_s = 5;
  write_term(folder / "j", begin_of(1), {PeerRow{1, 0, 0}, PeerRow{1, 1, 0}, PeerRow{1, 0, 1}});
  write_term(folder / "j", begin_of(2), {again});
  const History history = read_journal(folder / "j").value().history;
  ASSERT_EQ(history.peers.size(), 3u);
  EXPECT_EQ(history.peers[0].compute_s, 5);
}

GoodputRow goodput(std::int64_t step, std::int64_t peer, double useful_s) {
  GoodputRow row;
  row.step = step;
  row.peer = peer;
  row.useful_s = useful_s;
  row.idle_s = 1;
  row.run = 1;
  return row;
}

TEST(JournalMerge, APeersTimeInAStepIsToldAgainByTheNextLeader) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1), goodput(1, 0, 5)});
  write_term(folder / "j", begin_of(2, 1), {goodput(1, 0, 5), goodput(1, 1, 6)});
  const History history = read_journal(folder / "j").value().history;
  ASSERT_EQ(history.goodput.size(), 2u);
  EXPECT_EQ(history.goodput[0].useful_s, 5);
  EXPECT_EQ(history.goodput[1].useful_s, 6);
}

// What was spent on steps that are made again was spent, but nothing has come of it.
TEST(JournalMerge, TheTimeOfStepsThatAreMadeAgainWasForNothing) {
  const TestFolder folder;
  GoodputRow again = goodput(2, 0, 7);
  again.incarnation = 1;
  GoodputRow resumed = goodput(2, 0, 8);
  resumed.run = 2;
  const EventRow back{1, 1, EventKind::incarnation, -1, -1, 0, "a stage was lost"};
  write_term(folder / "j", begin_of(1),
             {step_row(1), goodput(1, 0, 5), step_row(2), goodput(2, 0, 6), back, again});
  History history = read_journal(folder / "j").value().history;
  ASSERT_EQ(history.goodput.size(), 3u);
  EXPECT_EQ(history.goodput[0].useful_s, 5);
  EXPECT_EQ(history.goodput[1].useful_s, 0);
  EXPECT_EQ(history.goodput[1].repeated_s, 6);
  EXPECT_EQ(history.goodput[2].useful_s, 7);
  write_term(folder / "j", begin_of(2, 1), {remade(2, 2), resumed});
  history = read_journal(folder / "j").value().history;
  ASSERT_EQ(history.goodput.size(), 4u);
  EXPECT_EQ(history.goodput[0].useful_s, 5);
  EXPECT_EQ(history.goodput[2].repeated_s, 7);
  EXPECT_EQ(history.goodput[3].useful_s, 8);
}

TEST(Journal, AFullDiskStopsItForGoodAndLosesNothingThatWasSynced) {
  const TestFolder folder;
  auto writer = JournalWriter::create(folder / "j", begin_of(1)).value();
  ASSERT_TRUE(writer->append(step_row(0)).ok());
  ASSERT_TRUE(writer->sync().ok());
  Status status;
  {
    const SmallDisk disk(std::filesystem::file_size(folder / "j/term-1") + 50);
    status = writer->append(step_row(1));
  }
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_NE(status.message().find("term-1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("no room"), std::string::npos) << status.message();
  EXPECT_FALSE(writer->append(step_row(1)).ok()) << "its end is torn: nothing may follow";
  EXPECT_FALSE(writer->sync().ok());
  EXPECT_EQ(steps_of(read_journal(folder / "j").value().history), Steps{0});
}

TEST(Journal, TheCompletionMarkHoldsUntilTheRunGoesOn) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  ASSERT_TRUE(mark_complete(folder / "j", 1).ok());
  EXPECT_TRUE(read_journal(folder / "j").value().complete);
  EXPECT_TRUE(std::filesystem::exists(folder / "j/complete"));
  write_term(folder / "j", begin_of(2, 0), {step_row(1)});
  EXPECT_FALSE(read_journal(folder / "j").value().complete);
  EXPECT_FALSE(std::filesystem::exists(folder / "j/complete")) << "scripts look for it";
}

TEST(Journal, AMarkThatComesAfterALaterTermIsVoid) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0)});
  write_term(folder / "j", begin_of(2, 0), {step_row(1)});
  ASSERT_TRUE(mark_complete(folder / "j", 1).ok());
  EXPECT_FALSE(read_journal(folder / "j").value().complete);
  ASSERT_TRUE(mark_complete(folder / "j", 2).ok());
  EXPECT_TRUE(read_journal(folder / "j").value().complete);
}

TEST(Journal, KeepsHowTheNewestRunHasEnded) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {});
  EXPECT_FALSE(read_end(folder / "j"));
  ASSERT_TRUE(mark_ended(folder / "j", {1, 1, ExitStatus::good, ""}).ok());
  ASSERT_TRUE(mark_ended(folder / "j", {2, 4, ExitStatus::stopped, "somebody asked"}).ok());
  const std::optional<RunEnd> end = read_end(folder / "j");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first_term, 2);
  EXPECT_EQ(end->term, 4);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_EQ(end->why, "somebody asked");
}

TEST(Journal, AMarkOfTheEndWithAnotherWordIsNone) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "j");
  const std::string mark = "run 2 term 4 status 3\nsomebody asked\n";
  write_bytes(folder / "j/ended", mark);
  EXPECT_TRUE(read_end(folder / "j"));
  for (const char* word : {"run", "term", "status"}) {
    std::string other = mark;
    other.replace(other.find(word), 1, "X");
    write_bytes(folder / "j/ended", other);
    EXPECT_FALSE(read_end(folder / "j")) << other;
  }
}

TEST(Journal, ACompleteRunWithoutItsEndIsDamaged) {
  const TestFolder folder;
  write_term(folder / "j", begin_of(1), {step_row(0), step_row(1)});
  ASSERT_TRUE(mark_complete(folder / "j", 1).ok());
  const std::string whole = read_file(folder / "j/term-1").value();
  write_bytes(folder / "j/term-1", whole.substr(0, whole.size() - 1));
  EXPECT_NE(failure(folder / "j").find("damaged"), std::string::npos);
}

// A successor whose disk hung as it began its term, while a later one came to the run's end.
TEST(Journal, WhoBeginsATermLateLeavesTheMarkOfALaterOne) {
  const TestFolder folder;
  JournalBegin begin;
  begin.term = 3;
  ASSERT_TRUE(JournalWriter::create(folder / "j", begin).ok());
  ASSERT_TRUE(mark_complete(folder / "j", 3).ok());
  begin.term = 2;
  ASSERT_TRUE(JournalWriter::create(folder / "j", begin).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "j/complete"));
  begin.term = 4;
  ASSERT_TRUE(JournalWriter::create(folder / "j", begin).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "j/complete"));
}

}  // namespace
}  // namespace swarmpi::journal_test
