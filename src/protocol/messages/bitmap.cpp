#include "protocol/messages/bitmap.hpp"

#include <algorithm>
#include <bit>

#include "core/check.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kWordBits = 64;

std::size_t word_of(std::int64_t index) { return static_cast<std::size_t>(index / kWordBits); }
std::uint64_t bit_of(std::int64_t index) { return std::uint64_t{1} << (index % kWordBits); }

}  // namespace

bool Bitmap::contains(std::int64_t index) const {
  return index >= 0 && index < size_ && (words_[word_of(index)] & bit_of(index)) != 0;
}

void Bitmap::insert(std::int64_t index) {
  SWARMPI_CHECK(index >= 0 && index < size_, "an index beyond the set");
  if (contains(index)) return;
  words_[word_of(index)] |= bit_of(index);
  ++count_;
}

std::int64_t Bitmap::first_missing() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (~words_[i] == 0) continue;
    const std::int64_t index =
        static_cast<std::int64_t>(i) * kWordBits + std::countr_one(words_[i]);
    return std::min(index, size_);
  }
  return size_;
}

void Bitmap::merge(const Bitmap& other) {
  SWARMPI_CHECK(other.size_ == size_, "sets of microbatches of one step");
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  recount();
}

void Bitmap::subtract(const Bitmap& other) {
  SWARMPI_CHECK(other.size_ == size_, "sets of microbatches of one step");
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
  recount();
}

void Bitmap::recount() {
  count_ = 0;
  for (const std::uint64_t word : words_) count_ += std::popcount(word);
}

std::string Bitmap::text() const {
  std::string out;
  for (std::int64_t first = 0; first < size_; ++first) {
    if (!contains(first)) continue;
    std::int64_t last = first;
    while (contains(last + 1)) ++last;
    if (!out.empty()) out += ',';
    out += std::to_string(first);
    if (last > first) out += '-' + std::to_string(last);
    first = last;
  }
  return out;
}

}  // namespace swarmpi
