// [devices.NAME], [links.NAME], [[peers]] and the like: tables that a deck may give any number of
// times.

#include <gtest/gtest.h>

#include <map>

#include "config/deck.hpp"
#include "config/machine_rules.hpp"

namespace swarmpi::tables_test {
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

const std::string kDeck = R"([[peers]]
peers = [1, 3]
device = "slow"
[devices.fast]
gflops = 80
[[faults.at]]
step = 7
peer = 1
event = "flip"
[devices.slow]
gflops = 20.5
overhead_s = 1e-4
[[peers]]
peers = [0]
device = "fast"
[[faults.at]]
step = 9
peer = 0
event = "flip"
[faults]
mode = "none"
)";

void expect_deck(const Config& config) {
  ASSERT_EQ(config.devices.size(), 2u);
  EXPECT_EQ(config.devices[0].name, "fast");
  EXPECT_EQ(config.devices[0].gflops, 80);
  EXPECT_EQ(config.devices[0].overhead_s, 0);
  EXPECT_EQ(config.devices[1].name, "slow");
  EXPECT_EQ(config.devices[1].gflops, 20.5);
  EXPECT_EQ(config.devices[1].overhead_s, 1e-4);
  ASSERT_EQ(config.peer_classes.size(), 2u);
  EXPECT_EQ(config.peer_classes[0].peers, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(config.peer_classes[0].device, "slow");
  EXPECT_EQ(config.peer_classes[1].peers, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(config.peer_classes[1].device, "fast");
  ASSERT_EQ(config.faults_at.size(), 2u);
  EXPECT_EQ(config.faults_at[0].step, 7);
  EXPECT_EQ(config.faults_at[0].peer, 1);
  EXPECT_EQ(config.faults_at[0].event, FaultEvent::flip);
  EXPECT_EQ(config.faults_at[1].step, 9);
}

TEST(Tables, RowsReachTheirPlaceInTheOrderOfTheFile) { expect_deck(config_of(kDeck)); }

TEST(Tables, InlineTablesAreTheSameDeck) {
  expect_deck(config_of(R"(
peers = [{peers = [1, 3], device = "slow"}, {peers = [0], device = "fast"}]
devices.fast.gflops = 80
devices.slow = {gflops = 20.5, overhead_s = 1e-4}
faults.at = [{step = 7, peer = 1, event = "flip"}, {step = 9, peer = 0, event = "flip"}]
)"));
  EXPECT_TRUE(config_of("peers = []\nfaults.at = []\n[devices]\n").peer_classes.empty());
}

TEST(Tables, KeysOfTwoRowsMayAlternate) {
  const Config config = config_of(
      "devices.a.gflops = 1\ndevices.b.gflops = 2\ndevices.a.overhead_s = 3\n"
      "devices.b.overhead_s = 4\n");
  ASSERT_EQ(config.devices.size(), 2u);
  EXPECT_EQ(config.devices[0].gflops, 1);
  EXPECT_EQ(config.devices[0].overhead_s, 3);
  EXPECT_EQ(config.devices[1].gflops, 2);
  EXPECT_EQ(config.devices[1].overhead_s, 4);
}

TEST(Tables, AreLeftAloneByRunsOnRealDevices) {
  EXPECT_EQ(config_of(kDeck).compute.fidelity, Fidelity::real);
  EXPECT_EQ(config_of(kDeck, {"compute.fidelity=emulated"}).compute.fidelity, Fidelity::emulated);
  EXPECT_EQ(config_of(kDeck, {"compute.fidelity=simulated"}).compute.fidelity, Fidelity::simulated);
}

struct BadDeck {
  const char* deck;
  const char* message;
};

class BadTables : public testing::TestWithParam<BadDeck> {};

TEST_P(BadTables, OneClearMessage) { EXPECT_EQ(message_of(GetParam().deck), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Form, BadTables,
    testing::Values(
        BadDeck{"[peers]\npeers = [1]", "d.toml:1: peers: is a table: write [[peers]]"},
        BadDeck{"peers = 3", "d.toml:1: peers: is a table: write [[peers]]"},
        BadDeck{"peers = [3]", "d.toml:1: peers: is a table: write [[peers]]"},
        BadDeck{"[faults.at]\nstep = 1", "d.toml:1: faults.at: is a table: write [[faults.at]]"},
        BadDeck{"[faults]\nat = 1", "d.toml:2: faults.at: is a table: write [[faults.at]]"},
        BadDeck{"[[devices]]\ngflops = 1", "d.toml:1: devices: is a table: write [devices.NAME]"},
        BadDeck{"devices = 1", "d.toml:1: devices: is a table: write [devices.NAME]"},
        BadDeck{"[devices]\ngflops = 1",
                "d.toml:2: devices.gflops: is a table: write [devices.NAME]"},
        BadDeck{"[[devices.slow]]\ngflops = 1",
                "d.toml:1: devices.slow: is a table: write [devices.NAME]"},
        BadDeck{"[devices.\"a b\"]\ngflops = 1",
                "d.toml:1: devices.\"a b\": a name is letters, digits, _ and -"},
        BadDeck{"[devices.a]\ngflops = 1\n[devices.a]\ngflops = 2",
                "d.toml:3: not valid TOML: section 'devices.a' stands twice"},
        BadDeck{"[device.slow]\ngflops = 1",
                "d.toml:1: device: unknown section; did you mean [devices.NAME]?"},
        BadDeck{"[[peer]]\npeers = [1]",
                "d.toml:1: peer: unknown section; did you mean [[peers]]?"},
        BadDeck{"[[faults.att]]\nstep = 1",
                "d.toml:1: faults.att: unknown key; did you mean faults.at?"}));

INSTANTIATE_TEST_SUITE_P(
    Keys, BadTables,
    testing::Values(
        BadDeck{"[devices.slow]\ngflop = 1",
                "d.toml:2: devices.slow.gflop: unknown key; did you mean gflops?"},
        BadDeck{"[devices.slow]\nwatts = 1",
                "d.toml:2: devices.slow.watts: unknown key; the keys of [devices.NAME] are gflops, "
                "peak_tflops, efficiency, half_width, overhead_s, memory_gb_per_s, memory_gb, "
                "price_per_hour"},
        BadDeck{"[links.home]\nup_mbit = 1",
                "d.toml:2: links.home.up_mbit: unknown key; did you mean up_mbps?"},
        BadDeck{"[[faults.at]]\nsteps = 1",
                "d.toml:2: faults.at.steps: unknown key; did you mean step?"},
        BadDeck{"[devices.slow]\n\n[train]\n",
                "d.toml:1: devices.slow needs gflops or peak_tflops above 0"},
        BadDeck{"[[routes]]\nmbps = 5", "d.toml:1: routes: needs sites: a list of texts"},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\n[[faults.at]]\nevent = \"flip\"\n",
                "d.toml:1: faults.at: needs event: one of \"kill\", \"notice\", \"join\", "
                "\"stop\", \"continue\", \"cut\", \"heal\", \"flip\""}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadTables,
    testing::Values(
        BadDeck{"[devices.slow]\ngflops = 0",
                "d.toml:2: devices.slow needs gflops or peak_tflops above 0"},
        BadDeck{"[devices.slow]\ngflops = -1",
                "d.toml:2: devices.slow.gflops: expected a number >= 0 and <= 1e+12, got -1"},
        BadDeck{"[devices.slow]\ngflops = \"20\"",
                "d.toml:2: devices.slow.gflops: expected a number >= 0 and <= 1e+12, got \"20\""},
        BadDeck{"[links.home]\nlatency_s = -0.01",
                "d.toml:2: links.home.latency_s: expected a number >= 0 and <= 1e+09, got -0.01"},
        BadDeck{"[[peers]]\npeers = 1",
                "d.toml:2: peers.peers: expected a list of integers >= 0 and < 1048576, got 1"},
        BadDeck{"[[faults.at]]\nstep = -1",
                "d.toml:2: faults.at.step: expected an integer >= 0, got -1"},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\nevent = \"flop\"",
                "d.toml:4: faults.at.event: expected one of \"kill\", \"notice\", \"join\", "
                "\"stop\", \"continue\", \"cut\", \"heal\", \"flip\", got \"flop\"; did you mean "
                "\"flip\"?"},
        BadDeck{
            "[[faults.at]]\nstep = 1\npeer = 1\nevent = \"flip\"\n"
            "[[faults.at]]\nstep = 1\npeer = 1\nevent = \"kill\"",
            "d.toml:8: faults.at.event = \"kill\" needs faults.mode = \"kill\" or \"emulated\""},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\nevent = \"flip\"\nmicrobatch = 2",
                "d.toml:5: faults.at.event = \"flip\" takes no point and no microbatch: the bit "
                "flips after the step"},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\nevent = \"join\"",
                "d.toml:4: faults.at.event = \"join\" is not available in this version, only "
                "\"kill\", \"notice\", \"flip\""},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\nevent = \"kill\"\nmicrobatch = 2\n"
                "point = \"apply\"\n[faults]\nmode = \"kill\"\n[train]\nmicrobatches = 4",
                "d.toml:5: faults.at.microbatch is for the points forward and backward, not "
                "\"apply\""},
        BadDeck{"[[faults.at]]\nstep = 1\npeer = 1\nevent = \"kill\"\nmicrobatch = 4\n"
                "[faults]\nmode = \"kill\"\n[train]\nmicrobatches = 4",
                "d.toml:5: faults.at.microbatch = 4 must be below train.microbatches = 4"}));

INSTANTIATE_TEST_SUITE_P(
    Rules, BadTables,
    testing::Values(
        BadDeck{"[[peers]]\npeers = [1]\ndevice = \"slwo\"\n[devices.slow]\ngflops = 1",
                "d.toml:3: peers.device = \"slwo\": there is no [devices.slwo]; did you mean "
                "\"slow\"?"},
        BadDeck{"[[peers]]\npeers = [1]\ndevice = \"slow\"",
                "d.toml:3: peers.device = \"slow\": there is no [devices.slow]"},
        BadDeck{"[[peers]]\ndevice = \"a\"\n[devices.a]\ngflops = 1\n"
                "[[peers]]\ndevice = \"a\"",
                "d.toml:5: peers.peers: a second row without ids, for all peers that no other row "
                "names: there can be one"},
        BadDeck{"[[peers]]\npeers = [2, 1, 2]\ndevice = \"a\"\n[devices.a]\ngflops = 1",
                "d.toml:2: peers.peers: peer 2 is listed twice"},
        BadDeck{"[[peers]]\npeers = [1, 2]\ndevice = \"a\"\n[devices.a]\ngflops = 1\n"
                "[[peers]]\npeers = [0, 1]\ndevice = \"a\"",
                "d.toml:7: peers.peers: peer 1 is listed twice"},
        BadDeck{"[[peers]]\npeers = [1]",
                "d.toml:1: peers: names neither a device, a link, a site nor kernels"},
        BadDeck{"[[peers]]\npeers = [1]\nkernels = \"reference\"",
                "d.toml:3: peers.kernels = \"reference\" beside compute.kernels = \"native\" needs "
                "swarm.allow_mixed = true: their bits differ"},
        BadDeck{"[model]\nwidth = 1024\nheads = 2\n[compute]\nkernels = \"cuda\"",
                "d.toml:3: heads of model.width / model.heads = 512 are too wide for kernels = "
                "\"cuda\": at most 256"},
        BadDeck{"[swarm]\nstages = 2\npins = [0, 2]",
                "d.toml:3: swarm.pins: 2 is no stage: swarm.stages = 2, and the first is stage "
                "0"}));

const std::string kNetwork = R"([links.home]
latency_s = 0.015
up_mbps = 50
down_mbps = 200
slow_start = true
[sites.campus]
up_mbps = 1000
[sites.cloud]
[[routes]]
sites = ["campus", "cloud"]
latency_s = 0.04
mbps = 400
[[peers]]
link = "home"
[[peers]]
peers = [0, 1]
site = "campus"
[[peers]]
peers = [2]
site = "cloud"
link = "home"
)";

TEST(Tables, ANetworkIsLinksSitesAndRoutes) {
  const Config config = config_of(kNetwork);
  ASSERT_EQ(config.links.size(), 1u);
  EXPECT_EQ(config.links[0].latency_s, 0.015);
  EXPECT_EQ(config.links[0].up_mbps, 50);
  EXPECT_TRUE(config.links[0].slow_start);
  ASSERT_EQ(config.sites.size(), 2u);
  EXPECT_EQ(config.sites[0].up_mbps, 1000);
  EXPECT_EQ(config.sites[1].name, "cloud");
  ASSERT_EQ(config.routes.size(), 1u);
  EXPECT_EQ(config.routes[0].sites, (std::vector<std::string>{"campus", "cloud"}));
  ASSERT_EQ(config.peer_classes.size(), 3u);
  EXPECT_TRUE(config.peer_classes[0].peers.empty()) << "all others";
  EXPECT_EQ(config.peer_classes[1].site, "campus");
  EXPECT_TRUE(deck_differences(config, config_of(resolved_deck(config))).empty());
}

TEST(Tables, ALineIsSharedWhereItIsBetweenPeersAndItsRateIsBounded) {
  const std::string sites =
      "[sites.a]\nup_mbps = 5\n[sites.b]\n[[routes]]\n"
      "sites = [\"a\", \"b\"]\nmbps = 7\n[[peers]]\npeers = [0]\n";
  EXPECT_FALSE(common_rate(config_of(sites + "site = \"b\"")));
  EXPECT_EQ(common_rate(config_of(sites + "site = \"a\""))->key, "up_mbps");
  const std::string both =
      "[sites.a]\n[sites.b]\n[[routes]]\nsites = [\"a\", \"b\"]\n"
      "mbps = 7\n[[peers]]\npeers = [0]\nsite = \"a\"\n[[peers]]\n"
      "site = \"b\"";
  EXPECT_EQ(common_rate(config_of(both))->key, "mbps");
  EXPECT_EQ(common_rate(config_of(both))->id, "routes[0]");
}

INSTANTIATE_TEST_SUITE_P(
    Networks, BadTables,
    testing::Values(
        BadDeck{"[[peers]]\npeers = [1]\nlink = \"hoem\"\n[links.home]",
                "d.toml:3: peers.link = \"hoem\": there is no [links.hoem]; did you mean "
                "\"home\"?"},
        BadDeck{"[[peers]]\npeers = [1]\nsite = \"cloud\"",
                "d.toml:3: peers.site = \"cloud\": there is no [sites.cloud]"},
        BadDeck{"[sites.a]\n[[routes]]\nsites = [\"a\", \"b\"]",
                "d.toml:3: routes.sites = \"b\": there is no [sites.b]; did you mean \"a\"?"},
        BadDeck{"[sites.a]\n[[routes]]\nsites = [\"a\", \"a\"]",
                "d.toml:3: routes.sites must name two sites: a route is between them"},
        BadDeck{"[sites.a]\n[sites.b]\n[[routes]]\nsites = [\"a\", \"b\"]\n"
                "[[routes]]\nsites = [\"b\", \"a\"]",
                "d.toml:6: routes.sites: there is a route between \"b\" and \"a\" already: one "
                "is for both directions"},
        BadDeck{"[swarm]\nspawn = true\n[compute]\nfidelity = \"emulated\"\n[sites.a]\n"
                "up_mbps = 5\n[[peers]]\nsite = \"a\"",
                "d.toml:2: swarm.spawn = true starts processes that do not know what others send "
                "over sites.a.up_mbps, which peers share: leave one of the two out"},
        BadDeck{"[compute]\nkernels = \"none\"",
                "d.toml:2: compute.kernels = \"none\" computes nothing: it needs "
                "compute.fidelity = \"emulated\""},
        BadDeck{"[compute]\nkernels = \"none\"\nfidelity = \"emulated\"\n[output]\n"
                "validate_every = 5",
                "d.toml:2: compute.kernels = \"none\" computes nothing: set "
                "output.validate_every = 0"},
        BadDeck{"[devices.a]\ngflops = 1\npeak_tflops = 1",
                "d.toml:3: devices.a has gflops and peak_tflops: leave one of them out"},
        BadDeck{"[devices.a]\ngflops = 1\nefficiency = 0.5",
                "d.toml:3: devices.a: efficiency and half_width are of peak_tflops, but gflops is "
                "given, which is sustained"}));

TEST(TableOverride, GivesAllRowsOfAListOrOneNamedRow) {
  const Config config = config_of(
      kDeck, {R"(faults.at=[{step = 3, peer = 2, event = "flip"}])", "devices.slow={gflops = 5}",
              R"(peers=[{peers = [2], device = "slow"}])", "devices.tiny={gflops = 1}"});
  ASSERT_EQ(config.faults_at.size(), 1u);
  EXPECT_EQ(config.faults_at[0].step, 3);
  ASSERT_EQ(config.devices.size(), 3u);
  EXPECT_EQ(config.devices[0].name, "fast");
  EXPECT_EQ(config.devices[1].name, "slow");
  EXPECT_EQ(config.devices[1].gflops, 5);
  EXPECT_EQ(config.devices[1].overhead_s, 0) << "what the deck said is gone";
  EXPECT_EQ(config.devices[2].name, "tiny");
  ASSERT_EQ(config.peer_classes.size(), 1u);
  EXPECT_TRUE(config_of(kDeck, {"faults.at=[]"}).faults_at.empty());
}

TEST(TableOverride, MistakesNameTheOverride) {
  const auto of = [](const std::string& text) { return message_of(kDeck, {text}); };
  EXPECT_EQ(of("peers=3"), "--set peers=3: expected peers=[{key = value, ...}, ...]");
  EXPECT_EQ(of("peers=[3]"), "--set peers=[3]: peers: is a table: write [[peers]]");
  EXPECT_EQ(of("faults.at={step=1}"),
            "--set faults.at={step=1}: expected faults.at=[{key = value, ...}, ...]");
  EXPECT_EQ(of("faults.at=[{step=1}]"),
            "--set faults.at=[{step=1}]: faults.at: needs peer: an integer >= 0 and < 1048576");
  EXPECT_EQ(of("devices=[]"), "--set devices=[]: expected devices.NAME={key = value, ...}");
  EXPECT_EQ(of("devices.slow=3"), "--set devices.slow=3: expected devices.NAME={key = value, ...}");
  EXPECT_EQ(of("devices.slow={gflop=3}"),
            "--set devices.slow={gflop=3}: devices.slow.gflop: unknown key; did you mean gflops?");
  EXPECT_EQ(of("devices.a b={gflops=3}"),
            "--set devices.a b={gflops=3}: devices.a b: a name is letters, digits, _ and -");
  EXPECT_EQ(of(R"(peers=[{peers=[1], device="quick"}])"),
            R"(--set peers=[{peers=[1], device="quick"}]: peers.device = "quick": there is no )"
            R"([devices.quick])");
}

TEST(Tables, MessagesFromElsewhereGetThePlaceOfTheRow) {
  const Config config = config_of(kDeck);
  EXPECT_EQ(with_place(config, Status::bad_input("faults.at[1]: no such peer")).message(),
            "d.toml:16: faults.at[1]: no such peer");
  EXPECT_EQ(with_place(config, Status::bad_input("faults.at: nobody is there")).message(),
            "d.toml:6: faults.at: nobody is there");
  EXPECT_EQ(with_place(Config{}, Status::bad_input("faults.at: x")).message(), "faults.at: x");
}

TEST(Tables, ResolvedDeckHoldsThem) {
  const std::string deck = resolved_deck(config_of(kDeck));
  EXPECT_NE(deck.find("\n[devices.slow]\ngflops = 20.5\n"), std::string::npos) << deck;
  EXPECT_NE(deck.find("\noverhead_s = 1e-04\n"), std::string::npos) << deck;
  EXPECT_NE(deck.find("\n[[peers]]\npeers = [1, 3]\ndevice = \"slow\"\n"), std::string::npos);
  expect_deck(config_of(deck));
}

TEST(Tables, DifferencesShowAllRowsAndMayBeOnResume) {
  const Config a = config_of(kDeck);
  const Config b = config_of(kDeck, {"faults.at=[]", "devices.fast={gflops = 2}"});
  const auto differences = deck_differences(a, b);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].key, "devices");
  EXPECT_EQ(differences[0].a,
            "{fast = {gflops = 80.0, peak_tflops = 0.0, efficiency = 1.0, half_width = 0.0, "
            "overhead_s = 0.0, memory_gb_per_s = 0.0, memory_gb = 0.0, price_per_hour = 0.0}, "
            "slow = {gflops = 20.5, peak_tflops = 0.0, efficiency = 1.0, half_width = 0.0, "
            "overhead_s = 1e-04, memory_gb_per_s = 0.0, memory_gb = 0.0, price_per_hour = 0.0}}");
  EXPECT_EQ(differences[1].key, "faults.at");
  EXPECT_EQ(differences[1].b, "[]");
  for (const char* key : {"devices", "links", "sites", "routes", "peers", "faults.at"})
    EXPECT_TRUE(may_change_on_resume(key, false));
}

TEST(Tables, EachValueOfARowHasAKeyOfItsOwn) {
  std::map<std::string, std::string> values;
  for (const DeckValue& of : deck_values(config_of(kDeck))) {
    EXPECT_TRUE(values.emplace(of.key, of.value).second) << of.key;
  }
  EXPECT_EQ(values.at("model.layers"), std::to_string(config_of(kDeck).model.layers));
  EXPECT_EQ(values.at("devices.slow.gflops"), "20.5");
  EXPECT_EQ(values.at("devices.fast.gflops"), "80.0");
  EXPECT_EQ(values.at("peers[0].device"), "\"slow\"");
  EXPECT_TRUE(values.contains("faults.at[0].step"));
  EXPECT_FALSE(values.contains("devices"));
}

}  // namespace
}  // namespace swarmpi::tables_test
