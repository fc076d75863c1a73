#include "config/deck.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "config/schema.hpp"

namespace swarmpi::deck_test {
namespace {

std::string message_of(const std::string& deck, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_deck(deck, "d.toml", overrides);
  if (config.ok()) return "accepted";
  EXPECT_EQ(config.status().code(), ExitStatus::bad_input);
  return config.status().message();
}

Config config_of(const std::string& deck, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_deck(deck, "d.toml", overrides);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? config.value() : Config{};
}

TEST(Deck, ValuesReachTheirPlace) {
  const Config config = config_of(R"(
# a comment
[model]
layers = 6
precision = "bf16"
[data]
paths = ["a.bin", 'b c.bin']
[train]
lr = 3e-4
steps = 1e3          # an integer all the same
clip = 2             # a number all the same
seed = 9223372036854775807
updates = "delayed"
[swarm]
spawn = false
)");
  EXPECT_EQ(config.model.layers, 6);
  EXPECT_EQ(config.model.precision, Precision::bf16);
  EXPECT_EQ(config.data.paths, (std::vector<std::string>{"a.bin", "b c.bin"}));
  EXPECT_EQ(config.train.lr, 3e-4);
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.train.clip, 2.0);
  EXPECT_EQ(config.train.seed, 9223372036854775807u);
  EXPECT_EQ(config.train.delay(), 2);
  EXPECT_FALSE(config.swarm.spawn);
  EXPECT_EQ(config.model.width, ModelConfig{}.width) << "what is not given keeps its default";
}

TEST(Deck, DottedKeysAndInlineTablesAreTheSameDeck) {
  EXPECT_EQ(config_of("train.lr = 0.5\nmodel = {layers = 2}\n").train.lr, 0.5);
  EXPECT_EQ(config_of("train.lr = 0.5\nmodel = {layers = 2}\n").model.layers, 2);
}

struct BadDeck {
  const char* deck;
  const char* message;
};

class BadDecks : public testing::TestWithParam<BadDeck> {};

TEST_P(BadDecks, OneClearMessage) { EXPECT_EQ(message_of(GetParam().deck), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Names, BadDecks,
    testing::Values(
        BadDeck{"[train]\n\nlrr = 1", "d.toml:3: train.lrr: unknown key; did you mean train.lr?"},
        BadDeck{"[train]\nstpes = 1",
                "d.toml:2: train.stpes: unknown key; did you mean train.steps?"},
        BadDeck{"[train]\nwarmup = 1",
                "d.toml:2: train.warmup: unknown key; did you mean train.warmup_steps?"},
        BadDeck{"[model]\nlr = 1", "d.toml:2: model.lr: unknown key; did you mean train.lr?"},
        BadDeck{"[model]\nseed = 1",
                "d.toml:2: model.seed: unknown key; did you mean train.seed, swarm.seed or "
                "faults.seed?"},
        BadDeck{"[model]\nxyzzy = 1", "d.toml:2: model.xyzzy: unknown key"},
        BadDeck{"[trian]\nlr = 1", "d.toml:1: trian: unknown section; did you mean [train]?"},
        BadDeck{"[train]\n\"a b\\n\" = 1", "d.toml:2: train.\"a b\\u000A\": unknown key"},
        BadDeck{"[train]\n\"\" = 1", "d.toml:2: train.\"\": unknown key"},
        BadDeck{"\"\" = 1", "d.toml:1: \"\": a key must stand below a [section]"},
        BadDeck{"[zoo]",
                "d.toml:1: zoo: unknown section; the sections are model, data, train, swarm, "
                "compute, faults, output, devices, links, sites, routes, peers"},
        BadDeck{"\nlr = 1",
                "d.toml:2: lr: a key must stand below a [section]; did you mean train.lr?"},
        BadDeck{"train = 3", "d.toml:1: train: is a section: write [train]"},
        BadDeck{"[[train]]\nlr = 1",
                "d.toml:1: train: must be one section [train], not a list of them"},
        BadDeck{"[train.lr]\nx = 1",
                "d.toml:1: train.lr: expected a number >= 1e-30 and <= 1e+06 (what fp32 can work "
                "with), got a table"},
        BadDeck{"[model]\nlayers = 2\n[links]\nlan = 1",
                "d.toml:4: links.lan: is a table: write [links.NAME]"},
        BadDeck{"includes = [\"a.toml\"]",
                "d.toml:1: includes: a key must stand below a [section]; did you mean include?"},
        BadDeck{"include = \"a.toml\"",
                "d.toml:1: include: expected a list of texts, got \"a.toml\""}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadDecks,
    testing::Values(
        BadDeck{"[train]\nlr = \"abc\"",
                "d.toml:2: train.lr: expected a number >= 1e-30 and <= 1e+06 (what fp32 can work "
                "with), got \"abc\""},
        BadDeck{"[train]\nlr = 0",
                "d.toml:2: train.lr: expected a number >= 1e-30 and <= 1e+06 (what fp32 can work "
                "with), got 0"},
        BadDeck{"[train]\nlr = nan",
                "d.toml:2: train.lr: expected a number >= 1e-30 and <= 1e+06 (what fp32 can work "
                "with), got nan"},
        BadDeck{"[train]\nlr = inf",
                "d.toml:2: train.lr: expected a number >= 1e-30 and <= 1e+06 (what fp32 can work "
                "with), got inf"},
        BadDeck{
            "[train]\nbeta1 = 1.0",
            "d.toml:2: train.beta1: expected a number >= 0 and < 0.99999997 (more is 1 in fp32), "
            "got 1.0"},
        BadDeck{"[train]\nsteps = 1.5", "d.toml:2: train.steps: expected an integer >= 1, got 1.5"},
        BadDeck{"[train]\nsteps = 1e300",
                "d.toml:2: train.steps: expected an integer >= 1, got 1e+300"},
        BadDeck{"[train]\nsteps = 0", "d.toml:2: train.steps: expected an integer >= 1, got 0"},
        BadDeck{"[train]\nsteps = \"10\"",
                "d.toml:2: train.steps: expected an integer >= 1, got \"10\""},
        BadDeck{"[train]\nseed = -1", "d.toml:2: train.seed: expected an integer >= 0, got -1"},
        BadDeck{"[model]\nlayers = 4097",
                "d.toml:2: model.layers: expected an integer >= 1 and <= 4096, got 4097"},
        BadDeck{"[swarm]\nallow_mixed = 1",
                "d.toml:2: swarm.allow_mixed: expected true or false, got 1"},
        BadDeck{"[train]\nschedule = \"cosin\"",
                "d.toml:2: train.schedule: expected one of \"cosine\", \"linear\", \"constant\", "
                "got \"cosin\"; did you mean \"cosine\"?"},
        BadDeck{"[train]\nschedule = \"fast\"",
                "d.toml:2: train.schedule: expected one of \"cosine\", \"linear\", \"constant\", "
                "got \"fast\""},
        BadDeck{"[data]\npaths = \"a\"",
                "d.toml:2: data.paths: expected a list of texts, got \"a\""},
        BadDeck{"[data]\npaths = [\"a\", 3]",
                "d.toml:2: data.paths: expected a list of texts, got [\"a\", 3]"},
        BadDeck{"[data]\npaths = [\"a\\u0000b\"]",
                "d.toml:2: data.paths: must not hold NUL characters"},
        BadDeck{"[output]\nrun = 1979-05-27",
                "d.toml:2: output.run: expected a text in quotes, got a date or time"}));

INSTANTIATE_TEST_SUITE_P(
    Syntax, BadDecks,
    testing::Values(
        BadDeck{"[train]\nlr = 1\nlr = 2",
                "d.toml:3: not valid TOML: 'lr' is given twice in [train]"},
        BadDeck{"train.lr = 1\ntrain.lr = 2",
                "d.toml:2: not valid TOML: 'train.lr' is given twice"},
        BadDeck{"[train]\nlr = 1\n[train]\n",
                "d.toml:3: not valid TOML: section 'train' stands twice"},
        BadDeck{"[train]\nschedule = linear",
                "d.toml:2: not valid TOML: could not determine value type (text needs quotes)"},
        BadDeck{"[train\n", "d.toml:1: not valid TOML: expected ']', saw '\\n'"},
        BadDeck{"[output]\nrun = \"a", "d.toml:2: not valid TOML: encountered end-of-file"},
        BadDeck{"[train]\nseed = 9223372036854775808",
                "d.toml:2: not valid TOML: '9223372036854775808' is not representable in 64 bits"},
        BadDeck{"x = \"\xff\"", "d.toml:1: not valid TOML: Encountered invalid utf-8 sequence"}));

INSTANTIATE_TEST_SUITE_P(
    NotInThisVersion, BadDecks,
    testing::Values(
        BadDeck{"[swarm]\nrebalance = \"adaptive\"",
                "d.toml:2: swarm.rebalance = \"adaptive\" is not available in this version, only "
                "\"none\", \"paper\""},
        BadDeck{"[train]\nreduction = \"fast\"",
                "d.toml:2: train.reduction = \"fast\" is not available in this version, only "
                "\"reproducible\""}));

INSTANTIATE_TEST_SUITE_P(
    Rules, BadDecks,
    testing::Values(
        BadDeck{"[faults]\ntrace = \"t.csv\"",
                "d.toml:2: faults.trace needs faults.mode = \"kill\" or \"emulated\""},
        BadDeck{"[swarm]\nspawn = true\n[faults]\nmode = \"emulated\"",
                "d.toml:2: swarm.spawn replaces processes that have ended, but with faults.mode = "
                "\"emulated\" none ends: newcomers join where faults.trace says `join`"},
        BadDeck{"[swarm]\nspawn = true\nrecovery = \"off\"",
                "d.toml:2: swarm.spawn needs swarm.recovery = \"lineage\" or \"redo\""},
        BadDeck{"[swarm]\nrebalance = \"paper\"\nrecovery = \"off\"",
                "d.toml:2: swarm.rebalance = \"paper\" needs swarm.recovery = \"lineage\" or "
                "\"redo\""},
        BadDeck{"[swarm]\nspares = 1\nshadows = 2",
                "d.toml:3: swarm.shadows = 2 must not exceed swarm.spares = 1: shadows are spares "
                "that learn a stage before they are needed"},
        BadDeck{"[swarm]\nspares = 1\nshadows = 1\nrecovery = \"off\"",
                "d.toml:3: swarm.shadows = 1 needs swarm.recovery = \"lineage\" or \"redo\""},
        BadDeck{"[swarm]\nspares = 1\nshadows = 1\nmethod = \"gpipe\"",
                "d.toml:3: swarm.shadows = 1 needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"data_parallel\"\nstages = 2",
                "d.toml:2: swarm.method = \"data_parallel\" needs swarm.stages = 1, not 2"},
        BadDeck{"[swarm]\nmethod = \"zero_offload\"\nstages = 2",
                "d.toml:2: swarm.method = \"zero_offload\" needs swarm.stages = 1, not 2"},
        BadDeck{
            "[swarm]\nmethod = \"zero_offload\"\n[train]\noptimizer = \"lamb\"",
            "d.toml:2: swarm.method = \"zero_offload\" deals the elements of a tensor to several "
            "replicas, and train.optimizer = \"lamb\" needs norms of whole tensors: take "
            "\"adamw\", or swarm.method = \"data_parallel\""},
        BadDeck{"[swarm]\nmethod = \"zero_offload\"\n[train]\nupdates = \"delayed\"",
                "d.toml:4: train.updates = \"delayed\" needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\ncollectives = \"nccl\"",
                "d.toml:2: swarm.collectives = \"nccl\" needs compute.kernels = \"cuda\", not "
                "\"native\": take that, or swarm.collectives = \"none\""},
        BadDeck{"[swarm]\nmethod = \"gpipe\"\n[compute]\nrecompute = \"never\"",
                "d.toml:2: swarm.method = \"gpipe\" computes every forward pass again: "
                "compute.recompute = \"never\" does not go with it"},
        BadDeck{"[swarm]\nmethod = \"gpipe\"\nrebalance = \"paper\"",
                "d.toml:3: swarm.rebalance = \"paper\" needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"1f1b\"\nwiring = \"uniform\"",
                "d.toml:3: swarm.wiring = \"uniform\" needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"1f1b\"\npins = [0]",
                "d.toml:3: swarm.pins needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"1f1b\"\nwindow = 4",
                "d.toml:3: swarm.window = 4 needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"data_parallel\"\nspawn = true",
                "d.toml:3: swarm.spawn needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nmethod = \"gpipe\"\n[train]\nupdates = \"delayed\"",
                "d.toml:4: train.updates = \"delayed\" needs swarm.method = \"swarm\""},
        BadDeck{"[swarm]\nnotice_s = 5",
                "d.toml:2: swarm.notice_s needs kills, from faults.trace or faults.mtbf_s"},
        BadDeck{"[faults]\nmtbf_s = 5",
                "d.toml:2: faults.mtbf_s needs faults.mode = \"kill\" or \"emulated\""},
        BadDeck{"[model]\nwidth = 128\nheads = 5",
                "d.toml:3: model.heads = 5 must divide model.width = 128"},
        BadDeck{"[model]\nwidth = 130", "d.toml:2: model.heads = 4 must divide model.width = 130"},
        BadDeck{"[model]\nlayers = 2\n[swarm]\nstages = 3",
                "d.toml:4: swarm.stages = 3 must not exceed model.layers = 2"},
        BadDeck{"[model]\nlayers = 8\nshared_groups = 3",
                "d.toml:3: model.shared_groups = 3 must divide model.layers = 8"},
        BadDeck{"[model]\nlayers = 8\nshared_groups = 2\n[swarm]\nstages = 4",
                "d.toml:5: swarm.stages = 4 must not exceed model.shared_groups = 2, as layers "
                "that share weights stay in one stage"},
        BadDeck{"[train]\nsteps = 10\nwarmup_steps = 11",
                "d.toml:3: train.warmup_steps = 11 must not exceed train.steps = 10"},
        BadDeck{"[train]\nmin_lr = 0.1",
                "d.toml:2: train.min_lr = 0.1 must not exceed train.lr = 0.001"},
        BadDeck{"[model]\nvocab = 65537\n[data]\nformat = \"tokens_u16\"",
                "d.toml:2: model.vocab = 65537 must not exceed 65536, all that data.format = "
                "\"tokens_u16\" can hold"},
        BadDeck{"[data]\nhash = \"xyz\"",
                "d.toml:2: data.hash must be 16 hexadecimal digits in lower case, or empty, not "
                "\"xyz\""},
        BadDeck{
            "[train]\nsteps = 1_000_000_000\nmicrobatches = 1048576\n"
            "microbatch_size = 65536",
            "d.toml:2: train.steps * train.microbatches * train.microbatch_size * model.context "
            "must be below 2^62 tokens"},
        BadDeck{"[swarm]\nsuspect_after_s = 0.1",
                "d.toml:2: swarm.suspect_after_s = 0.1 must be larger than swarm.heartbeat_s = "
                "0.2"},
        BadDeck{"[data]\npaths = [\"\"]", "d.toml:2: data.paths must not hold an empty name"},
        BadDeck{"[data]\nvalidation_paths = [\"a\", \"\"]",
                "d.toml:2: data.validation_paths must not hold an empty name"},
        BadDeck{"[data]\npaths = [\"a\", \"~/b\"]",
                "d.toml:2: data.paths = \"~/b\": nothing replaces the ~ here; write the path in "
                "full"},
        BadDeck{"[output]\nrun = \"~/RUN.h5\"",
                "d.toml:2: output.run = \"~/RUN.h5\": nothing replaces the ~ here; write the path "
                "in full"},
        BadDeck{"[output]\nrun = \"\"", "d.toml:2: output.run must not be empty"}));

// A parser that calls itself for each part would end the process.
TEST(Deck, AKeyOfThousandsOfPartsIsRefused) {
  std::string parts = "a";
  for (int i = 0; i < 20000; ++i) parts += ".a";
  for (const std::string& text : {"[swarm]\n" + parts + " = 1", "\n[" + parts + "]"}) {
    const Result<Config> config = parse_deck(text, "d.toml", {});
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.status().message(), "d.toml:2: no key of a deck has so many parts");
  }
}

// Each of these numbers is good in double precision and would be 0, 1 or infinite as the float that
// an update is computed with.
TEST(Deck, NumbersThatVanishOrBlowUpInFp32AreRefused) {
  for (const char* text :
       {"epsilon = 1e-50", "epsilon = 1e39", "beta1 = 0.9999999999", "beta2 = 0.99999998",
        "lr = 1e39", "lr = 1e-46", "weight_decay = 1e30", "clip = 1e-50"}) {
    EXPECT_NE(message_of(std::string("[train]\n") + text).find("fp32"), std::string::npos) << text;
  }
  const Config config = config_of(
      "[train]\nepsilon = 1e-37\nbeta1 = 0.99999996\nbeta2 = 0.99999996\nlr = 1e-30\n"
      "weight_decay = 1e6\nclip = 1e-30");
  EXPECT_LT(static_cast<float>(config.train.beta2), 1.0f);
  EXPECT_GT(static_cast<float>(config.train.epsilon), 0.0f);
  EXPECT_EQ(config_of("[train]\nclip = 0").train.clip, 0);
  EXPECT_EQ(message_of("[train]\nclip = 1e-50"),
            "d.toml:2: train.clip = 1e-50 must be 0 (no clipping) or at least 1e-30, as less would "
            "round gradients to 0 in fp32");
}

TEST(Deck, SizesThatOverflowTheirCountsAreRefused) {
  EXPECT_EQ(message_of("[model]\nwidth = 16777216\nlayers = 3000"),
            "d.toml:2: model.layers = 3000 of model.width = 16777216 are a model of about 1e+19 "
            "parameters, far beyond any machine");
  EXPECT_EQ(message_of("[model]\nlayers = 4096\ncontext = 16777216\n"
                       "[train]\nmicrobatch_size = 1048576"),
            "d.toml:5: train.microbatch_size = 1048576 sequences of model.context = 16777216 at "
            "model.width = 128 and model.layers = 4096 make activations of about 1.6e+21 bytes, "
            "far beyond any machine");
  const std::string kept =
      "[model]\ncontext = 65536\n[train]\nsteps = 1\nmicrobatch_size = 4096\n"
      "[swarm]\nwindow = 1048576\n";
  EXPECT_EQ(message_of(kept), "accepted");
  EXPECT_EQ(message_of(kept, {"compute.recompute=never"}),
            "d.toml:5: train.microbatch_size = 4096 sequences of model.context = 65536 at "
            "model.width = 128 and model.layers = 4, kept for swarm.window = 1048576 microbatches, "
            "make activations of about 2.6e+19 bytes, far beyond any machine");
}

TEST(Deck, OfSeveralMistakesTheFirstInTheFileIsTold) {
  EXPECT_EQ(message_of("[train]\nzzz = 1\n[model]\nlayers = -1\n"),
            "d.toml:2: train.zzz: unknown key");
}

TEST(Override, WinsOverTheDeckAndOverEarlierOnes) {
  const Config config =
      config_of("[train]\nlr = 0.5\nreduction = \"fast\"\n",
                {"train.lr=0.25", "train.lr=0.125", "train.reduction=reproducible"});
  EXPECT_EQ(config.train.lr, 0.125);
  EXPECT_EQ(config.train.reduction, Sums::reproducible);
}

TEST(Override, TextNeedsNoQuotesAndAListOfOneNoBrackets) {
  EXPECT_EQ(config_of("", {"train.schedule=linear"}).train.schedule, Schedule::linear);
  EXPECT_EQ(config_of("", {"train.schedule=\"linear\""}).train.schedule, Schedule::linear);
  EXPECT_EQ(config_of("", {"output.run=a = b #c.h5"}).output.run, "a = b #c.h5");
  EXPECT_EQ(config_of("", {"output.checkpoint="}).output.checkpoint, "");
  using Paths = std::vector<std::string>;
  EXPECT_EQ(config_of("", {"data.paths=/a/b.bin"}).data.paths, (Paths{"/a/b.bin"}));
  EXPECT_EQ(config_of("", {"data.paths='/a b.bin'"}).data.paths, (Paths{"/a b.bin"}));
  EXPECT_EQ(config_of("", {R"(data.paths=["/a", "/b"])"}).data.paths, (Paths{"/a", "/b"}));
  EXPECT_TRUE(config_of("", {"data.paths=[]"}).data.paths.empty());
}

TEST(Override, MistakesNameTheOverride) {
  const auto of = [](const std::string& text) { return message_of("", {text}); };
  EXPECT_EQ(of("train.lrr=3"), "--set train.lrr=3: unknown key; did you mean train.lr?");
  EXPECT_EQ(of("tarin.lr=3"), "--set tarin.lr=3: unknown section; did you mean [train]?");
  EXPECT_EQ(of("lr=3"), "--set lr=3: expected section.key=value; did you mean train.lr?");
  EXPECT_EQ(of("train=3"), "--set train=3: expected section.key=value");
  EXPECT_EQ(of("=3"), "--set =3: expected section.key=value");
  EXPECT_EQ(of("train.lr"), "--set train.lr: expected section.key=value");
  EXPECT_EQ(of(""), "--set : expected section.key=value");
  EXPECT_EQ(of("output.run"), "--set output.run: expected section.key=value");
  const std::string range = "a number >= 1e-30 and <= 1e+06 (what fp32 can work with)";
  EXPECT_EQ(of("train.lr=abc"), "--set train.lr=abc: expected " + range + ", got \"abc\"");
  EXPECT_EQ(of("train.lr="), "--set train.lr=: expected " + range + ", got \"\"");
  EXPECT_EQ(of("train.lr=-1"), "--set train.lr=-1: expected " + range + ", got -1");
  EXPECT_EQ(of("train.lr=1\nseed=2"),
            "--set train.lr=1\nseed=2: expected " + range + ", got \"1\nseed=2\"");
  EXPECT_EQ(of("train.schedule=coside"),
            "--set train.schedule=coside: expected one of \"cosine\", \"linear\", \"constant\", "
            "got \"coside\"; did you mean \"cosine\"?");
  EXPECT_EQ(of("output.run=\xff"), "--set output.run=\xff: not valid UTF-8");
  EXPECT_EQ(of("links.lan=1"), "--set links.lan=1: expected links.NAME={key = value, ...}");
  EXPECT_EQ(of("swarm.pins=3"),
            "--set swarm.pins=3: swarm.pins: 3 is no stage: swarm.stages = 1, and the first is "
            "stage 0");
}

TEST(Deck, CutsAreFirstLayersOfStages) {
  using Cuts = std::vector<std::int64_t>;
  const std::string eight = "[model]\nlayers = 8\n[swarm]\nstages = 3\n";
  EXPECT_EQ(config_of(eight + "cuts = [1, 6]").swarm.cuts, (Cuts{1, 6}));
  EXPECT_TRUE(config_of(eight).swarm.cuts.empty());
  EXPECT_EQ(
      message_of(eight + "cuts = [4]"),
      "d.toml:5: swarm.cuts: 1 cut for swarm.stages = 3, there is one between any two stages");
  EXPECT_EQ(message_of(eight + "cuts = [4, 4]"),
            "d.toml:5: swarm.cuts: 4 after 4: each stage begins at a later layer than the one "
            "before");
  EXPECT_EQ(message_of(eight + "cuts = [4, 8]"),
            "d.toml:5: swarm.cuts: there is no layer 8 in model.layers = 8, and the first is layer "
            "0");
  EXPECT_EQ(message_of("[model]\nlayers = 8\nshared_groups = 4\n[swarm]\nstages = 2\ncuts = [3]"),
            "d.toml:6: swarm.cuts: layer 3 is within a group of 2 layers that share weights "
            "(model.shared_groups)");
}

TEST(Deck, ScalesOfFp16ArePowersOfTwo) {
  EXPECT_EQ(config_of("[swarm]\nfp16_scale = 1024").swarm.fp16_scale, 1024);
  EXPECT_EQ(config_of("[swarm]\nfp16_scale = 0.125").swarm.fp16_scale, 0.125);
  EXPECT_EQ(
      message_of("[swarm]\nfp16_scale = 1000"),
      "d.toml:2: swarm.fp16_scale = 1000.0 must be a power of two, for example 512.0, so that it "
      "rounds nothing");
}

TEST(Deck, FactorsOfBoundariesDivideTheWidth) {
  const std::string model = "[model]\nwidth = 12\nheads = 2\n[swarm]\n";
  EXPECT_EQ(message_of(model + "boundary = \"maxout\"\nboundary_factor = 4"), "accepted");
  EXPECT_EQ(message_of(model + "boundary = \"plain\"\nboundary_factor = 5"), "accepted");
  EXPECT_EQ(message_of(model + "boundary = \"bottleneck\"\nboundary_factor = 5"),
            "d.toml:6: swarm.boundary_factor = 5 must divide model.width = 12 into more than one "
            "column for swarm.boundary = \"bottleneck\"");
  EXPECT_EQ(message_of(model + "boundary = \"bottleneck\"\nboundary_factor = 12"),
            "d.toml:6: swarm.boundary_factor = 12 must divide model.width = 12 into more than one "
            "column for swarm.boundary = \"bottleneck\"");
}

TEST(Deck, BoundariesTakeTheCodecsThatThisVersionHas) {
  for (const char* codec : {"none", "fp16", "bf16", "uniform8", "blockwise8"}) {
    const std::string text = std::string("= \"") + codec + "\"\n";
    EXPECT_EQ(message_of("[swarm]\ncompress_activations " + text + "compress_gradients " + text),
              "accepted");
  }
  EXPECT_EQ(message_of("[swarm]\ncompress_gradients = \"int4\""),
            "d.toml:2: swarm.compress_gradients = \"int4\" is not available in this version, only "
            "\"none\", \"fp16\", \"bf16\", \"uniform8\", \"blockwise8\"");
}

TEST(Override, IsBlamedForTheRuleItBreaks) {
  EXPECT_EQ(message_of("[swarm]\nstages = 4\n", {"model.layers=3"}),
            "--set model.layers=3: swarm.stages = 4 must not exceed model.layers = 3");
}

// As of `swarmpi check <(sed ... my.toml)`.
TEST(LoadDeck, ReadsAPipeThatTheShellHandsOver) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text = "[train]\nsteps = 17\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const Result<Config> read = load_deck("/dev/fd/" + std::to_string(ends[0]), {});
  ::close(ends[0]);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().train.steps, 17);
}

TEST(LoadDeck, FilesThatAreNoDecks) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "swarmpi_deck_test";
  std::filesystem::create_directories(folder);
  const auto message = [](const std::filesystem::path& path) {
    const Result<Config> config = load_deck(path, {});
    return config.ok() ? "accepted" : config.status().message();
  };
  const std::string missing = folder / "missing.toml";
  EXPECT_EQ(message(missing), missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(message(folder), folder.string() + ": cannot be read: it is a folder, not a file");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message(pipe), pipe + ": cannot be read: it is a pipe, not a file");

  const std::string large = folder / "large.toml";
  std::ofstream(large) << std::string(3 << 20, '\n');
  EXPECT_EQ(message(large), "accepted");
  std::filesystem::resize_file(large, (16 << 20) + 1);
  EXPECT_EQ(message(large),
            large + ": cannot be read: it is too large: 16777217 bytes, 16777216 are allowed");

  const std::string wide = folder / "wide.toml";
  for (const std::string& text : {std::string("\xFF\xFE[\0", 4), std::string("\xFE\xFF\0[", 4),
                                  std::string("[\0t\0", 4), std::string("\0[\0t", 4)}) {
    std::ofstream(wide, std::ios::binary) << text;
    EXPECT_EQ(message(wide), wide + ": is UTF-16, not UTF-8: save it as UTF-8");
  }

  const std::string good = folder / "good.toml";
  std::ofstream(good) << "[train]\r\nlr = 0.5\r\n";
  const Result<Config> config = load_deck(good, {"train.steps=7"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config.value().train.lr, 0.5);
  EXPECT_EQ(config.value().train.steps, 7);
  std::filesystem::remove_all(folder);
}

TEST(LoadDeck, TheDecksOfTheProjectAreGood) {
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(SWARMPI_SOURCE_DIR "/inputs")) {
    if (file.path().extension() != ".toml") continue;
    const Result<Config> config = load_deck(file.path(), {});
    EXPECT_TRUE(config.ok()) << config.status().message();
  }
}

TEST(DeckDifferences, NameWhatDiffersInSchemaOrder) {
  Config a, b;
  EXPECT_TRUE(deck_differences(a, b).empty());
  b.train.lr = 0.5;
  b.data.paths = {"x"};
  const auto differences = deck_differences(a, b);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].key, "data.paths");
  EXPECT_EQ(differences[0].a, "[]");
  EXPECT_EQ(differences[0].b, "[\"x\"]");
  EXPECT_EQ(differences[1].key, "train.lr");
  EXPECT_EQ(differences[1].a, "0.001");
  EXPECT_EQ(differences[1].b, "0.5");
}

TEST(Resume, WhereCutsChangeBitsTheyStay) {
  for (const char* key : {"swarm.stages", "swarm.cuts"}) {
    EXPECT_TRUE(may_change_on_resume(key, false)) << key;
    EXPECT_FALSE(may_change_on_resume(key, true)) << key;
  }
  Config config;
  config.swarm.compress_gradients = Codec::bf16;
  EXPECT_FALSE(config.swarm.cuts_matter()) << "one stage";
  config.swarm.stages = 2;
  EXPECT_TRUE(config.swarm.cuts_matter());
  EXPECT_FALSE(may_change_on_resume("swarm.fp16_scale", false));
}

TEST(Resume, OnlyWhatLeavesTheTrajectoryAloneMayChange) {
  for (const char* key :
       {"swarm.method", "swarm.stages", "swarm.wiring", "swarm.seed", "compute.threads",
        "train.steps", "data.paths", "data.validation_paths", "faults.seed", "output.run"}) {
    EXPECT_TRUE(may_change_on_resume(key, false)) << key;
  }
  for (const char* key :
       {"model.layers", "data.format", "data.validation_fraction", "data.hash", "train.seed",
        "train.lr", "swarm.boundary", "swarm.boundary_factor", "swarm.compress_activations",
        "swarm.compress_reduction", "no.such_key"}) {
    EXPECT_FALSE(may_change_on_resume(key, false)) << key;
  }
}

}  // namespace
}  // namespace swarmpi::deck_test
