#include "config/schema.hpp"

#include <algorithm>

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

void append_section(Keys& all, std::string_view section, Keys keys) {
  for (KeySpec& key : keys) {
    key.section = section;
    all.push_back(std::move(key));
  }
}

}  // namespace

std::vector<std::string_view> KeySpec::choices() const {
  const auto* choice = std::get_if<ChoiceField>(&field);
  if (choice == nullptr) return {};
  return {choice->names.begin(), choice->names.end()};
}

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = [] {
    Keys all;
    append_section(all, "model", model_keys());
    append_section(all, "data", data_keys());
    append_section(all, "train", train_keys());
    append_section(all, "swarm", swarm_keys());
    append_section(all, "compute", compute_keys());
    append_section(all, "faults", faults_keys());
    append_section(all, "output", output_keys());
    return all;
  }();
  return keys;
}

const KeySpec* find_key(std::string_view section, std::string_view name) {
  const auto& keys = schema();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const KeySpec& key) {
    return key.section == section && key.name == name;
  });
  return found == keys.end() ? nullptr : &*found;
}

const std::vector<std::string_view>& sections() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const KeySpec& key : schema()) {
      if (all.empty() || all.back() != key.section) all.push_back(key.section);
    }
    return all;
  }();
  return names;
}

std::string TableSpec::header(std::string_view name_of_row) const {
  return named() ? "[" + std::string(name) + "." + std::string(name_of_row) + "]"
                 : "[[" + std::string(name) + "]]";
}

const KeySpec* TableSpec::find_key(std::string_view key) const {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const KeySpec& spec) { return spec.name == key; });
  return found == keys.end() ? nullptr : &*found;
}

Config TableSpec::alone(const Config& config, std::size_t row) const {
  Config one;
  append_row(config, row, one);
  return one;
}

std::string TableSpec::name_of(const Config& config, std::size_t row) const {
  Config one = alone(config, row);
  return row_name(one);
}

std::string TableSpec::row_id(const Config& config, std::size_t row) const {
  return named() ? std::string(name) + "." + name_of(config, row)
                 : std::string(name) + "[" + std::to_string(row) + "]";
}

const std::vector<TableSpec>& tables() {
  static const std::vector<TableSpec> all = {devices_table(), links_table(), sites_table(),
                                             routes_table(),  peers_table(), faults_at_table()};
  return all;
}

const TableSpec* find_table(std::string_view name) {
  const auto& all = tables();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TableSpec& table) { return table.name == name; });
  return found == all.end() ? nullptr : &*found;
}
}  // namespace swarmpi
