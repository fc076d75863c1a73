// What was reported as written can be read after a SIGKILL at any moment.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <random>
#include <string_view>

#include "io/checkpoint/test_support.hpp"
#include "io/files.hpp"
#include "io/journal/journal.hpp"
#include "io/library_calls_test.hpp"
#include "io/run_file.hpp"
#include "io/test_support.hpp"

namespace swarmpi::crash_test {
namespace {

constexpr int kKills = 25;

/// Tells the parent that everything up to `number` is durable.
using Report = std::function<void(std::int64_t number)>;

/// Kills this process when it is about to make one more such call than so many ("": any).
void kill_before(int calls, std::string_view wanted) {
  before_file_call = [calls, wanted](const char* call) mutable {
    if ((wanted.empty() || wanted == call) && calls-- == 0) ::raise(SIGKILL);
  };
}

/// Runs `work` in a child; whether it was killed, and not ended by itself with status 0.
bool is_killed(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

/// Runs `work` in a child until it is killed at a random moment; returns the last number that it
/// reported, or -1.
std::int64_t run_and_kill(std::mt19937& random, const std::function<void(const Report&)>& work) {
  int ends[2];
  SWARMPI_CHECK(::pipe(ends) == 0, "tests need a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    work([&ends](std::int64_t number) {
      if (::write(ends[1], &number, sizeof number) != sizeof number) ::_exit(1);
    });
    ::_exit(0);
  }
  ::close(ends[1]);
  // After some reports, so that the disk's speed does not matter, and then within the next write.
  std::int64_t last = -1;
  int awaited = std::uniform_int_distribution<int>(0, 3)(random);
  while (awaited-- > 0 && ::read(ends[0], &last, sizeof last) == sizeof last) continue;
  ::usleep(std::uniform_int_distribution<useconds_t>(0, 3000)(random));
  ::kill(child, SIGKILL);
  std::int64_t number = 0;
  while (::read(ends[0], &number, sizeof number) == sizeof number) last = number;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: it could not write";
  return last;
}

TEST(Crash, TheJournalKeepsWhatItReported) {
  const TestFolder folder;
  std::mt19937 random(1);
  std::int64_t reported = -1;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t last = run_and_kill(random, [&](const Report& report) {
      JournalBegin begin;
      begin.term = highest_term(folder / "j") + 1;
      begin.from_step = reported;
      const auto created = JournalWriter::create(folder / "j", begin);
      if (!created.ok() || created.value() == nullptr) return;
      for (std::int64_t step = reported + 1;; ++step) {
        if (!created.value()->append(step_row(step)).ok()) return;
        if (!created.value()->append(PeerRow{step, 0, 0}).ok()) return;
        if (!created.value()->sync().ok()) return;
        report(step);
      }
    });
    reported = std::max(reported, last);
    const Result<JournalContent> read = read_journal(folder / "j");
    ASSERT_TRUE(read.ok()) << read.status().message();
    const std::vector<StepRow>& steps = read.value().history.steps;
    ASSERT_GE(static_cast<std::int64_t>(steps.size()), reported + 1);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_EQ(steps[i].step, static_cast<std::int64_t>(i));
    }
  }
  EXPECT_GT(reported, 0);
}

TEST(Crash, ARunFileIsAlwaysWholeAndNeverOlderThanReported) {
  const TestFolder folder;
  std::mt19937 random(2);
  std::int64_t reported = -1;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t last = run_and_kill(random, [&](const Report& report) {
      for (std::int64_t steps = reported + 1;; ++steps) {
        RunFile run;
        run.history = sample_history(steps);
        if (!write_run_file(folder / "RUN.h5", run).ok()) return;
        report(steps);
      }
    });
    reported = std::max(reported, last);
    if (reported < 0) continue;
    const Result<RunFile> read = read_run_file(folder / "RUN.h5");
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_GE(static_cast<std::int64_t>(read.value().history.steps.size()), reported + 1);
  }
  EXPECT_GE(reported, 0);
}

// The manifest is what makes it a checkpoint, so it must go before all that it names.
TEST(Crash, ACheckpointThatIsBeingRemovedIsWholeOrNone) {
  const TestFolder folder;
  std::vector<float> values(6, 1.5f);
  const TensorState tensor{"head.weight", 3, 2, {values.data()}, values.data(), nullptr};
  const auto make = [&](std::int64_t step) {
    const std::string path = checkpoint_path(folder.path(), step);
    std::vector<StoredFile> files;
    for (const std::int64_t stage : {0, 1, 2}) {
      files.push_back(write_stage_file(path, stage, 1, 0, {tensor}, host_memory()).value());
    }
    CheckpointHead head;
    head.state.step = step;
    ASSERT_TRUE(write_manifest(path, head, stored_rows(path, sample_history(step)), files, 1).ok());
  };
  make(2);
  bool died = true;
  int removed = 0;
  for (; died; ++removed) {
    make(1);
    died = is_killed([&] {
      kill_before(removed, "unlink");
      return prune_checkpoints(folder.path(), 1).ok();
    });
    if (!std::filesystem::exists(folder / "step-1/manifest")) continue;
    const Result<Checkpoint> opened = Checkpoint::open(folder / "step-1");
    EXPECT_TRUE(opened.ok()) << "after " << removed << " files: " << opened.status().message();
  }
  EXPECT_EQ(removed, 10) << "manifest, four parts, four segments: a death before each, and none";
  EXPECT_FALSE(std::filesystem::exists(folder / "step-1"));
}

// Its segments are linked from the checkpoint before, which goes once the new one is there.
TEST(Crash, AtEachCallTheCheckpointBeforeIsWholeOrTheNewOneIs) {
  const TestFolder folder;
  constexpr std::size_t kRows = 3;  // of a segment
  std::vector<float> values(6, 1.5f);
  const TensorState tensor{"head.weight", 3, 2, {values.data()}, values.data(), nullptr};
  const auto write = [&](RowStorer& storer, std::int64_t step, const char* kill, int calls) {
    const std::string path = checkpoint_path(folder.path(), step);
    if (calls >= 0) kill_before(calls, kill);
    const auto part = write_stage_file(path, 0, 1, 0, {tensor}, host_memory());
    const auto rows = storer.store(path, step, 1);
    CheckpointHead head;
    head.state.step = step;
    return part.ok() && rows.ok() &&
           write_manifest(path, head, rows.value(), {part.value()}, 1).ok() &&
           prune_checkpoints(folder.path(), 1).ok();
  };
  JournalMerge merge;
  add_rows(merge, sample_history(11));
  RowStorer storer(merge, kRows);
  ASSERT_TRUE(write(storer, 9, "", -1));
  int calls = 0;
  for (bool died = true; died; ++calls) {
    died = is_killed([&] { return write(storer, 11, "", calls); });
    const Result<Checkpoint> opened = Checkpoint::open(folder.path());
    ASSERT_TRUE(opened.ok()) << calls << ": " << opened.status().message();
    const std::int64_t step = opened.value().head().state.step;
    EXPECT_TRUE(step == 11 || (died && step == 9)) << calls;
    EXPECT_EQ(static_cast<std::int64_t>(history_of(opened.value()).steps.size()), step + 1)
        << calls;
    if (step == 9) continue;
    // As it was before, so that the next death comes in the same place.
    std::filesystem::remove_all(folder / "step-11");
    std::filesystem::remove_all(folder / "step-9");
    RowStorer anew(merge, kRows);
    ASSERT_TRUE(write(anew, 9, "", -1));
  }
  EXPECT_GT(calls, 30) << "links, syncs, renames and removals: a death before each, and none";
}

TEST(Crash, AReportedCheckpointIsThereUntilANewerOneIs) {
  const TestFolder folder;
  std::mt19937 random(3);
  std::int64_t reported = -1;
  std::vector<float> values(30000, 1.5f);
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t last = run_and_kill(random, [&](const Report& report) {
      for (std::int64_t step = reported + 1;; ++step) {
        const std::string path = checkpoint_path(folder.path(), step);
        const TensorState tensor{"head.weight", 300, 100, {values.data()}, values.data(), nullptr};
        const auto file = write_stage_file(path, 0, kill, 0, {tensor}, host_memory());
        if (!file.ok()) return;
        CheckpointHead head;
        head.state.step = step;
        const std::vector<StoredFile> rows = stored_rows(path, sample_history(step));
        if (!write_manifest(path, head, rows, {file.value()}, kill).ok()) return;
        report(step);
        if (!prune_checkpoints(folder.path(), 2).ok()) return;
      }
    });
    reported = std::max(reported, last);
    if (reported < 0) continue;
    const Result<Checkpoint> opened = Checkpoint::open(folder.path());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_GE(opened.value().head().state.step, reported);
  }
  EXPECT_GE(reported, 0);
  ASSERT_TRUE(prune_checkpoints(folder.path(), 2).ok());
  EXPECT_LE(folder.entries(), 3u) << "two complete ones, and one that was being written";
}

}  // namespace
}  // namespace swarmpi::crash_test
