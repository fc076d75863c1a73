#include "config/deck.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "config/deck_reader.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"
#include "config/toml_text.hpp"
#include "config/value.hpp"
#include "core/missing_file.hpp"
#include "core/regular_file.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kLargestDeckBytes = 16 << 20;

/// Two bytes a letter: with a mark at the start, or recognized by the zero in the first letter.
bool is_utf16(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return true;
  return text.size() > 1 && (text[0] == '\0') != (text[1] == '\0');
}

Result<std::string> read_file(const std::string& path) {
  const auto problem = [&](const std::string& why) { return Status::bad_input(path + ": " + why); };
  // What the shell hands over as a deck, `<(...)`, is a pipe; any other pipe may have no writer.
  const bool handed_over = path == "/dev/stdin" || path.starts_with("/dev/fd/");
  constexpr int kFlags = O_RDONLY | O_CLOEXEC;
  int descriptor = ::open(path.c_str(), handed_over ? kFlags : kFlags | O_NONBLOCK);
  // A file server must first take back its promise to another host that nobody opens the file.
  if (descriptor < 0 && errno == EWOULDBLOCK) descriptor = ::open(path.c_str(), kFlags);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb"), &std::fclose);
  if (!file) return problem("cannot be read: " + file_error(path, errno));
  struct stat info {};
  const bool is_pipe = ::fstat(descriptor, &info) == 0 && S_ISFIFO(info.st_mode);
  const std::string why_not = why_not_read(descriptor, kLargestDeckBytes);
  if (!why_not.empty() && !(handed_over && is_pipe)) return problem("cannot be read: " + why_not);
  std::string text(kLargestDeckBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return problem(std::string("cannot be read: ") + std::strerror(errno));
  }
  const auto size_bytes = static_cast<std::int64_t>(text.size());
  const std::string too_large = why_too_large(size_bytes, kLargestDeckBytes);
  if (!too_large.empty()) return problem("cannot be read: " + too_large);
  if (is_utf16(text)) return problem("is UTF-16, not UTF-8: save it as UTF-8");
  return text;
}

/// Reads decks into a reader: those that a deck includes before it, each once.
class DeckFiles {
 public:
  explicit DeckFiles(DeckReader& reader) : reader_(reader) {}

  Status read(const std::string& text, const std::string& name) {
    const Result<std::vector<TomlEntry>> entries = read_toml(text, name);
    if (!entries.ok()) return entries.status();
    std::set<std::string>& below = below_[name];
    const std::string file = std::filesystem::path(name).lexically_normal().string();
    open_.insert(file);
    for (const TomlEntry& entry : entries.value()) {
      if (!is_include(entry)) continue;
      if (Status status = include(entry.value, name, below); !status.ok()) return status;
    }
    open_.erase(file);
    reader_.begin_file(name, below);
    for (const TomlEntry& entry : entries.value()) {
      if (is_include(entry)) continue;
      if (Status status = reader_.read_entry(entry); !status.ok()) return status;
    }
    return {};
  }

 private:
  static bool is_include(const TomlEntry& entry) {
    return entry.section.empty() && entry.key == kInclude;
  }

  /// `below`: of `name`, which includes them.
  Status include(const TomlValue& value, const std::string& name, std::set<std::string>& below) {
    const std::string place = fmt::format("{}:{}: {}: ", name, value.line, kInclude);
    const bool texts = std::all_of(value.items.begin(), value.items.end(), [](const auto& item) {
      return item.kind == TomlValue::Kind::text;
    });
    if (value.kind != TomlValue::Kind::list || !texts) {
      return Status::bad_input(place + "expected a list of texts, got " + value.shown());
    }
    for (const TomlValue& item : value.items) {
      const std::filesystem::path path = std::filesystem::path(name).parent_path() / item.text;
      const std::string file = path.lexically_normal().string();
      if (open_.contains(file)) return Status::bad_input(place + file + " includes itself");
      if (!below_.contains(file)) {
        const Result<std::string> text = read_file(file);
        if (!text.ok()) return Status::bad_input(place + text.status().message());
        if (Status status = read(text.value(), file); !status.ok()) return status;
      }
      below.insert(file);
      below.insert(below_[file].begin(), below_[file].end());
    }
    return {};
  }

  DeckReader& reader_;
  std::map<std::string, std::set<std::string>> below_;  // of each deck, those that it includes
  std::set<std::string> open_;                          // whose includes are being read
};

/// All rows of a table in one line: `[{peers = [1], device = "slow"}]`, `{slow = {...}}`.
std::string rows_text(const Config& config, const TableSpec& table) {
  std::string rows;
  for (std::size_t row = 0; row < table.count(config); ++row) {
    const Config one = table.alone(config, row);
    std::string values;
    for (const KeySpec& key : table.keys) {
      values += (values.empty() ? "" : ", ") + std::string(key.name) + " = " + value_text(one, key);
    }
    rows += rows.empty() ? "" : ", ";
    if (table.named()) rows += table.name_of(one, 0) + " = ";
    rows += "{" + values + "}";
  }
  return table.named() ? "{" + rows + "}" : "[" + rows + "]";
}

}  // namespace

Result<Config> load_deck(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  return parse_deck(text.value(), path, overrides);
}

Result<Config> parse_deck(const std::string& text, const std::string& name,
                          const std::vector<std::string>& overrides) {
  DeckReader reader(name);
  if (Status status = DeckFiles(reader).read(text, name); !status.ok()) return status;
  for (const std::string& override_text : overrides) {
    if (const Status status = reader.read_override(override_text); !status.ok()) return status;
  }
  return reader.finish();
}

Status with_place(const Config& config, const Status& status) {
  const std::string& message = status.message();
  const std::string name = message.substr(0, message.find(": "));
  const auto& keys = schema();
  const bool known = find_table(name) != nullptr ||
                     std::any_of(keys.begin(), keys.end(),
                                 [&](const KeySpec& spec) { return spec.full_name() == name; });
  auto place = config.places.find(name);
  if (place == config.places.end() && known) place = config.places.find("");
  if (status.ok() || place == config.places.end()) return status;
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
  for (const TableSpec& table : tables()) {
    for (std::size_t row = 0; row < table.count(config); ++row) {
      const Config one = table.alone(config, row);
      text += "\n" + table.header(table.named() ? table.name_of(one, 0) : "") + "\n";
      for (const KeySpec& key : table.keys) {
        text += std::string(key.name) + " = " + value_text(one, key) + "\n";
      }
    }
  }
  return text;
}

std::vector<DeckDifference> deck_differences(const Config& a, const Config& b) {
  std::vector<DeckDifference> differences;
  const auto compare = [&](const std::string& key, const std::string& of_a,
                           const std::string& of_b) {
    if (of_a != of_b) differences.push_back({key, of_a, of_b});
  };
  for (const KeySpec& key : schema()) {
    compare(key.full_name(), value_text(a, key), value_text(b, key));
  }
  for (const TableSpec& table : tables()) {
    compare(std::string(table.name), rows_text(a, table), rows_text(b, table));
  }
  return differences;
}

std::vector<DeckValue> deck_values(const Config& config) {
  std::vector<DeckValue> values;
  for (const KeySpec& key : schema()) values.push_back({key.full_name(), value_text(config, key)});
  for (const TableSpec& table : tables()) {
    for (std::size_t row = 0; row < table.count(config); ++row) {
      const Config one = table.alone(config, row);
      const std::string id = table.row_id(config, row) + ".";
      for (const KeySpec& key : table.keys) {
        values.push_back({id + std::string(key.name), value_text(one, key)});
      }
    }
  }
  return values;
}

bool may_change_on_resume(const std::string& key, bool cuts_matter) {
  if (cuts_matter && (key == "swarm.stages" || key == "swarm.cuts")) return false;
  const auto& keys = schema();
  return find_table(key) != nullptr ||
         std::any_of(keys.begin(), keys.end(), [&](const KeySpec& spec) {
           return spec.full_name() == key && spec.on_resume == OnResume::may_change;
         });
}

}  // namespace swarmpi
