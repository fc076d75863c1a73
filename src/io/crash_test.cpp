// What was reported as written can be read after a SIGKILL at any moment.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <random>

#include "io/checkpoint/checkpoint.hpp"
#include "io/files.hpp"
#include "io/journal/journal.hpp"
#include "io/run_file.hpp"
#include "io/test_support.hpp"

namespace {
/// The process is killed when it is about to remove one more file than so many; -1: it is not.
int files_until_death = -1;
}  // namespace

/// Stands for that of the C library in this program.
extern "C" int unlink(const char* path) noexcept {
  if (files_until_death >= 0 && files_until_death-- == 0) ::raise(SIGKILL);
  return ::unlinkat(AT_FDCWD, path, 0);
}

namespace swarmpi {
namespace {

constexpr int kKills = 25;

/// Tells the parent that everything up to `number` is durable.
using Report = std::function<void(std::int64_t number)>;

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
      files.push_back(write_stage_file(path, stage, 1, 0, {tensor}).value());
    }
    CheckpointHead head;
    head.state.step = step;
    ASSERT_TRUE(write_manifest(path, head, sample_history(step), files, 1).ok());
  };
  make(2);
  bool died = true;
  int removed = 0;
  for (; died; ++removed) {
    make(1);
    const pid_t child = ::fork();
    if (child == 0) {
      files_until_death = removed;
      ::_exit(prune_checkpoints(folder.path(), 1).ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    died = WIFSIGNALED(status);
    ASSERT_TRUE(died || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    if (!std::filesystem::exists(folder / "step-1/manifest")) continue;
    const Result<Checkpoint> opened = Checkpoint::open(folder / "step-1");
    EXPECT_TRUE(opened.ok()) << "after " << removed << " files: " << opened.status().message();
  }
  EXPECT_EQ(removed, 6) << "the manifest and four parts: a death before each, and none";
  EXPECT_FALSE(std::filesystem::exists(folder / "step-1"));
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
        const auto file = write_stage_file(path, 0, kill, 0, {tensor});
        if (!file.ok()) return;
        CheckpointHead head;
        head.state.step = step;
        if (!write_manifest(path, head, sample_history(step), {file.value()}, kill).ok()) return;
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
}  // namespace swarmpi
