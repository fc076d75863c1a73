// Terms on real files: which process may lead, and until when what a leader stores counts.

#include "runtime/run_storage.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>

#include "io/hdf5/handle.hpp"
#include "io/journal/format.hpp"
#include "io/scratch_file.hpp"
#include "io/test_support.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "runtime/held_file_test.hpp"

namespace swarmpi::run_storage_test {
namespace {

// One process of a run.
class Writer {
 public:
  Writer(const std::string& folder, std::int64_t first_term,
         std::optional<std::string> resumed_from = {}, const std::string& hosts = "",
         std::vector<std::string> shared_files = {}, double suspect_after_s = 3,
         double publish_every_s = 30, bool carries = false,
         std::unique_ptr<Clock> clock = std::make_unique<WallClock>(), std::int64_t last_step = 0)
      : clock_(std::move(clock)),
        storage_(plan(folder, first_term, std::move(resumed_from), hosts, std::move(shared_files),
                      suspect_after_s, publish_every_s, carries, last_step),
                 stages_, *clock_, inbox_) {}

  void take(auto action) { storage_.take(std::move(action)); }
  template <class Answer>
  Answer answer_to(auto action) {
    take(std::move(action));
    return next<Answer>();
  }
  template <class Answer>
  Answer next() {
    while (true) {
      if (const std::optional<Event> event = inbox_.take()) return get<Answer>(*event);
    }
  }

  RunStorage& storage() { return storage_; }

 private:
  static StoragePlan plan(const std::string& folder, std::int64_t first_term,
                          std::optional<std::string> resumed_from, const std::string& hosts,
                          std::vector<std::string> shared_files, double suspect_after_s,
                          double publish_every_s, bool carries, std::int64_t last_step) {
    StoragePlan plan;
    plan.last_step = last_step;
    if (carries) {
      plan.carried = Checkpoint::open(*resumed_from).value();
      plan.begin.carries_history = true;
      plan.begin.from_step = plan.carried->head().state.step;
    }
    plan.suspect_after_s = suspect_after_s;
    plan.publish_every_s = publish_every_s;
    plan.resumed_from = std::move(resumed_from);
    plan.begin.origin.hosts = hosts;
    plan.shared_files = std::move(shared_files);
    plan.run_file = folder + "/RUN.h5";
    plan.checkpoints = folder + "/checkpoints";
    plan.first_term = first_term;
    plan.tensors = 1;
    plan.part_patience_s = 0;
    return plan;
  }

  std::unique_ptr<Clock> clock_;
  Inbox inbox_;
  PayloadPool payloads_;
  JobExecutor stages_{PeerId(0), Config(), nullptr, payloads_, {}};
  RunStorage storage_;
};

TEST(RunStorage, ARunThatHasEndedHasNoFurtherLeaderButALaterRunMay) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  EXPECT_TRUE(leader.answer_to<TermCreated>(CreateTerm{Term(1)}).created);
  leader.answer_to<EndDurable>(StoreEnd{ExitStatus::stopped, "somebody asked"});

  const auto late = Writer(folder.path(), 1).answer_to<TermCreated>(CreateTerm{Term(2)});
  EXPECT_FALSE(late.created);
  ASSERT_TRUE(late.ended);
  EXPECT_EQ(late.ended->why, "somebody asked");

  EXPECT_TRUE(Writer(folder.path(), 2).answer_to<TermCreated>(CreateTerm{Term(2)}).created);
}

TEST(RunStorage, ALeaderCannotStoreOnceALaterTermExists) {
  const TestFolder folder;
  Writer first(folder.path(), 1);
  EXPECT_TRUE(first.answer_to<TermCreated>(CreateTerm{Term(1)}).created);
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
  Writer second(folder.path(), 1);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  const auto over = first.answer_to<TermOver>(StoreRecord{2, EventRow{}});
  EXPECT_EQ(over.term, Term(1));
  EXPECT_EQ(over.newest, Term(2));
  EXPECT_TRUE(first.answer_to<TermCreated>(CreateTerm{Term(3)}).created);
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
}

// The leader of term 1 is about to mark the run complete when it stands still: in the midst of
// opening a file of the journal.
TEST(RunStorage, ALeaderThatWakesAfterALaterTermMarksNoEnd) {
  const TestFolder folder;
  Writer first(folder.path(), 0);
  first.answer_to<TermCreated>(CreateTerm{Term(1)});
  first.answer_to<RecordDurable>(StoreRecord{1, step_row(0)});
  const HeldFile held(folder / "RUN.h5.journal/term-0");
  first.take(StoreEnd{ExitStatus::good, ""});
  const auto wait_until_it_stands = [](Writer& writer) {
    const auto running = [&] { return writer.storage().progress(Lane::run).running; };
    while (running().find("term-0") == std::string::npos) usleep(1000);
  };
  wait_until_it_stands(first);
  Writer second(folder.path(), 0);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  wait_until_it_stands(second);  // it reads the journal beside its work
  HeldFile::release();
  EXPECT_EQ(first.next<TermOver>().newest, Term(2));
  for (const char* file : {"RUN.h5", "RUN.h5.journal/complete", "RUN.h5.journal/ended"}) {
    EXPECT_FALSE(std::filesystem::exists(folder / file)) << file;
  }
}

// As where a host remembers an old listing of the folder.
TEST(RunStorage, ALeaderThatSeesNoLaterTermInAListingReplacesNothing) {
  const TestFolder folder;
  const auto hide = [&] {
    std::filesystem::rename(folder / "RUN.h5.journal/term-2", folder / "2");
  };
  Writer first(folder.path(), 1);
  first.answer_to<TermCreated>(CreateTerm{Term(1)});
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
  Writer second(folder.path(), 1);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  hide();
  const auto over = first.answer_to<TermOver>(StoreEnd{ExitStatus::good, ""});
  EXPECT_EQ(over.term, Term(1));
  EXPECT_EQ(over.newest, Term(2));
  for (const char* file : {"RUN.h5", "RUN.h5.journal/complete", "RUN.h5.journal/ended"}) {
    EXPECT_FALSE(std::filesystem::exists(folder / file)) << file;
  }
}

TEST(RunStorage, ALeaderThatStoodStillReportsNoRowsBeforeItHasProvenItsTerm) {
  const TestFolder folder;
  Writer first(folder.path(), 1, {}, "", {}, 0.05);
  first.answer_to<TermCreated>(CreateTerm{Term(1)});
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
  Writer second(folder.path(), 1);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  std::filesystem::rename(folder / "RUN.h5.journal/term-2", folder / "2");
  usleep(60000);
  EXPECT_EQ(first.answer_to<TermOver>(StoreRecord{2, EventRow{}}).newest, Term(2));
}

StepRow at_step(std::int64_t step) {
  StepRow row = step_row(step);
  row.time_s = static_cast<double>(step);
  return row;
}

// It had been taken for dead. Its rows were durable before it was told, so they count.
TEST(RunStorage, RowsThatAnEarlierLeaderHasSyncedLateAreInTheRunFile) {
  const TestFolder folder;
  Writer first(folder.path(), 1);
  first.answer_to<TermCreated>(CreateTerm{Term(1)});
  first.answer_to<RecordDurable>(StoreRecord{1, at_step(0)});
  Writer second(folder.path(), 1, {}, "", {}, 3, 0);
  second.answer_to<TermCreated>(CreateTerm{Term(2)});
  second.answer_to<RecordDurable>(StoreRecord{1, ValidationRow{0, 1, 1}});
  const std::string late = encode(Record(at_step(1)), 2);
  std::ofstream(folder / "RUN.h5.journal/term-1", std::ios::binary | std::ios::app) << late;
  second.answer_to<EndDurable>(StoreEnd{ExitStatus::good, ""});
  EXPECT_EQ(read_run_file(folder / "RUN.h5").value().history.steps.size(), 2u);
}

// Whatever has lost them: nothing but the mark tells scripts that the run has come to its end.
TEST(RunStorage, MarksNoRunCompleteWhenRowsAreMissing) {
  const TestFolder folder;
  Writer leader(folder.path(), 1, {}, "", {}, 3, 30, false, std::make_unique<WallClock>(), 5);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  std::int64_t number = 0;
  for (const std::int64_t step : {0, 3}) leader.take(StoreRecord{++number, at_step(step)});
  while (leader.next<RecordDurable>().number < number) continue;
  const auto failed = leader.answer_to<StorageFailed>(StoreEnd{ExitStatus::good, ""});
  EXPECT_EQ(failed.status.code(), ExitStatus::no);
  EXPECT_NE(failed.status.message().find("has no rows of steps 1 to 2, 4 to 5: "),
            std::string::npos)
      << failed.status.message();
  EXPECT_FALSE(std::filesystem::exists(folder / "RUN.h5.journal/complete"));
  const RunFile published = read_run_file(folder / "RUN.h5").value();
  EXPECT_FALSE(published.complete);
  EXPECT_EQ(published.verdict.rfind("invalid: ", 0), 0u) << published.verdict;
  EXPECT_EQ(read_end(folder / "RUN.h5.journal").value().code, ExitStatus::no)
      << "who would lead next ends likewise";
}

// The first start stored two rows, and wakes up as the second has begun again at step 0.
TEST(RunStorage, ARunThatBeginsAgainHasNoRowsOfAnEarlierStart) {
  const TestFolder folder;
  const std::string journal = folder / "RUN.h5.journal";
  Writer first(folder.path(), 1, {}, "", {}, 3, 0);
  first.answer_to<TermCreated>(CreateTerm{Term(1)});
  first.take(StoreRecord{1, at_step(0)});
  first.take(StoreRecord{2, at_step(1)});
  while (first.next<RecordDurable>().number < 2) continue;
  EXPECT_EQ(highest_named_term(journal), 1);
  // It publishes its rows right after it has said that they are durable.
  while (!std::filesystem::exists(folder / "RUN.h5")) usleep(1000);
  Writer second(folder.path(), 2);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  EXPECT_EQ(read_run_file(folder / "RUN.h5").value().history.steps.size(), 0u)
      << "it is open again";
  EXPECT_EQ(first.answer_to<TermOver>(StoreRecord{3, at_step(2)}).newest, Term(2));
  StepRow again = at_step(0);
  again.loss = 17;  // on another machine, for one
  second.answer_to<RecordDurable>(StoreRecord{1, again});
  second.answer_to<EndDurable>(StoreEnd{ExitStatus::good, ""});
  const RunFile published = read_run_file(folder / "RUN.h5").value();
  ASSERT_EQ(published.history.steps.size(), 1u);
  EXPECT_EQ(published.history.steps[0].loss, 17);
  EXPECT_EQ(payload_of(read_journal(journal).value().history.steps[0]), payload_of(Record(again)));
}

// Before each is written its writer may hang: one of an earlier start must not put it there later.
TEST(RunStorage, ANewTermRemovesWhatWritersOfAnEarlierStartWereAboutToRename) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "RUN.h5.journal");
  const std::vector<std::string> begun = {folder / ".RUN.h5.part-a-1-0",
                                          folder / "RUN.h5.journal/.complete.part-a-1-1",
                                          folder / "RUN.h5.journal/.ended.part-a-1-2"};
  for (const std::string& path : begun) std::ofstream(path) << "half";
  Writer(folder.path(), 1).answer_to<TermCreated>(CreateTerm{Term(1)});
  for (const std::string& path : begun) EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

TEST(RunStorage, OfAFastRunNotAllRowsOfPeersAreKept) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  std::int64_t number = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    StepRow row = step_row(step);
    row.time_s = 0.001 * static_cast<double>(step);
    leader.take(StoreRecord{++number, row});
    for (std::int64_t peer = 0; peer < 10; ++peer) {
      leader.take(StoreRecord{++number, PeerRow{step, peer, 0}});
    }
  }
  while (leader.next<RecordDurable>().number < number) continue;
  const History history = read_journal(folder / "RUN.h5.journal").value().history;
  EXPECT_EQ(history.steps.size(), 200u);
  EXPECT_NEAR(static_cast<double>(history.peers.size()), 333, 60) << "in 0.2 s";
}

TEST(RunStorage, RowsAreStoredWhileAnotherThreadIsInHdf5) {
  const TestFolder folder;
  Writer leader(folder.path(), 1, {}, "", {}, 3, 0);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  const Hdf5Session reads_a_stage_from_a_disk_that_hangs;
  leader.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
  leader.answer_to<RecordDurable>(StoreRecord{2, EventRow{}});
  EXPECT_FALSE(std::filesystem::exists(folder / "RUN.h5"));
}

// ---- Checkpoints. Their parts are written by hand: the model does not matter here.

struct Part {
  std::string name = "tensor";
  std::vector<float> values = std::vector<float>(6, 1.5f);

  StoredFile write(const std::string& folder, std::int64_t step, std::int64_t stage) {
    const TensorState tensor{name, 3, 2, {values.data()}, values.data(), values.data()};
    return write_stage_file(checkpoint_path(folder + "/checkpoints", step), stage, 1, 0, {tensor},
                            host_memory())
        .value();
  }
};

StoreManifest manifest_of(std::int64_t step, std::vector<StoredFile> files,
                          std::size_t exponents = 1) {
  StoreManifest manifest;
  manifest.state.step = step;
  manifest.state.exponents = {Exponents(exponents, 3)};
  manifest.files = std::move(files);
  return manifest;
}

// A leader that has written checkpoints of steps 4 and 8, of one stage each.
struct TwoCheckpoints {
  TwoCheckpoints() {
    leader.answer_to<TermCreated>(CreateTerm{Term(1)});
    for (const std::int64_t step : {4, 8}) {
      leader.answer_to<CheckpointDurable>(manifest_of(step, {part.write(folder.path(), step, 0)}));
    }
  }

  TestFolder folder;
  Part part;
  Writer leader{folder.path(), 1};
  std::string newest = folder / "checkpoints/step-8/";
  std::string file = "stage-0.term-1.peer-0.h5";
};

TEST(RunStorage, WithoutAPartThereIsNoManifestAndWithItThereIs) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  Part part;
  const std::vector<StoredFile> files = {part.write(folder.path(), 4, 0),
                                         part.write(folder.path(), 4, 1)};
  const std::string step = folder / "checkpoints/step-4/";
  std::filesystem::rename(step + files[1].name, folder / "elsewhere");
  const auto dropped = leader.answer_to<CheckpointDropped>(manifest_of(4, files));
  EXPECT_EQ(dropped.step, Step(4));
  EXPECT_EQ(dropped.part, 1);
  EXPECT_NE(dropped.why.find(step + files[1].name), std::string::npos) << dropped.why;
  EXPECT_FALSE(std::filesystem::exists(step + "manifest"));

  const std::vector<StoredFile> again = {part.write(folder.path(), 4, 0),
                                         part.write(folder.path(), 4, 1)};
  leader.answer_to<CheckpointDurable>(manifest_of(4, again));
  EXPECT_TRUE(std::filesystem::exists(step + "manifest"));
}

// As while a host does not see the folder of the others any more.
TEST(RunStorage, OfCheckpointsThatAreDroppedTheLastStaysAndNoneThatIsThereGoes) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  Part part;
  leader.answer_to<CheckpointDurable>(manifest_of(4, {part.write(folder.path(), 4, 0)}));
  for (std::int64_t step = 4; step < 14; ++step) {
    const StoredFile whole = part.write(folder.path(), step, 0);
    leader.answer_to<CheckpointDropped>(
        manifest_of(step, {whole, {.name = "stage-1.term-1.peer-1.h5", .size_bytes = 100}}));
  }
  leader.answer_to<EndDurable>(StoreEnd{ExitStatus::stopped, "so that all is done"});
  EXPECT_EQ(folder.entries("checkpoints"), 2u) << "of steps 4 and 13";
  EXPECT_TRUE(Checkpoint::open(folder / "checkpoints/step-4").ok());
}

TEST(RunStorage, GoingBackPassesADamagedCheckpointOverAndSetsItAside) {
  TwoCheckpoints scene;
  std::filesystem::remove(scene.newest + scene.file);
  const auto damaged = scene.leader.answer_to<CheckpointDamaged>(LoadManifest{});
  EXPECT_EQ(damaged.step, Step(8));
  EXPECT_NE(damaged.why.find(scene.file), std::string::npos) << damaged.why;
  EXPECT_EQ(scene.leader.next<ManifestLoaded>().checkpoint->state.step, 4);
  EXPECT_FALSE(std::filesystem::exists(scene.newest + "manifest"));
  EXPECT_EQ(scene.leader.answer_to<ManifestLoaded>(LoadManifest{}).checkpoint->state.step, 4);
}

// Its size and its end are as they were.
TEST(RunStorage, AFlippedBitIsFoundByWhoeverLoadsItAndByAGoingBackThatProves) {
  TwoCheckpoints scene;
  const std::string path = scene.newest + scene.file;
  std::string content = read_file(path).value();
  const std::string value(reinterpret_cast<const char*>(scene.part.values.data()), sizeof(float));
  content.at(content.find(value + value)) ^= 1;
  std::ofstream(path, std::ios::binary) << content;
  const auto manifest = scene.leader.answer_to<ManifestLoaded>(LoadManifest{});
  EXPECT_EQ(manifest.checkpoint->state.step, 8);
  Writer peer(scene.folder.path(), 1);
  const auto loaded = peer.answer_to<StageLoaded>(
      LoadStage{Incarnation(1), StageId(0), Step(8), manifest.checkpoint->files});
  EXPECT_NE(loaded.damage.find(scene.file + " is damaged"), std::string::npos) << loaded.damage;
  EXPECT_EQ(scene.leader.answer_to<CheckpointDamaged>(LoadManifest{true}).step, Step(8));
  EXPECT_EQ(scene.leader.next<ManifestLoaded>().checkpoint->state.step, 4);
}

// All goes on from the checkpoint of another folder, until there is one of its own.
TEST(RunStorage, DamageIsToldOfTheCheckpointThatTheRunWasResumedFrom) {
  const TestFolder folder;
  const TestFolder before;
  Part part;
  Writer earlier(before.path(), 1);
  earlier.answer_to<TermCreated>(CreateTerm{Term(1)});
  const StoredFile file = part.write(before.path(), 2, 0);
  earlier.answer_to<CheckpointDurable>(manifest_of(2, {file}));
  std::filesystem::resize_file(before / ("checkpoints/step-2/" + file.name), 10);
  Writer peer(folder.path(), 1, before / "checkpoints/step-2");
  const auto loaded =
      peer.answer_to<StageLoaded>(LoadStage{Incarnation(1), StageId(0), Step(2), {file}});
  EXPECT_NE(loaded.damage.find(file.name), std::string::npos) << loaded.damage;
}

// The leader has listed it, and then a part of it is cut off.
TEST(RunStorage, WhoeverIsToLoadAPartThatIsCutOffSaysThatTheCheckpointIsDamaged) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  Part part;
  leader.answer_to<CheckpointDurable>(manifest_of(4, {part.write(folder.path(), 4, 0)}));
  const std::string file = "stage-0.term-1.peer-0.h5";
  std::filesystem::resize_file(folder / ("checkpoints/step-4/" + file), 10);
  Writer peer(folder.path(), 1);
  const auto loaded =
      peer.answer_to<StageLoaded>(LoadStage{Incarnation(1), StageId(0), Step(4), {}});
  EXPECT_NE(loaded.damage.find(file), std::string::npos) << loaded.damage;
  ASSERT_TRUE(set_aside(folder / "checkpoints/step-4").ok());
  const LoadStage late{Incarnation(1), StageId(0), Step(4), {}};
  EXPECT_NE(peer.answer_to<StageLoaded>(late).damage, "") << "others have found it so before";
}

TEST(RunStorage, ALaneWhoseCallHangsIsGivenUpAndTellsNothingWhenItReturns) {
  const TestFolder folder;
  const std::string manifest = folder / "checkpoints/step-3/manifest";
  std::filesystem::create_directories(folder / "checkpoints/step-3");
  const HeldFile held(manifest);
  Writer leader(folder.path(), 1);
  RunStorage& storage = leader.storage();
  storage.take(LoadManifest{});
  while (storage.progress(Lane::run).running.empty()) usleep(1000);
  EXPECT_FALSE(storage.settle(0.05));
  EXPECT_NE(storage.progress(Lane::run).running, "");
  storage.abandon(Lane::run);
  EXPECT_FALSE(storage.settle(600)) << "it is known to hang: nothing is waited for";

  HeldFile::release();
  const auto created = leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  EXPECT_TRUE(created.created) << "the lane goes on, and what it was given up for is not told";
  EXPECT_TRUE(storage.settle(60));
}

// A second goes by from each look at it to the next. Whoever looks while it is held waits.
class HastyClock final : public Clock {
 public:
  double now_s() const override {
    while (held_) usleep(1000);
    return ++seconds_;
  }
  void hold(bool held) { held_ = held; }

 private:
  std::atomic<bool> held_ = false;
  mutable std::atomic<int> seconds_ = 0;
};

// As where the lane has always something else to do between them: a manifest, for one.
TEST(RunStorage, RowsThatComeWithoutAPauseAreSyncedFromTimeToTimeAllTheSame) {
  const TestFolder folder;
  auto hasty = std::make_unique<HastyClock>();
  HastyClock& clock = *hasty;
  Writer leader(folder.path(), 1, {}, "", {}, 1e9, 1e9, false, std::move(hasty));
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  clock.hold(true);
  for (const std::int64_t number : {1, 2, 3}) leader.take(StoreRecord{number, EventRow{}});
  clock.hold(false);
  for (std::int64_t number = 0, before = 0; number < 3; before = number) {
    number = leader.next<RecordDurable>().number;
    EXPECT_EQ(number, before + 1);
  }
}

TEST(RunStorage, WhatIsGoneByTheTimeOfALoadThatWasOvertakenEndsNothing) {
  const TestFolder folder;
  const std::string manifest = folder / "checkpoints/step-3/manifest";
  std::filesystem::create_directories(folder / "checkpoints/step-3");
  const HeldFile held(manifest);
  Writer peer(folder.path(), 1);
  peer.take(LoadStage{Incarnation(1), StageId(0), Step(3), {}});
  while (peer.storage().progress(Lane::stages).running.empty()) usleep(1000);
  peer.take(LoadStage{Incarnation(1), StageId(1), Step(3), {}});
  peer.take(LoadStage{Incarnation(2), StageId(0), Step(2), {}});
  std::filesystem::remove_all(folder / "checkpoints/step-3");
  HeldFile::release();
  EXPECT_EQ(peer.next<StageLoaded>().incarnation, Incarnation(1)) << "it hung, and then failed";
  EXPECT_EQ(peer.next<StageLoaded>().incarnation, Incarnation(1)) << "it was not begun";
  const std::string why = peer.next<StorageFailed>().status.message();
  EXPECT_NE(why.find("going back to step 2"), std::string::npos) << why;
}

// The run has gone on from a checkpoint of another folder, and all that it wrote since is damaged.
TEST(RunStorage, WhereAllOfItsOwnAreDamagedTheRunGoesBackToWhereItWasResumedFrom) {
  const TestFolder folder;
  const TestFolder before;
  Part part;
  Writer earlier(before.path(), 1);
  earlier.answer_to<TermCreated>(CreateTerm{Term(1)});
  earlier.answer_to<CheckpointDurable>(manifest_of(2, {part.write(before.path(), 2, 0)}));
  Writer leader(folder.path(), 1, before / "checkpoints/step-2");
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  leader.answer_to<CheckpointDurable>(manifest_of(8, {part.write(folder.path(), 8, 0)}));
  std::filesystem::resize_file(folder / "checkpoints/step-8/stage-0.term-1.peer-0.h5", 10);
  EXPECT_EQ(leader.answer_to<CheckpointDamaged>(LoadManifest{}).step, Step(8));
  EXPECT_EQ(leader.next<ManifestLoaded>().checkpoint->state.step, 2);
}

// A run that is resumed in another folder begins at row 0, for /peers at its first new step.
TEST(RunStorage, TheRowsOfTheCheckpointAreCarriedOverIntoANewJournal) {
  const TestFolder folder, before;
  Part part;
  Writer earlier(before.path(), 1);
  earlier.answer_to<TermCreated>(CreateTerm{Term(1)});
  std::int64_t number = 0;
  for (std::int64_t step = 0; step <= 6; ++step) {
    earlier.take(StoreRecord{++number, at_step(step)});
    earlier.take(StoreRecord{++number, PeerRow{step, 0, 0}});
  }
  while (earlier.next<RecordDurable>().number < number) continue;
  earlier.answer_to<CheckpointDurable>(manifest_of(4, {part.write(before.path(), 4, 0)}));
  Writer leader(folder.path(), 1, before / "checkpoints/step-4", "", {}, 3, 30, true);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  const RunFile run = read_run_file(folder / "RUN.h5").value();
  EXPECT_EQ(run.history.steps.size(), 5u);
  EXPECT_TRUE(run.history.peers.empty());
  EXPECT_EQ(run.verdict, "open");
}

TEST(RunStorage, TheHostsOfAllThatHaveLedAreNamed) {
  const TestFolder folder;
  Writer(folder.path(), 1, {}, "b a").answer_to<TermCreated>(CreateTerm{Term(1)});
  Writer(folder.path(), 1, {}, "a c").answer_to<TermCreated>(CreateTerm{Term(2)});
  Writer third(folder.path(), 1, {}, "a");
  third.answer_to<TermCreated>(CreateTerm{Term(3)});
  EXPECT_EQ(read_journal(folder / "RUN.h5.journal").value().last.origin.hosts, "a b c");
}

TEST(RunStorage, ALeaderRemovesTheScratchFilesOfKilledOnesAndItsOwn) {
  const TestFolder folder;
  const std::string left = folder / "RUN.h5.journal/.rows.part-elsewhere-1-0";
  {
    ASSERT_TRUE(create_folder(folder / "RUN.h5.journal").ok());
    ASSERT_TRUE(write_file_durably(left, "rows").ok());
    Writer leader(folder.path(), 1);
    leader.answer_to<TermCreated>(CreateTerm{Term(1)});
    leader.answer_to<EndDurable>(StoreEnd{ExitStatus::stopped, "somebody asked"});
    const auto removed = [&] { return !std::filesystem::exists(left); };
    for (int tries = 0; tries < 5000 && !removed(); ++tries) usleep(1000);
    EXPECT_TRUE(removed());
    EXPECT_EQ(ScratchFile::all_of(folder / "RUN.h5.journal/rows").size(), 1u) << "its own";
  }
  EXPECT_TRUE(ScratchFile::all_of(folder / "RUN.h5.journal/rows").empty());
}

TEST(RunStorage, WithTheEndOfTheRunTheFilesForNewcomersGo) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "shared", "").ok());
  Writer leader(folder.path(), 1, {}, "", {folder / "shared"});
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  EXPECT_TRUE(std::filesystem::exists(folder / "shared"));
  leader.answer_to<EndDurable>(StoreEnd{ExitStatus::stopped, "somebody asked"});
  EXPECT_FALSE(std::filesystem::exists(folder / "shared"));
}

TEST(RunStorage, ExponentsOfAnotherNumberOfTensorsAreRefused) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  Part part;
  leader.answer_to<CheckpointDurable>(manifest_of(4, {part.write(folder.path(), 4, 0)}, 2));
  const auto failed = leader.answer_to<StorageFailed>(LoadManifest{});
  EXPECT_EQ(failed.status.code(), ExitStatus::stopped);
  EXPECT_NE(failed.status.message().find("exponents of 2 tensors, the model has 1"),
            std::string::npos)
      << failed.status.message();
}

}  // namespace
}  // namespace swarmpi::run_storage_test
