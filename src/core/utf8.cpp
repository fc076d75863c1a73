#include "core/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swarmpi {
namespace {

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
