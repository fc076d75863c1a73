#include "commands/bench/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace swarmpi {
namespace {

TEST(Json, WritesWhatWasAddedInOrder) {
  JsonObject inner;
  inner.add("name", "a \"b\"\n");
  JsonObject object;
  object.add("rate", 1.5).add("count", std::int64_t{3}).add("valid", true);
  object.add("flags", std::vector<std::string>{"avx2", "amx"});
  object.add("operations", std::vector<JsonObject>{inner, JsonObject()});
  EXPECT_EQ(object.text(), R"({"rate": 1.5, "count": 3, "valid": true, "flags": ["avx2", "amx"], )"
                           R"("operations": [{"name": "a \"b\"\u000a"}, {}]})");
}

TEST(Json, HasNoInfinity) {
  EXPECT_EQ(JsonObject().add("x", std::numeric_limits<double>::infinity()).text(),
            R"({"x": null})");
}

}  // namespace
}  // namespace swarmpi
