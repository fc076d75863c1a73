#include "commands/bench/json.hpp"

#include <cmath>

#include "core/text.hpp"

namespace swarmpi {
namespace {

template <class Values, class Print>
std::string list(const Values& values, Print print) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() == 1 ? "" : ", ") + print(value);
  return text + "]";
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (byte < 0x20)
      quoted += format("\\u%04x", byte);
    else
      quoted += c;
  }
  return quoted + "\"";
}

JsonObject& JsonObject::member(std::string_view key, const std::string& value) {
  members_ += (members_.empty() ? "" : ", ") + json_string(key) + ": " + value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::string_view text) {
  return member(key, json_string(text));
}
JsonObject& JsonObject::add(std::string_view key, double value) {
  return member(key, std::isfinite(value) ? format("%.9g", value) : "null");
}
JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return member(key, std::to_string(value));
}
JsonObject& JsonObject::add(std::string_view key, bool value) {
  return member(key, value ? "true" : "false");
}
JsonObject& JsonObject::add(std::string_view key, const JsonObject& object) {
  return member(key, object.text());
}
JsonObject& JsonObject::add(std::string_view key, const std::vector<std::string>& texts) {
  return member(key, list(texts, [](const std::string& text) { return json_string(text); }));
}
JsonObject& JsonObject::add(std::string_view key, const std::vector<JsonObject>& objects) {
  return member(key, list(objects, [](const JsonObject& object) { return object.text(); }));
}

}  // namespace swarmpi
