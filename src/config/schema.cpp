#include "config/schema.hpp"

#include <algorithm>

#include "config/schema_rows.hpp"

namespace swarmpi {

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = [] {
    Keys all;
    append_learning_keys(all);
    append_running_keys(all);
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

const std::vector<LaterName>& later_names() {
  static const std::vector<LaterName> names = {
      {"devices", ""}, {"links", ""}, {"peers", ""}, {"faults", "at"}};
  return names;
}

}  // namespace swarmpi
