#include "config/schema.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/deck.hpp"
#include "config/value.hpp"

namespace swarmpi::schema_test {
namespace {

TEST(Schema, EveryKeyHasItsOwnNameAndPlace) {
  Config config;
  std::set<std::string> names;
  std::set<const void*> places;
  for (const KeySpec& key : schema()) {
    EXPECT_TRUE(names.insert(key.full_name()).second) << key.full_name();
    const void* place =
        std::visit([&](auto field) -> const void* { return &field(config); }, key.field);
    EXPECT_TRUE(places.insert(place).second) << key.full_name();
    EXPECT_FALSE(key.help.empty()) << key.full_name();
    EXPECT_EQ(find_key(key.section, key.name), &key);
  }
  EXPECT_EQ(find_key("train", "no_such_key"), nullptr);
}

struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

/// Members of a struct without constructors.
template <class Struct, class... Members>
constexpr std::size_t members() {
  if constexpr (requires { Struct{Members{}..., Anything{}}; }) {
    return members<Struct, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

// A member that was added to Config but not to the table would be lost in resolved decks.
TEST(Schema, CoversAllOfConfig) {
  const std::map<std::string_view, std::size_t> expected = {
      {"model", members<ModelConfig>()},     {"data", members<DataConfig>()},
      {"train", members<TrainConfig>()},     {"swarm", members<SwarmConfig>()},
      {"compute", members<ComputeConfig>()}, {"faults", members<FaultsConfig>()},
      {"output", members<OutputConfig>()}};
  std::map<std::string_view, std::size_t> found;
  for (const KeySpec& key : schema()) ++found[key.section];
  EXPECT_EQ(found, expected);
  EXPECT_EQ(members<Config>(), sections().size() + tables().size() + 1) << "and the places";
}

TEST(Schema, TablesCoverTheirRows) {
  const std::vector<std::size_t> sizes = {members<DeviceConfig>(), members<LinkConfig>(),
                                          members<SiteConfig>(),   members<RouteConfig>(),
                                          members<PeersConfig>(),  members<FaultAt>()};
  ASSERT_EQ(tables().size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const TableSpec& table = tables()[i];
    EXPECT_EQ(find_table(table.name), &table);
    EXPECT_FALSE(table.help.empty());
    Config config;
    table.resize(config, 1);
    std::set<const void*> places;
    for (const KeySpec& key : table.keys) {
      EXPECT_EQ(table.find_key(key.name), &key);
      EXPECT_EQ(key.on_resume, OnResume::may_change);
      EXPECT_FALSE(key.help.empty()) << key.full_name();
      EXPECT_FALSE(key.default_only) << key.full_name();
      std::visit(
          [&](auto field) { EXPECT_TRUE(places.insert(&field(config)).second) << key.full_name(); },
          key.field);
    }
    EXPECT_EQ(table.keys.size() + (table.named() ? 1 : 0), sizes[i]) << table.name;
  }
}

TEST(Schema, DefaultsAreAllowedAndAvailable) {
  for (const KeySpec& key : schema()) {
    Config config;
    const Result<TomlValue> value = read_toml_value(value_text(config, key));
    ASSERT_TRUE(value.ok()) << key.full_name();
    EXPECT_EQ(assign(config, key, value.value()).value_or(""), "") << key.full_name();
    EXPECT_EQ(check_available(config, key).value_or(""), "") << key.full_name();
  }
}

TEST(Schema, WhatIsAvailableIsAmongTheChoices) {
  for (const KeySpec& key : schema()) {
    for (const std::string_view name : key.available) {
      const auto choices = key.choices();
      const bool chosen = std::find(choices.begin(), choices.end(), name) != choices.end();
      EXPECT_TRUE(choices.empty() || chosen) << key.full_name() << ' ' << name;
    }
  }
}

TEST(DeckReference, TellsEveryKeyWithItsDefault) {
  const std::string text = deck_reference();
  for (const KeySpec& key : schema()) {
    const std::string line = "  " + std::string(key.name) + " = " + value_text(Config{}, key);
    EXPECT_NE(text.find(line), std::string::npos) << line;
    EXPECT_NE(text.find(key.help), std::string::npos) << key.full_name();
  }
  for (const TableSpec& table : tables()) {
    EXPECT_NE(text.find("\n" + table.header() + " "), std::string::npos) << table.name;
    for (const KeySpec& key : table.keys) {
      EXPECT_NE(text.find(key.help), std::string::npos) << key.full_name();
    }
  }
  EXPECT_EQ(text.find('\t'), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::schema_test
