#pragma once
// Writes JSON objects and lists, with members in the order of add().

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swarmpi {

/// A JSON string with quotes, escaped.
std::string json_string(std::string_view text);

class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) {
    return add(key, std::string_view(text));
  }
  /// NaN and infinity, which JSON does not have, become null.
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, const JsonObject& object);
  JsonObject& add(std::string_view key, const std::vector<std::string>& texts);
  JsonObject& add(std::string_view key, const std::vector<JsonObject>& objects);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& member(std::string_view key, const std::string& value);
  std::string members_;
};

}  // namespace swarmpi
