#include "config/deck.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "config/rules.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"
#include "config/toml_text.hpp"
#include "config/value.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kLargestDeckBytes = 1 << 20;

bool is_section(std::string_view name) {
  const auto& names = sections();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_later(std::string_view section, std::string_view key) {
  const auto& names = later_names();
  return std::any_of(names.begin(), names.end(), [&](const LaterName& name) {
    return name.section == section && (name.key.empty() || name.key == key);
  });
}

std::string full_name(const std::string& section, const std::string& key) {
  return key.empty() ? section : section.empty() ? key : section + "." + key;
}

/// A name that is not in the schema: why.
std::string unknown(const std::string& section, const std::string& key) {
  if (is_later(section, key)) return "not available in this version";
  if (section.empty() && is_section(key)) return "is a section: write [" + key + "]";
  if (section.empty()) return "stands in no section" + suggest_key("", key);
  if (!is_section(section)) return "unknown section" + suggest_section(section);
  if (key.empty()) return "must be one section [" + section + "], not a list of them";
  return "unknown key" + suggest_key(section, key);
}

/// A Config in the making, with the place where each key was given.
class DeckReader {
 public:
  explicit DeckReader(std::string name) : name_(std::move(name)) {}

  Status read_entry(const TomlEntry& entry) {
    const std::string place = name_ + ":" + std::to_string(entry.line);
    const std::string full = full_name(entry.section, entry.key);
    const bool header = entry.key.empty() && is_section(entry.section) &&
                        entry.value.kind == TomlValue::Kind::table;
    if (header) return {};
    const KeySpec* key = find_key(entry.section, entry.key);
    const Complaint complaint =
        key == nullptr ? unknown(entry.section, entry.key) : assign(config_, *key, entry.value);
    if (complaint) return Status::bad_input(place + ": " + full + ": " + *complaint);
    places_[full] = place;
    return {};
  }

  Status read_override(const std::string& text) {
    const std::string place = "--set " + text;
    const auto equals = text.find('=');
    const auto dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
      return Status::bad_input(place + ": expected section.key=value");
    }
    const std::string section = text.substr(0, dot);
    const std::string name = text.substr(dot + 1, equals - dot - 1);
    const KeySpec* key = find_key(section, name);
    if (key == nullptr) return Status::bad_input(place + ": " + unknown(section, name));
    const Result<TomlValue> value = parse_override(*key, text.substr(equals + 1));
    if (!value.ok()) return Status::bad_input(place + ": " + value.status().message());
    const Complaint complaint = assign(config_, *key, value.value());
    if (complaint) return Status::bad_input(place + ": " + *complaint);
    places_[key->full_name()] = place;
    return {};
  }

  /// What can only be judged when all values are there.
  Result<Config> finish() const {
    for (const KeySpec& key : schema()) {
      const Complaint complaint = check_available(config_, key);
      if (complaint) {
        return Status::bad_input(place_of({key.full_name()}) + ": " + key.full_name() + " = " +
                                 *complaint);
      }
    }
    const auto broken = broken_rule(config_);
    if (broken) return Status::bad_input(place_of(broken->keys) + ": " + broken->message);
    Config config = config_;
    config.places = places_;
    config.places[""] = name_;
    return config;
  }

 private:
  /// Overrides are what changed last, so they are blamed first; then the first key that the deck
  /// gives.
  std::string place_of(const std::vector<std::string>& keys) const {
    std::string found;
    for (const std::string& key : keys) {
      const auto place = places_.find(key);
      if (place == places_.end()) continue;
      if (place->second.starts_with("--set ")) return place->second;
      if (found.empty()) found = place->second;
    }
    return found.empty() ? name_ : found;
  }

  std::string name_;
  Config config_;
  std::map<std::string, std::string> places_;
};

Result<std::string> read_file(const std::string& path) {
  const auto problem = [&](const std::string& why) { return Status::bad_input(path + ": " + why); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return problem(std::string("cannot be read: ") + std::strerror(errno));
  std::string text(kLargestDeckBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return problem(std::string("cannot be read: ") + std::strerror(errno));
  }
  if (text.size() > kLargestDeckBytes) return problem("not a deck: larger than 1 MiB");
  return text;
}

}  // namespace

Result<Config> load_deck(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  return parse_deck(text.value(), path, overrides);
}

Result<Config> parse_deck(const std::string& text, const std::string& name,
                          const std::vector<std::string>& overrides) {
  const Result<std::vector<TomlEntry>> entries = read_toml(text, name);
  if (!entries.ok()) return entries.status();
  DeckReader reader(name);
  for (const TomlEntry& entry : entries.value()) {
    if (const Status status = reader.read_entry(entry); !status.ok()) return status;
  }
  for (const std::string& override_text : overrides) {
    if (const Status status = reader.read_override(override_text); !status.ok()) return status;
  }
  return reader.finish();
}

Status with_place(const Config& config, const Status& status) {
  const std::string& message = status.message();
  const auto& keys = schema();
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const KeySpec& spec) {
    return message.starts_with(spec.full_name() + ": ");
  });
  if (status.ok() || key == keys.end()) return status;
  auto place = config.places.find(key->full_name());
  if (place == config.places.end()) place = config.places.find("");
  if (place == config.places.end()) return status;
  return Status::error(status.code(), place->second + ": " + message);
}

std::string resolved_deck(const Config& config) {
  std::string text;
  std::string_view section;
  for (const KeySpec& key : schema()) {
    if (key.section != section) {
      section = key.section;
      text += (text.empty() ? "[" : "\n[") + std::string(section) + "]\n";
    }
    text += std::string(key.name) + " = " + value_text(config, key) + "\n";
  }
  return text;
}

std::vector<DeckDifference> deck_differences(const Config& a, const Config& b) {
  std::vector<DeckDifference> differences;
  for (const KeySpec& key : schema()) {
    const std::string of_a = value_text(a, key), of_b = value_text(b, key);
    if (of_a != of_b) differences.push_back({key.full_name(), of_a, of_b});
  }
  return differences;
}

bool may_change_on_resume(const std::string& key) {
  const auto& keys = schema();
  return std::any_of(keys.begin(), keys.end(), [&](const KeySpec& spec) {
    return spec.full_name() == key && spec.on_resume == OnResume::may_change;
  });
}

}  // namespace swarmpi
