#include "core/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

namespace swarmpi {
namespace {

std::string with_unit(double value, double base, const std::array<const char*, 5>& units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  const int digits = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

/// Bytes of the sequence that starts with `lead`, and the range its second byte must be in; length
/// 0: no lead.
struct Sequence {
  std::size_t length;
  unsigned char second_min, second_max;
};

Sequence sequence_of(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above: U+10FFFF
  return {0, 0, 0};
}

}  // namespace

std::string readable_bytes(double bytes) {
  return with_unit(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string readable_count(double count) {
  return with_unit(count, 1000, {"", " k", " M", " G", " T"});
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string number_list(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::int64_t first = *it;
    std::int64_t last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += (last > first + 1 ? "-" : ",") + std::to_string(last);
  }
  return text;
}

std::string joined_words(const std::string& a, const std::string& b) {
  std::istringstream words(a + " " + b);
  std::set<std::string> all;
  for (std::string word; words >> word;) all.insert(word);
  std::string text;
  for (const std::string& word : all) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_utf8(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (bytes.size() - i >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, sizeof word);
      if ((word & 0x8080808080808080) == 0) {
        i += 8;
        continue;
      }
    }
    const auto lead = static_cast<unsigned char>(bytes[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const Sequence sequence = sequence_of(lead);
    if (sequence.length == 0 || bytes.size() - i < sequence.length) return false;
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    if (second < sequence.second_min || second > sequence.second_max) return false;
    for (std::size_t k = 2; k < sequence.length; ++k) {
      if ((static_cast<unsigned char>(bytes[i + k]) & 0xC0) != 0x80) return false;
    }
    i += sequence.length;
  }
  return true;
}

}  // namespace swarmpi
