// The mutation check: the protocol's rules are broken, one at a time, and torture must notice each.
//
// usage: mutations [--rule NAME] [--most N] [--seed S] [--write FILE] [--json]
//        mutations --known FILE
//
// Tries schedules until one fails, at most N, and prints for each rule how many it took, the seed
// of the one that failed, and how; the seeds go to FILE. Where none fails, the core's own tests are
// asked, and one that fails takes the seed's place. --json: what was found once more, at the end,
// in one line for record.py. --known: FILE has a seed or a test for each rule; that must fail where
// the rule is broken, and be as it should be where it is not. After a change of the protocol or of
// what torture draws: mutations --write regression/tests/mutations.txt

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "broken_rules.hpp"
#include "commands/isolated.hpp"
#include "torture/swarm_check.hpp"

namespace {

using namespace swarmpi;
using Json = nlohmann::ordered_json;

// A schedule takes milliseconds; a broken one may take for ever.
constexpr unsigned kDeadlineS = 10;
constexpr unsigned kTestDeadlineS = 60;
constexpr std::size_t kFaultShown = 150;

struct Options {
  std::string rule;  // "": all
  std::string known;
  std::string write;
  std::uint64_t most = 200'000;
  std::uint64_t seed = 1;
  bool json = false;
};

bool read_options(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (name == "--json") {
      options.json = true;
      --i;
      continue;
    }
    if (i + 1 == count) return false;
    const std::string value = arguments[i + 1];
    if (name == "--rule" || name == "--known" || name == "--write") {
      (name == "--rule" ? options.rule : name == "--known" ? options.known : options.write) = value;
    } else if (name == "--most" || name == "--seed") {
      char* end = nullptr;
      const std::uint64_t number = std::strtoull(value.c_str(), &end, 0);
      if (*end != '\0') return false;
      (name == "--most" ? options.most : options.seed) = number;
    } else {
      return false;
    }
  }
  return true;
}

std::optional<Rule> rule_named(const std::string& name) {
  const auto found = std::find(kRuleNames.begin(), kRuleNames.end(), name);
  if (found == kRuleNames.end()) return std::nullopt;
  return static_cast<Rule>(found - kRuleNames.begin());
}

// The combinations of torture_evenly.py take turns. The rules of static pipelines are broken where
// there are some, and the others where there are none.
TortureRules rules_of(const std::string& rule, std::uint64_t seed) {
  const std::uint64_t which = mix_bits(seed);
  TortureRules rules;
  rules.delayed = (which & 1) != 0;
  rules.faults = {(which & 2) != 0, (which & 4) != 0, (which & 8) != 0, false};
  if (rule.starts_with("collectives_")) rules.faults.collectives = true;
  if (rule.starts_with("outbid_")) rules.faults.outbids = true;
  if (rule.starts_with("pipelines_") || rule.starts_with("owners_")) {
    rules.delayed = false;
    rules.faults.shadows = false;
    rules.faults.pipelines = true;
    rules.faults.owners = rule.starts_with("owners_");
  }
  return rules;
}

// Of a check in the core that fails: what it says.
std::string first_line(const std::string& fault) {
  const std::string check = "does not hold: ";
  const std::size_t said = fault.find(check);
  const std::string line = said == std::string::npos
                               ? fault
                               : "the core's own check: " + fault.substr(said + check.size());
  return line.substr(0, std::min(line.find('\n'), kFaultShown));
}

struct Search {
  std::uint64_t schedules = 0;
  std::uint64_t seed = 0;  // of the last one
};

// How the first schedule that fails does so; "" if none does.
std::string search(Rule rule, const Options& options, SharedValue<Search>& progress) {
  const IsolatedResult end = run_isolated([&] {
    broken_rule = rule;
    while (progress->schedules < options.most) {
      progress->seed = mix_bits(mix_bits(options.seed) + progress->schedules++);
      set_deadline(kDeadlineS);
      const TortureRules rules =
          rules_of(kRuleNames[static_cast<std::size_t>(rule)], progress->seed);
      const std::string fault = check_torture(progress->seed, rules).violation;
      if (!fault.empty()) return fault;
    }
    return std::string();
  });
  return end.crash.empty() ? end.answer : end.crash;
}

// How this schedule of the rule `name` fails, with `rule` broken; "" if it does not.
std::string replay(const std::string& name, std::optional<Rule> rule, std::uint64_t seed) {
  const IsolatedResult end = run_isolated([&] {
    broken_rule = rule;
    set_deadline(kDeadlineS);
    return check_torture(seed, rules_of(name, seed)).violation;
  });
  return end.crash.empty() ? end.answer : end.crash;
}

// Runs the core's tests of this name, "*" for all; says which fail, one after another: "" if none.
std::string failing_tests(std::optional<Rule> rule, const std::string& name) {
  const IsolatedResult end = run_isolated([&]() -> std::string {
    broken_rule = rule;
    set_deadline(kTestDeadlineS);
    testing::GTEST_FLAG(filter) = name;
    testing::UnitTest& tests = *testing::UnitTest::GetInstance();
    delete tests.listeners().Release(tests.listeners().default_result_printer());
    const int failed = RUN_ALL_TESTS();
    if (failed == 0) return tests.test_to_run_count() == 0 ? "there is no such test" : "";
    std::string failing;
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *tests.GetTestSuite(i);
      for (int k = 0; k < suite.total_test_count(); ++k) {
        const testing::TestInfo& test = *suite.GetTestInfo(k);
        if (!test.should_run() || test.result()->Passed()) continue;
        failing += (failing.empty() ? "" : " ") + std::string(suite.name()) + "." + test.name();
      }
    }
    return failing;
  });
  return end.crash.empty() ? end.answer : end.crash;
}

void print_row(const std::string& name, const Search& search, const std::string& fault) {
  fmt::print("{:23} {:>7}  {:<20}  {}\n", name, search.schedules, search.seed, first_line(fault));
  std::fflush(stdout);
}

void print_record(const Json& rules) {
  const Json record{
      {"what",
       "For each rule of the protocol that is broken on purpose: how many schedules of torture, "
       "over all combinations of its features, until one fails, and how it fails; nothing where "
       "none did, and a test of the core does."},
      {"figures", {{"rules", rules}}}};
  std::printf("%s\n", record.dump().c_str());
}

int search_all(const Options& options) {
  int wrong = 0;
  Json rules;
  std::string seeds =
      "# For each broken rule a schedule of torture, or a test, that notices it: mutations.cpp.\n";
  for (std::size_t i = 0; i < kRuleNames.size(); ++i) {
    const std::string name = kRuleNames[i];
    if (!options.rule.empty() && name != options.rule) continue;
    SharedValue<Search> progress;
    const std::string fault = search(static_cast<Rule>(i), options, progress);
    print_row(name, *progress, fault.empty() ? "NOT NOTICED" : fault);
    std::string known = std::to_string(progress->seed);
    if (fault.empty()) {
      known = failing_tests(static_cast<Rule>(i), "*");
      std::printf("  the core's tests that fail: %s\n", known.c_str());
      if (known.empty()) ++wrong;
    } else if (const std::string whole = replay(name, std::nullopt, progress->seed);
               !whole.empty()) {
      std::printf("  with no rule broken too: %s\n", first_line(whole).c_str());
      ++wrong;
    }
    Json found = Json::object();  // without anything where no schedule has noticed
    if (!fault.empty())
      found = {{"schedules", progress->schedules}, {"failure", first_line(fault)}};
    rules[name] = found;
    seeds += name + " " + known.substr(0, known.find(' ')) + "\n";
  }
  if (!options.write.empty()) std::ofstream(options.write) << seeds;
  if (options.json) print_record(rules);
  return wrong == 0 ? 0 : 1;
}

// How this seed of torture, or this test of the core, fails; "" if it does not.
std::string failure_of(const std::string& name, std::optional<Rule> rule,
                       const std::string& known) {
  const bool is_seed = std::isdigit(static_cast<unsigned char>(known[0])) != 0;
  return is_seed ? replay(name, rule, std::stoull(known)) : failing_tests(rule, known);
}

int check_known(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, std::string> known;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string what;
    if (!line.starts_with("#") && words >> name >> what) known[name] = what;
  }
  int wrong = 0;
  const auto complain = [&](const std::string& name, const std::string& what) {
    std::printf("%s: %s\n", name.c_str(), what.c_str());
    ++wrong;
  };
  for (const auto& [name, what] : known) {
    const std::optional<Rule> rule = rule_named(name);
    if (!rule) {
      complain(name, "no such rule");
      continue;
    }
    const std::string fault = failure_of(name, rule, what);
    std::printf("%-23s %-45s %s\n", name.c_str(), what.c_str(), first_line(fault).c_str());
    std::fflush(stdout);
    if (fault.empty()) complain(name, "broken, and not noticed");
    const std::string whole = failure_of(name, std::nullopt, what);
    if (!whole.empty()) complain(name, "not broken, and yet " + whole);
  }
  for (const char* name : kRuleNames) {
    if (!known.contains(name)) complain(name, "nothing is known that notices");
  }
  std::printf("%zu rules, %d wrong\n", kRuleNames.size(), wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest();
  Options options;
  const bool understood = read_options(count, arguments, options);
  if (!understood || (!options.rule.empty() && !rule_named(options.rule))) {
    std::fprintf(stderr,
                 "usage: mutations [--rule NAME] [--most N] [--seed S] [--write FILE] [--json]\n"
                 "       mutations --known FILE\n");
    return 2;
  }
  return options.known.empty() ? search_all(options) : check_known(options.known);
}
