// `include`: decks that a deck reads first.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/deck.hpp"

namespace swarmpi::include_test {
namespace {

class Include : public testing::Test {
 protected:
  Include() { std::filesystem::create_directories(folder_ / "machines"); }
  ~Include() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  Config load(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    const Result<Config> config = load_deck(path(name), overrides);
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config.ok() ? config.value() : Config{};
  }
  /// The message, with the folder's name left out.
  std::string refusal(const std::string& name) const {
    const Result<Config> config = load_deck(path(name), {});
    if (config.ok()) return "accepted";
    EXPECT_EQ(config.status().code(), ExitStatus::bad_input);
    std::string message = config.status().message();
    const std::string prefix = folder_.string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("swarmpi-include-" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(Include, ADeckReadsOthersFirstByTheirPathsFromItsFolder) {
  write("deck.toml", "include = [\"machines/t4.toml\"]\n[[peers]]\ndevice = \"t4\"\n");
  write("machines/t4.toml", "include = [\"../links.toml\"]\n[devices.t4]\ngflops = 25000\n");
  write("links.toml", "[links.home]\nup_mbps = 200\n[[peers]]\npeers = [3]\nlink = \"home\"\n");
  const Config config = load("deck.toml");
  EXPECT_EQ(config.devices.at(0).name, "t4");
  EXPECT_EQ(config.links.at(0).name, "home");
  ASSERT_EQ(config.peer_classes.size(), 2u) << "rows of lists add up";
  EXPECT_EQ(config.peer_classes[0].link, "home") << "of the included deck first";
  EXPECT_EQ(resolved_deck(config).find("include"), std::string::npos);
}

TEST_F(Include, WhatADeckSaysCountsMoreThanWhatItIncludes) {
  write("deck.toml",
        "include = [\"base.toml\"]\n[train]\nsteps = 7\n[devices.t4]\npeak_tflops = 65\n");
  write("base.toml", "[train]\nsteps = 3\nseed = 9\n[devices.t4]\ngflops = 1\noverhead_s = 0.5\n");
  const Config config = load("deck.toml", {"train.seed=4"});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.seed, 4u);
  ASSERT_EQ(config.devices.size(), 1u);
  EXPECT_EQ(config.devices[0].gflops, 0);
  EXPECT_EQ(config.devices[0].overhead_s, 0) << "a row is said anew as a whole";
}

TEST_F(Include, ADeckThatTwoIncludeIsReadOnce) {
  write("deck.toml", "include = [\"a.toml\", \"b.toml\"]\n[train]\nsteps = 1\n");
  write("a.toml", "include = [\"c.toml\"]\n[train]\nseed = 2\n");
  write("b.toml", "include = [\"c.toml\"]\n[devices.c]\ngflops = 2\n");
  write("c.toml", "[devices.c]\ngflops = 1\n[[peers]]\npeers = [1]\ndevice = \"c\"\n");
  const Config config = load("deck.toml");
  EXPECT_EQ(config.devices.at(0).gflops, 2) << "b says it anew, for it includes c";
  EXPECT_EQ(config.peer_classes.size(), 1u);
}

TEST_F(Include, DecksThatDoNotIncludeEachOtherDoNotSayTheSame) {
  write("deck.toml", "include = [\"a.toml\", \"b.toml\"]\n");
  write("a.toml", "[train]\n\nsteps = 2\n[devices.c]\ngflops = 2\n");
  write("b.toml", "[train]\nsteps = 2\n");
  const std::string reason =
      " says it, too, and neither of these decks includes the other: say it in the deck that "
      "includes both";
  EXPECT_EQ(refusal("deck.toml"), "b.toml:2: train.steps: a.toml:3" + reason);
  write("b.toml", "[devices.c]\ngflops = 3\n");
  EXPECT_EQ(refusal("deck.toml"), "b.toml:1: devices.c: a.toml:4" + reason);
}

TEST_F(Include, MistakesNameTheDeckThatHasThem) {
  write("deck.toml", "\ninclude = [\"a.toml\"]\n");
  EXPECT_EQ(refusal("deck.toml"),
            "deck.toml:2: include: a.toml: cannot be read: No such file or directory");
  write("a.toml", "[train]\nstep = 2\n");
  EXPECT_EQ(refusal("deck.toml"), "a.toml:2: train.step: unknown key; did you mean train.steps?");
  write("a.toml", "include = [\"machines/../deck.toml\"]\n");
  EXPECT_EQ(refusal("deck.toml"), "a.toml:1: include: deck.toml includes itself");
  write("a.toml", "[[peers]]\npeers = [1]\ndevice = \"t5\"\n");
  EXPECT_EQ(refusal("deck.toml"), "a.toml:3: peers.device = \"t5\": there is no [devices.t5]");
}

}  // namespace
}  // namespace swarmpi::include_test
