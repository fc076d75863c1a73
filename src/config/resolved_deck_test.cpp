// The resolved deck is stored in every output: it must read back as exactly the config that it was
// made of.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "config/deck.hpp"
#include "config/rules.hpp"
#include "config/schema.hpp"

namespace swarmpi::resolved_deck_test {
namespace {

class RandomConfigs {
 public:
  Config next() {
    Config config;
    for (const KeySpec& key : schema()) {
      if (key.default_only) continue;
      std::visit([&](auto field) { fill(field(config), key); }, key.field);
    }
    keep_rules(config);
    add_rows(config);
    return config;
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  void fill(bool& value, const KeySpec&) { value = between(0, 1) == 1; }
  void fill(std::int64_t& value, const KeySpec& key) {
    const double max = std::fmin(key.range.max, 0x1p30);
    value = between(static_cast<std::int64_t>(key.range.min), static_cast<std::int64_t>(max));
  }
  void fill(std::uint64_t& value, const KeySpec&) {
    value = static_cast<std::uint64_t>(between(0, std::numeric_limits<std::int64_t>::max()));
  }
  void fill(double& value, const KeySpec& key) {
    do {
      value = std::bit_cast<double>(engine_());
    } while (!(value > key.range.min && value < key.range.max));
  }
  void fill(std::string& value, const KeySpec& key) {
    value = key.available.empty() ? text() : key.available.front();
  }
  void fill(std::uint8_t& value, const KeySpec& key) {
    const auto names = key.choices();
    const auto taken = [&](std::string_view name) {
      return key.available.empty() ||
             std::count(key.available.begin(), key.available.end(), name) > 0;
    };
    do {
      value = static_cast<std::uint8_t>(between(0, static_cast<std::int64_t>(names.size()) - 1));
    } while (!taken(names[value]));
  }
  void fill(std::vector<std::string>& value, const KeySpec&) {
    value.resize(static_cast<std::size_t>(between(0, 3)));
    for (std::string& item : value) item = text();
  }
  void fill(std::vector<std::int64_t>& value, const KeySpec&) { value = {between(0, 9)}; }

  std::string text() {
    static const std::vector<std::string> pieces = {
        "a",    "/",    " ", "\"", "\\", "'", "\n",     "\r", "\t",    "\x01",
        "\x1f", "\x7f", "#", "=",  "]",  "é", "\u2028", "😀",  "u0041", "\\n"};
    std::string joined;
    for (std::int64_t n = between(1, 8); n > 0; --n) {
      joined += pieces[static_cast<std::size_t>(
          between(0, static_cast<std::int64_t>(pieces.size()) - 1))];
    }
    return joined;
  }

  void keep_rules(Config& config) {
    config.model.heads = between(1, 64);
    config.model.width = config.model.heads * between(1, 64);
    config.model.shared_groups = between(0, 8);
    config.model.layers = between(1, 8) * std::max<std::int64_t>(1, config.model.shared_groups);
    config.swarm.stages = between(1, config.model.layer_sets());
    for (std::int64_t& pin : config.swarm.pins) pin %= config.swarm.stages;
    const std::int64_t layers_per_set = config.model.layers / config.model.layer_sets();
    config.swarm.cuts.clear();
    const bool cuts = between(0, 1) == 1;
    for (std::int64_t s = 1; cuts && s < config.swarm.stages; ++s) {
      config.swarm.cuts.push_back(s * layers_per_set);
    }
    config.swarm.boundary = Boundary::plain;
    config.swarm.fp16_scale = std::ldexp(1.0, static_cast<int>(between(-126, 126)));
    if (config.swarm.recovery == Recovery::off) config.swarm.rebalance = Rebalance::none;
    config.swarm.shadows = std::min(config.swarm.shadows, config.swarm.spares);
    if (config.swarm.recovery == Recovery::off) config.swarm.shadows = 0;
    if (config.swarm.has_pipelines()) keep_rules_of_pipelines(config);
    config.model.vocab = between(1, 65536);
    config.data.hash = between(0, 1) == 0 ? "" : "0123456789abcdef";
    config.model.initial_hash = between(0, 1) == 0 ? "" : "fedcba9876543210";
    config.model.ffn = between(0, 1 << 14);
    config.model.context = between(1, 1 << 12);
    config.train.microbatches = between(1, 1 << 10);
    config.train.microbatch_size = between(1, 1 << 6);
    config.train.warmup_steps = between(0, config.train.scheduled_steps());
    config.train.min_lr = std::fmin(config.train.min_lr, config.train.lr);
    if (config.train.clip < 1e-30) config.train.clip = 0;
    if (config.swarm.heartbeat_s > config.swarm.suspect_after_s) {
      std::swap(config.swarm.heartbeat_s, config.swarm.suspect_after_s);
    }
    if (config.swarm.heartbeat_s < 1e-3) config.swarm.heartbeat_s = 1e-3;
    if (config.swarm.suspect_after_s <= 1e-3) config.swarm.suspect_after_s = 2e-3;
    if (config.faults.mode == FaultsMode::none) config.faults.trace.clear();
    if (config.faults.mode == FaultsMode::none) config.faults.mtbf_s = 0;
    if (config.faults.mode == FaultsMode::none) config.swarm.notice_s = 0;
    if (config.faults.mode == FaultsMode::emulated) config.swarm.spawn = false;
    if (config.swarm.recovery == Recovery::off) config.swarm.spawn = false;
  }

  void keep_rules_of_pipelines(Config& config) {
    if (config.swarm.has_owners()) config.train.optimizer = Optimizer::adamw;
    if (config.swarm.method == Method::data_parallel || config.swarm.has_owners()) {
      config.swarm.stages = 1;
      config.swarm.cuts.clear();
    }
    if (config.swarm.method == Method::gpipe) config.compute.recompute = Recompute::as_needed;
    config.swarm.rebalance = Rebalance::none;
    config.swarm.wiring = Wiring::fixed;
    config.swarm.pins.clear();
    config.swarm.window = 0;
    config.swarm.shadows = 0;
    config.swarm.spawn = false;
    config.train.updates = Updates::synchronous;
  }

  void add_rows(Config& config) {
    for (const TableSpec& table : tables()) {
      table.resize(config, 0);
      for (std::int64_t rows = between(0, 3); rows > 0; --rows) {
        table.resize(config, table.count(config) + 1);
        for (const KeySpec& key : table.keys) {
          std::visit([&](auto field) { fill(field(config), key); }, key.field);
        }
      }
    }
    const std::vector<std::string> names = {"a", "slow-1", "2_fast"};
    for (std::size_t i = 0; i < config.devices.size(); ++i) config.devices[i].name = names[i];
    for (std::size_t i = 0; i < config.links.size(); ++i) config.links[i].name = names[i];
    for (std::size_t i = 0; i < config.sites.size(); ++i) config.sites[i].name = names[i];
    if (config.compute.kernels == Kernels::none) {
      if (config.compute.fidelity == Fidelity::real) config.compute.fidelity = Fidelity::emulated;
      config.output.validate_every = 0;
      for (PeersConfig& row : config.peer_classes) row.kernels = PeerKernels::as_all;
    }
    keep_rules_of_machines(config);
    if (config.model.width / config.model.heads > 256) {  // too wide for a GPU
      config.compute.kernels = Kernels::native;
      for (PeersConfig& row : config.peer_classes) row.kernels = PeerKernels::as_all;
    }
    for (FaultAt& fault : config.faults_at) {
      if (config.faults.mode == FaultsMode::none) fault.event = FaultEvent::flip;
      if (fault.event == FaultEvent::flip) fault.point = FaultPoint::any;
      const bool of_one = fault.event != FaultEvent::flip && fault.point == FaultPoint::backward;
      fault.microbatch = of_one ? between(-1, config.train.microbatches - 1) : -1;
    }
    if (config.compute.kernels == Kernels::none) {
      std::erase_if(config.faults_at, [](const auto& f) { return f.event == FaultEvent::flip; });
    }
    keep_rules_of_collectives(config);
  }

  void keep_rules_of_machines(Config& config) {
    for (DeviceConfig& device : config.devices) {
      if (between(0, 1) == 1) {
        device.gflops = 0;
        device.peak_tflops = 125;
      } else {
        device = {device.name, 1e3 + device.gflops, device.overhead_s};
      }
    }
    if (config.sites.size() < 2) config.routes.clear();
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
      config.routes[i].sites = {config.sites[i % config.sites.size()].name,
                                config.sites[(i + 1) % config.sites.size()].name};
    }
    if (config.sites.size() == 2)
      config.routes.resize(std::min<std::size_t>(1, config.routes.size()));
    if (config.devices.empty()) config.peer_classes.clear();
    for (std::size_t i = 0; i < config.peer_classes.size(); ++i) {
      PeersConfig& row = config.peer_classes[i];
      row.device = config.devices[i % config.devices.size()].name;
      row.link = config.links.empty() ? "" : config.links.front().name;
      row.site = config.sites.empty() ? "" : config.sites.back().name;
      const auto first = static_cast<std::int64_t>(i) * 100;
      row.peers = {first, first + between(1, 99)};
      if (!config.swarm.allow_mixed) row.kernels = PeerKernels::as_all;
    }
    if (between(0, 1) == 1 && !config.peer_classes.empty()) config.peer_classes[0].peers.clear();
    if (config.compute.fidelity == Fidelity::emulated) {
      for (PeersConfig& row : config.peer_classes) row.site.clear();  // shared lines, perhaps
    }
  }

  static void keep_rules_of_collectives(Config& config) {
    if (broken_rule_of_collectives(config)) config.swarm.collectives = Collectives::none;
  }

  std::mt19937_64 engine_{20240117};
};

void expect_equal(Config a, Config b) {
  for (const KeySpec& key : schema()) {
    std::visit([&](auto field) { EXPECT_EQ(field(a), field(b)) << key.full_name(); }, key.field);
  }
  for (const TableSpec& table : tables()) {
    ASSERT_EQ(table.count(a), table.count(b)) << table.name;
    for (std::size_t row = 0; row < table.count(a); ++row) {
      Config row_a = table.alone(a, row), row_b = table.alone(b, row);
      EXPECT_EQ(table.row_id(a, row), table.row_id(b, row));
      for (const KeySpec& key : table.keys) {
        std::visit([&](auto field) { EXPECT_EQ(field(row_a), field(row_b)) << key.full_name(); },
                   key.field);
      }
    }
  }
}

TEST(ResolvedDeck, ReadsBackAsTheSameConfig) {
  RandomConfigs configs;
  for (int i = 0; i < 2000; ++i) {
    const Config config = configs.next();
    const std::string deck = resolved_deck(config);
    const Result<Config> again = parse_deck(deck, "resolved", {});
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << deck;
    expect_equal(config, again.value());
    EXPECT_EQ(resolved_deck(again.value()), deck);
    EXPECT_TRUE(deck_differences(config, again.value()).empty());
    ASSERT_FALSE(HasFailure()) << deck;
  }
}

TEST(ResolvedDeck, HoldsEveryKeyOnce) {
  const std::string deck = resolved_deck(Config{});
  std::size_t lines = 0;
  for (const char c : deck) lines += c == '=' ? 1 : 0;
  EXPECT_EQ(lines, schema().size());
}

TEST(ResolvedDeck, NumbersAreShortest) {
  Config config;
  config.train.lr = 0.1;
  config.train.epsilon = 5e-324;
  config.train.clip = 1e22;
  config.train.weight_decay = 3;
  const std::string deck = resolved_deck(config);
  EXPECT_NE(deck.find("\nlr = 0.1\n"), std::string::npos) << deck;
  EXPECT_NE(deck.find("\nepsilon = 5e-324\n"), std::string::npos) << deck;
  EXPECT_NE(deck.find("\nclip = 1e+22\n"), std::string::npos) << deck;
  EXPECT_NE(deck.find("\nweight_decay = 3.0\n"), std::string::npos) << deck;
}

}  // namespace
}  // namespace swarmpi::resolved_deck_test
