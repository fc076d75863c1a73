#include "commands/sweep/combinations.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

namespace swarmpi {
namespace {

constexpr std::size_t kMostRuns = 1000;
constexpr std::size_t kLongestName = 100;  // of a folder

// Splits at commas that stand in no brackets, braces or quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  std::string open;  // what must be closed before a comma counts, the innermost last
  for (const char c : text) {
    const bool quoted = !open.empty() && (open.back() == '"' || open.back() == '\'');
    if (!open.empty() && c == open.back()) {
      open.pop_back();
    } else if (!quoted && (c == '"' || c == '\'')) {
      open += c;
    } else if (!quoted && (c == '[' || c == '{')) {
      open += c == '[' ? ']' : '}';
    }
    if (c == ',' && open.empty()) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

std::string set_key(const std::string& setting) { return setting.substr(0, setting.find('=')); }

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// The part of a key that tells it from the others.
std::string short_key(const VariedKey& key, const std::vector<VariedKey>& keys) {
  const auto alike = std::count_if(keys.begin(), keys.end(), [&](const VariedKey& other) {
    return last_part(other.key) == last_part(key.key);
  });
  return alike > 1 ? key.key : last_part(key.key);
}

// As part of a name: no blanks, slashes or what a shell would take for its own.
std::string plain(const std::string& value) {
  std::string text;
  for (const char c : value) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("+-._").find(c) != std::string_view::npos;
    if (stays) text += c;
    if (!stays && !text.empty() && text.back() != '_') text += '_';
  }
  while (text.ends_with('_')) text.pop_back();
  return text;
}

// Names that would be alike get a number.
void make_unique(std::vector<Combination>& combinations) {
  std::set<std::string> taken;
  for (Combination& one : combinations) {
    const std::string name = one.name.substr(0, kLongestName);
    one.name = name;
    for (int number = 2; !taken.insert(one.name).second; ++number) {
      one.name = fmt::format("{}-{}", name, number);
    }
  }
}

Status check_keys(const std::vector<VariedKey>& keys, const std::vector<std::string>& settings) {
  std::set<std::string> seen;
  std::size_t runs = 1;
  for (const VariedKey& key : keys) {
    if (!seen.insert(key.key).second) {
      return Status::bad_input(fmt::format("--vary {0}: {0} is varied twice", key.key));
    }
    for (const std::string& setting : settings) {
      if (set_key(setting) != key.key) continue;
      return Status::bad_input(
          fmt::format("--vary {}: --set {} gives it one value", key.key, setting));
    }
    runs *= key.values.size();
    if (runs > kMostRuns) {
      return Status::bad_input(
          fmt::format("--vary: there are more than {} combinations", kMostRuns));
    }
  }
  return {};
}

}  // namespace

Result<VariedKey> parse_varied_key(const std::string& text) {
  const std::size_t end = text.find('=');
  if (end == 0 || end == std::string::npos) {
    return Status::bad_input("--vary " + text + ": expected SECTION.KEY=VALUE,VALUE,...");
  }
  VariedKey key{text.substr(0, end), split_values(std::string_view(text).substr(end + 1))};
  if (std::count(key.values.begin(), key.values.end(), "") > 0) {
    return Status::bad_input("--vary " + text + ": a value is missing");
  }
  return key;
}

Result<std::vector<Combination>> combine(const std::vector<VariedKey>& keys,
                                         const std::vector<std::string>& settings) {
  if (Status status = check_keys(keys, settings); !status.ok()) return status;
  std::vector<Combination> all(1);
  for (const VariedKey& key : keys) {
    std::vector<Combination> longer;
    for (const Combination& one : all) {
      for (const std::string& value : key.values) {
        Combination next = one;
        next.settings.push_back(key.key + "=" + value);
        next.name += (one.name.empty() ? "" : ",") + short_key(key, keys) + "=" + plain(value);
        longer.push_back(std::move(next));
      }
    }
    all = std::move(longer);
  }
  make_unique(all);
  return all;
}

}  // namespace swarmpi
