#pragma once
// A set of indices: of the microbatches of one step, or of the chunks of one stage.

#include <cstdint>
#include <string>
#include <vector>

namespace swarmpi {

class Bitmap {
 public:
  Bitmap() = default;
  explicit Bitmap(std::int64_t size) : size_(size), words_((size + 63) / 64) {}

  std::int64_t size() const { return size_; }
  bool contains(std::int64_t index) const;
  /// REQUIRES: 0 <= index < size().
  void insert(std::int64_t index);
  std::int64_t count() const { return count_; }
  bool full() const { return count_ == size_; }
  /// The lowest index that is not in it; size() where it is full.
  std::int64_t first_missing() const;
  bool operator==(const Bitmap&) const = default;
  /// REQUIRES: the other is of the same size.
  void merge(const Bitmap& other);
  void subtract(const Bitmap& other);
  /// "0-3,7", for messages.
  std::string text() const;

 private:
  void recount();

  std::int64_t size_ = 0;
  std::vector<std::uint64_t> words_;
  std::int64_t count_ = 0;
};

}  // namespace swarmpi
