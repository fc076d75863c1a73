// The deck reference, written out of the schema.

#include "config/deck.hpp"
#include "config/schema.hpp"
#include "config/value.hpp"

namespace swarmpi {
namespace {
constexpr std::size_t kTypeColumn = 34;

/// Two lines for a key: what it takes, then what it is for.
std::string describe(const Config& defaults, const KeySpec& key) {
  std::string head = "  " + std::string(key.name);
  if (!key.required) head += " = " + value_text(defaults, key);
  if (head.size() + 2 < kTypeColumn)
    head.resize(kTypeColumn, ' ');
  else
    head += "  ";
  head += expected(key);
  if (!key.unit.empty()) head += ", " + std::string(key.unit);
  if (key.required) head += "; must be given";

  std::string help = "      " + std::string(key.help);
  if (key.default_only || key.available.size() == 1) {
    help += " [this version: only the default; not available yet]";
  } else if (!key.available.empty()) {
    help += " [this version: only";
    for (const std::string_view name : key.available) help += " \"" + std::string(name) + "\"";
    help += "]";
  }
  if (key.on_resume == OnResume::may_change) help += " [*]";
  return head + "\n" + help + "\n";
}

}  // namespace

std::string deck_reference() {
  std::string text =
      "The deck: a TOML file of these sections. Each key is shown with its default and the values "
      "it takes.\n"
      "Integers may be written 1e3. [*]: may differ from the checkpoint's deck when a run is "
      "resumed.\n"
      "--set section.key=value overrides a key; there text needs no quotes, a list of one value no "
      "brackets.\n"
      "--set 'peers=[{peers = [1], device = \"slow\"}]' gives all rows of a table, --set "
      "'devices.slow={gflops = 5}' one.\n";
  std::string_view section;
  for (const KeySpec& key : schema()) {
    if (key.section != section) {
      section = key.section;
      text += "\n[" + std::string(section) + "]\n";
    }
    text += describe(Config{}, key);
  }
  for (const TableSpec& table : tables()) {
    text += "\n" + table.header() + "  any number of times: " + std::string(table.help) + "\n";
    Config row;
    table.resize(row, 1);
    for (const KeySpec& key : table.keys) text += describe(row, key);
  }
  return text;
}

}  // namespace swarmpi
