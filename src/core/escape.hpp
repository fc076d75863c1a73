#pragma once
// Bytes for a terminal: whole UTF-8 characters pass, all that could steer the terminal is written
// out.

#include <cstdint>
#include <string>

namespace swarmpi {

class TextEscape {
 public:
  /// The text that can be shown once `byte` is known; "" while a character of several bytes is
  /// incomplete.
  std::string push(std::uint8_t byte);
  /// What is left of an incomplete character, escaped.
  std::string finish();

 private:
  std::string pending_;  // begins a UTF-8 character
};

}  // namespace swarmpi
