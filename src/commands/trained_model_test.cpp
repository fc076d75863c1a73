#include "commands/trained_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands/small_checkpoint_test.hpp"
#include "io/run_file.hpp"

namespace swarmpi::test::trained_model_test {
namespace {

namespace fs = std::filesystem;

class NamedCheckpoint : public ::testing::Test {
 protected:
  std::string make_checkpoint(const std::string& folder) {
    const std::string path = folder_ / folder;
    fs::create_directories(fs::path(path) / "step-3");
    return path;
  }
  std::string make_run_file(const std::string& name, const std::string& checkpoints = "") {
    RunFile run;
    Config config = small_model();
    config.output.checkpoint = checkpoints;
    run.deck = resolved_deck(config);
    fs::create_directories(fs::path(folder_ / name).parent_path());
    const Status written = write_run_file(folder_ / name, run);
    EXPECT_TRUE(written.ok()) << written.message();
    return folder_ / name;
  }
  static std::string meant(const std::string& path) {
    const Result<std::string> named = named_checkpoint(path);
    return named.ok() ? named.value() : "refused: " + named.status().message();
  }

  ScratchFolder folder_{"named-checkpoint"};
};

TEST_F(NamedCheckpoint, OneThatIsNamedIsMeant) {
  const std::string all = make_checkpoint("checkpoints");
  EXPECT_EQ(meant(all), all);
  EXPECT_EQ(meant(all + "/step-3"), all + "/step-3");
  EXPECT_EQ(meant(folder_ / "missing"), folder_ / "missing") << "refused by whoever opens it";
}

TEST_F(NamedCheckpoint, ARunsFolderHasAFolderOfThem) {
  fs::create_directories(folder_ / "checkpoints");
  EXPECT_EQ(meant(folder_.path()), folder_.path()) << "there is none yet";
  const std::string checkpoints = make_checkpoint("RUN.checkpoints");
  EXPECT_EQ(meant(folder_.path()), checkpoints) << "the other one is empty";
  const std::string others = make_checkpoint("checkpoints");
  EXPECT_EQ(meant(folder_.path()), "refused: " + folder_.path() +
                                       " has checkpoints of several runs: name one of " +
                                       checkpoints + ", " + others);
}

TEST_F(NamedCheckpoint, ARunFileHasThemBesideItOrWhereItsDeckSays) {
  const std::string run = make_run_file("a/RUN.h5");
  EXPECT_EQ(meant(run).find("refused: " + run + ": there are no checkpoints in " +
                            (folder_ / "a/RUN.checkpoints")),
            0u)
      << meant(run);
  make_checkpoint("a/checkpoints");
  EXPECT_EQ(meant(run).find("refused"), 0u) << "another run may have written those";
  const std::string own = make_checkpoint("a/RUN.checkpoints");
  EXPECT_EQ(meant(run), own);
  const std::string elsewhere = make_checkpoint("elsewhere");
  EXPECT_EQ(meant(make_run_file("a/other.h5", elsewhere)), elsewhere);
}

TEST_F(NamedCheckpoint, IsOpenedWithItsDeck) {
  write_checkpoint(small_model(), folder_ / "run/checkpoints", 7);
  std::ostringstream error;
  const Result<TrainedRun> run = open_trained(folder_ / "run", "the test is of", error);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run.value().checkpoint.head().state.step, 7);
  EXPECT_EQ(run.value().config.model.width, 16);
  EXPECT_EQ(error.str(), "");
  EXPECT_EQ(open_trained(folder_ / "missing", "the test is of", error).status().code(),
            ExitStatus::bad_input);
}

}  // namespace
}  // namespace swarmpi::test::trained_model_test
