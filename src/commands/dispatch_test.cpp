#include "commands/dispatch.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands/isolated.hpp"
#include "commands/small_checkpoint_test.hpp"
#include "io/test_support.hpp"

namespace swarmpi::dispatch_test {
namespace {

struct Printed {
  ExitStatus status = ExitStatus::good;
  std::string out, error;
};

Printed run(const std::vector<std::string>& arguments, const Launcher& launcher = {}) {
  std::ostringstream out, error;
  const ExitStatus status = run_command_line(arguments, launcher, out, error);
  return {status, out.str(), error.str()};
}

TEST(Commands, SwarmsAreMeasuredUnderALauncher) {
  const Printed alone = run({"bench", "wiring"});
  EXPECT_EQ(alone.status, ExitStatus::bad_input);
  EXPECT_NE(alone.error.find("mpirun"), std::string::npos);
}

TEST(Commands, ALauncherThatDoesNotTellItsSizeIsRefused) {
  EXPECT_EQ(run({"train", SWARMPI_SOURCE_DIR "/inputs/quickstart.toml"}, {"PMIx", 0, 0}).status,
            ExitStatus::bad_input);
}

TEST(Commands, OneRankUnderALauncherMayTrain) {
  const Printed outcome = run({"train", "no-such-deck.toml"}, {"mpirun", 0, 1});
  EXPECT_EQ(outcome.status, ExitStatus::bad_input);  // for want of a deck
  EXPECT_NE(outcome.error.find("no-such-deck.toml"), std::string::npos);
}

TEST(Commands, ThoseOfOneProcessAreRefusedUnderALauncher) {
  const std::vector<std::vector<std::string>> all = {
      {"check", "d.toml"},
      {"compare", "a.h5", "b.h5"},
      {"info"},
      {"prepare", "o", "i"},
      {"sample", "s", "--prompt", "a"},
      {"evaluate", "s"},
      {"trace", "t", "--peers", "2", "--hours", "1"},
      {"torture"},
      {"sweep", "d.toml", "--vary", "train.lr=1,2"},
      {"bench", "kernels"},
      {"simulate", "d.toml"},
  };
  for (const std::vector<std::string>& arguments : all) {
    const Printed outcome = run(arguments, {"PMIx", 0, 0});
    EXPECT_EQ(outcome.status, ExitStatus::bad_input) << arguments[0];
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.error.find("swarmpi: `" + arguments[0]), 0u) << outcome.error;
    EXPECT_NE(outcome.error.find("runs in one process: start it without PMIx"), std::string::npos)
        << outcome.error;
  }
}

TEST(Commands, InfoNeedsNothing) {
  const Printed outcome = run({"info"}, {"mpirun", 0, 1});
  EXPECT_EQ(outcome.status, ExitStatus::good);
  for (const char* part : {"oneDNN", "Kokkos", "HDF5", "CPU", "MPI"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
}

TEST(Commands, ATraceReplacesATraceAndNothingElse) {
  const TestFolder folder;
  const std::string path = folder / "t.csv";
  const std::vector<std::string> command = {"trace", path, "--peers", "9", "--hours", "100"};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(command).status, ExitStatus::good);
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "time_s,event,peer\n1,kill,0\n";
  EXPECT_EQ(run(command).status, ExitStatus::good) << "a spreadsheet has written it";
  std::ofstream(path) << "[model]\nlayers = 2\n";
  const Printed outcome = run(command);
  EXPECT_EQ(outcome.status, ExitStatus::bad_input);
  EXPECT_NE(outcome.error.find("exists and is no trace"), std::string::npos) << outcome.error;
  EXPECT_EQ(std::filesystem::file_size(path), 19u) << "as it was";
  EXPECT_EQ(run({"trace", folder / "none/t.csv", "--peers", "9", "--hours", "1"}).status,
            ExitStatus::bad_input);
}

// There is nothing that could be resumed. A limit stands for a full disk.
TEST(Commands, ATraceThatFindsNoRoomIsJustNotWritten) {
  const TestFolder folder;
  const std::string path = folder / "t.csv";
  const IsolatedResult result = run_isolated([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{100, 100};
    setrlimit(RLIMIT_FSIZE, &most);
    const Printed outcome = run({"trace", path, "--peers", "99", "--hours", "1000"});
    return std::to_string(static_cast<int>(outcome.status)) + " " + outcome.error;
  });
  EXPECT_TRUE(result.answer.starts_with("2 swarmpi: trace: writing " + path + " failed: File too"))
      << result.answer << result.crash;
  EXPECT_EQ(result.answer.find("resume"), std::string::npos) << "there is nothing to resume";
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Commands, InfoKnowsNoPeersOfACheckpoint) {
  const TestFolder folder;
  for (const char* name : {"a", "b"}) test::write_checkpoint(test::small_model(), folder / name, 4);
  const Printed outcome = run({"info", folder / "a/step-4", folder / "b/step-4"});
  EXPECT_EQ(outcome.status, ExitStatus::good) << outcome.error;
  // Steps, loss, held out, tokens/s, time, peers, lost.
  EXPECT_NE(outcome.out.find("      -     0"), std::string::npos) << outcome.out;
}

// As root somebody would replace /dev/null.
TEST(Commands, NoFileReplacesWhatIsNone) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe", text = folder / "a.txt", link = folder / "link.csv";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(text) << "some text\n";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"trace", pipe, "--peers", "3", "--hours", "10"},
        {"prepare", pipe, text, "--force"}}) {
    const Printed outcome = run(command);
    EXPECT_EQ(outcome.status, ExitStatus::bad_input);
    EXPECT_NE(outcome.error.find("is no file"), std::string::npos) << outcome.error;
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  }
  std::ofstream(folder / "real.csv") << "time_s,event,peer\n";
  std::filesystem::create_symlink("real.csv", link);
  EXPECT_EQ(run({"trace", link, "--peers", "3", "--hours", "1000"}).status, ExitStatus::good);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_GT(std::filesystem::file_size(folder / "real.csv"), 30u);
}

TEST(Commands, MissingFilesAreBadInput) {
  EXPECT_EQ(run({"info", "no-such-run.h5"}).status, ExitStatus::bad_input);
  EXPECT_EQ(run({"check", "no-such-deck.toml"}).status, ExitStatus::bad_input);
  EXPECT_EQ(run({"sample", "no-such-folder", "--prompt", "a"}).status, ExitStatus::bad_input);
  EXPECT_EQ(run({"evaluate", "no-such-folder"}).status, ExitStatus::bad_input);
  EXPECT_EQ(run({"compare", "no-a.h5", "no-b.h5"}).status, ExitStatus::bad_input);
  EXPECT_EQ(run({"prepare", "/no-such-folder/out.bin", "/no-such-source"}).status,
            ExitStatus::bad_input);
}

TEST(Commands, ErrorsAreOneLineWithTheProgramsName) {
  const Printed outcome = run({"trian"});
  EXPECT_EQ(outcome.error.find("swarmpi: "), 0u);
  EXPECT_EQ(outcome.error.find('\n'), outcome.error.size() - 1);
}

TEST(Commands, ABenchmarkWithABadKeyIsBadInput) {
  const Printed outcome = run({"bench", "kernels", "--set", "model.widht=3"});
  EXPECT_EQ(outcome.status, ExitStatus::bad_input);
  EXPECT_NE(outcome.error.find("width"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::dispatch_test
