#include "kernels/reference/codecs.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/bfloat16.hpp"
#include "kernels/codec_element.hpp"

namespace swarmpi::kernels::reference {

namespace {

static_assert(std::endian::native == std::endian::little,
              "coded arrays hold the words of little-endian machines");

/// Element i of a matrix, row after row.
template <class T>
T& element(const MatrixView<T>& m, std::int64_t i) {
  return m.row(i / m.columns)[i % m.columns];
}

/// Word i of those that begin at `words`.
template <class Word>
void store(std::byte* words, std::int64_t i, Word word) {
  std::memcpy(words + i * static_cast<std::int64_t>(sizeof word), &word, sizeof word);
}
template <class Word>
Word load(const std::byte* words, std::int64_t i) {
  Word word;
  std::memcpy(&word, words + i * static_cast<std::int64_t>(sizeof word), sizeof word);
  return word;
}

/// Calls body(block, first, end) for the blocks of an array.
template <class Body>
void for_each_block(std::int64_t count, const Body& body) {
  for (std::int64_t block = 0; block < coded_blocks(count); ++block) {
    body(block, block * kCodedBlock, std::min((block + 1) * kCodedBlock, count));
  }
}

float absmax_of(ConstMatrix x, std::int64_t first, std::int64_t end) {
  std::uint32_t largest = 0;
  for (std::int64_t i = first; i < end; ++i) {
    largest = std::max(largest, magnitude_bits(element(x, i)));
  }
  return coded_absmax(largest);
}

/// `code` is of x * rate(absmax).
template <class Rate, class Code>
void encode_blocks(std::byte* coded, std::byte* codes, ConstMatrix x, const Rate& rate,
                   const Code& code) {
  for_each_block(x.rows * x.columns, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    const float absmax = absmax_of(x, first, end);
    store(coded, block, absmax);
    const bool has_codes = absmax > 0;
    for (std::int64_t i = first; i < end; ++i) {
      store(codes, i, code(has_codes ? element(x, i) * rate(absmax) : 0.0f));
    }
  });
}

/// `value` is of (code, absmax).
template <class Code, class Value>
void decode_blocks(Matrix x, const std::byte* coded, const std::byte* codes, const Value& value) {
  for_each_block(x.rows * x.columns, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    const auto absmax = load<float>(coded, block);
    for (std::int64_t i = first; i < end; ++i) {
      element(x, i) = decodes_to_nan(absmax) ? kCanonicalNan : value(load<Code>(codes, i), absmax);
    }
  });
}

}  // namespace

void encode(std::byte* coded, ConstMatrix x, const Coding& coding) {
  const std::int64_t count = x.rows * x.columns;
  std::byte* const codes = coded + coded_start(coding.codec, count);
  switch (coding.codec) {
    case Codec::fp16:
      for (std::int64_t i = 0; i < count; ++i) {
        store(codes, i, half_from_float(element(x, i) * coding.fp16_scale));
      }
      break;
    case Codec::bf16:
      for (std::int64_t i = 0; i < count; ++i) store(codes, i, coded_bf16(element(x, i)));
      break;
    case Codec::uniform8:
      encode_blocks(coded, codes, x, uniform8_rate, uniform8_code);
      break;
    case Codec::blockwise8:
      encode_blocks(coded, codes, x, blockwise8_rate, blockwise8_code);
      break;
  }
}

void decode(Matrix x, const std::byte* coded, const Coding& coding) {
  const std::int64_t count = x.rows * x.columns;
  const std::byte* const codes = coded + coded_start(coding.codec, count);
  switch (coding.codec) {
    case Codec::fp16:
      for (std::int64_t i = 0; i < count; ++i) {
        element(x, i) = float_from_half(load<std::uint16_t>(codes, i)) * (1 / coding.fp16_scale);
      }
      break;
    case Codec::bf16:
      for (std::int64_t i = 0; i < count; ++i) {
        element(x, i) = float_from_bf16(load<std::uint16_t>(codes, i));
      }
      break;
    case Codec::uniform8:
      decode_blocks<std::int8_t>(x, coded, codes, [](std::int8_t code, float absmax) {
        return static_cast<float>(code) * uniform8_step(absmax);
      });
      break;
    case Codec::blockwise8:
      decode_blocks<std::uint8_t>(x, coded, codes, [](std::uint8_t code, float absmax) {
        return kBlockwise8Values[code] * absmax;
      });
      break;
  }
}

}  // namespace swarmpi::kernels::reference
