// Terms on real files: which process may lead, and until when what a leader stores counts.

#include "runtime/run_storage.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/test_support.hpp"

namespace swarmpi {
namespace {

// One process of a run.
class Writer {
 public:
  Writer(const std::string& folder, std::int64_t first_term)
      : storage_(plan(folder, first_term), stages_, clock_, inbox_) {}

  template <class Answer>
  Answer answer_to(auto action) {
    storage_.take(std::move(action));
    return next<Answer>();
  }
  template <class Answer>
  Answer next() {
    while (true) {
      if (const std::optional<Event> event = inbox_.take()) return std::get<Answer>(*event);
    }
  }

 private:
  static StoragePlan plan(const std::string& folder, std::int64_t first_term) {
    StoragePlan plan;
    plan.run_file = folder + "/RUN.h5";
    plan.checkpoints = folder + "/checkpoints";
    plan.first_term = first_term;
    plan.tensors = 1;
    plan.part_patience_s = 0;
    return plan;
  }

  WallClock clock_;
  Inbox inbox_;
  PayloadPool payloads_;
  JobExecutor stages_{Config(), nullptr, payloads_, {}};
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

// ---- Checkpoints. Their parts are written by hand: the model does not matter here.

struct Part {
  std::string name = "tensor";
  std::vector<float> values = std::vector<float>(6, 1.5f);

  StoredFile write(const std::string& folder, std::int64_t step, std::int64_t stage) {
    const TensorState tensor{name, 3, 2, {values.data()}, values.data(), values.data()};
    return write_stage_file(checkpoint_path(folder + "/checkpoints", step), stage, 1, 0, {tensor})
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
  EXPECT_EQ(dropped.stage, StageId(1));
  EXPECT_NE(dropped.why.find(step + files[1].name), std::string::npos) << dropped.why;
  EXPECT_FALSE(std::filesystem::exists(step + "manifest"));

  std::filesystem::rename(folder / "elsewhere", step + files[1].name);
  leader.answer_to<CheckpointDurable>(manifest_of(4, files));
  EXPECT_TRUE(std::filesystem::exists(step + "manifest"));
}

TEST(RunStorage, GoingBackPassesADamagedCheckpointOverAndSetsItAside) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  leader.answer_to<TermCreated>(CreateTerm{Term(1)});
  Part part;
  for (const std::int64_t step : {4, 8}) {
    leader.answer_to<CheckpointDurable>(manifest_of(step, {part.write(folder.path(), step, 0)}));
  }
  const std::string newest = folder / "checkpoints/step-8/";
  std::filesystem::remove(newest + "stage-0.term-1.peer-0.h5");
  const auto damaged = leader.answer_to<CheckpointDamaged>(LoadManifest{});
  EXPECT_EQ(damaged.step, Step(8));
  EXPECT_NE(damaged.why.find("stage-0.term-1.peer-0.h5"), std::string::npos) << damaged.why;
  EXPECT_EQ(leader.next<ManifestLoaded>().checkpoint->state.step, 4);
  EXPECT_FALSE(std::filesystem::exists(newest + "manifest"));
  EXPECT_EQ(leader.answer_to<ManifestLoaded>(LoadManifest{}).checkpoint->state.step, 4);
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
}  // namespace swarmpi
