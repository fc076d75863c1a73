#pragma once
// Rows in the order of their keys, of which only some blocks are in memory: the others are in a
// scratch file. So a table of any length takes the same memory, but for some bytes a block.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/archive.hpp"
#include "io/rows/row_keys.hpp"
#include "io/scratch_file.hpp"

namespace swarmpi {

template <class Row>
class BlockedRows {
 public:
  using Key = KeyOf<Row>;

  static constexpr std::size_t kBlockRows = 4096;
  static constexpr std::size_t kBlocksInMemory = 3;

  explicit BlockedRows(ScratchFile& scratch) : scratch_(&scratch) {}

  std::size_t size() const { return size_; }
  /// The first row that was inserted (not at the end), replaced or erased since settle(); size(),
  /// if none was.
  std::size_t changed_from() const { return std::min(changed_from_, size_); }
  void settle() { changed_from_ = size_; }

  std::size_t rows_in_memory() const {
    std::size_t count = 0;
    for (const auto& block : blocks_) count += block->rows ? block->rows->size() : 0;
    return count;
  }

  /// Behind all rows whose keys are not greater.
  void insert(const Row& row) {
    const Key key = key_of(row);
    std::size_t at = blocks_.empty() ? 0 : block_for(key);
    const bool last = blocks_.empty() || (at + 1 == blocks_.size() && !(key < blocks_[at]->last));
    if (blocks_.empty() || (last && blocks_[at]->count >= kBlockRows)) {
      blocks_.push_back(std::make_unique<Block>());
      at = blocks_.size() - 1;
      blocks_[at]->rows = std::make_unique<std::vector<Row>>();
      keep_in_memory(*blocks_[at]);
    }
    std::vector<Row>& rows = load(at);
    const auto place =
        last ? rows.end()
             : std::upper_bound(rows.begin(), rows.end(), key,
                                [](const Key& k, const Row& other) { return k < key_of(other); });
    if (!last) note_change(first_of(at) + static_cast<std::size_t>(place - rows.begin()));
    rows.insert(place, row);
    ++size_;
    changed(at, step_of(row));
    if (rows.size() > kBlockRows) split(at);
  }

  /// The row with this key, for tables where there is one at most; nullptr: there is none. It is
  /// valid until the next call.
  const Row* find(const Key& key) {
    if (blocks_.empty()) return nullptr;
    std::vector<Row>& rows = load(block_for(key));
    const auto found = lower(rows, key);
    return found != rows.end() && !(key < key_of(*found)) ? &*found : nullptr;
  }
  /// REQUIRES: find() has found a row with this key.
  void replace(const Row& row) {
    const std::size_t at = block_for(key_of(row));
    std::vector<Row>& rows = load(at);
    const auto found = lower(rows, key_of(row));
    note_change(first_of(at) + static_cast<std::size_t>(found - rows.begin()));
    *found = row;
    changed(at, step_of(row));
  }
  /// Whether `wanted` holds of a row with this key.
  template <class Wanted>
  bool any_with(const Key& key, Wanted&& wanted) {
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
      if (blocks_[at]->last < key) continue;
      if (key < blocks_[at]->first) return false;
      std::vector<Row>& rows = load(at);
      for (auto row = lower(rows, key); row != rows.end() && !(key < key_of(*row)); ++row) {
        if (wanted(*row)) return true;
      }
    }
    return false;
  }
  /// Those of steps after `step` only, where the rows have steps (`step_of`).
  template <class Unwanted>
  void erase_after(std::int64_t step, Unwanted&& unwanted) {
    erase([step](const Block& block) { return block.newest_step > step; },
          [&](const Row& row) { return step_of(row) > step && unwanted(row); });
  }
  /// Those with keys above this one only.
  template <class Unwanted>
  void erase_above(const Key& key, Unwanted&& unwanted) {
    erase([&key](const Block& block) { return key < block.last; },
          [&](const Row& row) { return key < key_of(row) && unwanted(row); });
  }

  void clear() {
    erase([](const Block&) { return true; }, [](const Row&) { return true; });
  }

  /// How many rows have keys that are not above this one.
  std::size_t count_through(const Key& key) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
      if (key < blocks_[at]->first) break;
      if (!(key < blocks_[at]->last)) {
        count += blocks_[at]->count;
        continue;
      }
      std::vector<Row>& rows = load(at);
      const auto above =
          std::upper_bound(rows.begin(), rows.end(), key,
                           [](const Key& k, const Row& other) { return k < key_of(other); });
      return count + static_cast<std::size_t>(above - rows.begin());
    }
    return count;
  }
  /// How many rows stand before the first one of a step after `step`.
  std::size_t count_before_step_after(std::int64_t step) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
      if (blocks_[at]->newest_step <= step) {
        count += blocks_[at]->count;
        continue;
      }
      for (const Row& row : load(at)) {
        if (step_of(row) > step) return count;
        ++count;
      }
    }
    return count;
  }

  /// use(std::span<const Row>) of the rows from number `from` on, in order; until it returns false.
  template <class Use>
  void for_each_block(std::size_t from, Use&& use) {
    std::size_t first = 0;
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
      const std::size_t count = blocks_[at]->count;
      const std::size_t skipped = std::max(from, first) - first;
      if (skipped < count) {
        const std::vector<Row>& rows = load(at);
        if (!use(std::span<const Row>(rows).subspan(skipped))) return;
      }
      first += count;
    }
  }

 private:
  struct Block {
    Key first{}, last{};
    std::int64_t newest_step = std::numeric_limits<std::int64_t>::min();
    std::size_t count = 0;
    ScratchFile::Slot slot;
    bool dirty = false;  // memory has what the slot has not
    std::unique_ptr<std::vector<Row>> rows;
  };

  // The last one that may hold the key.
  std::size_t block_for(const Key& key) const {
    const auto above = std::upper_bound(
        blocks_.begin(), blocks_.end(), key,
        [](const Key& k, const std::unique_ptr<Block>& block) { return k < block->first; });
    return above == blocks_.begin() ? 0 : static_cast<std::size_t>(above - blocks_.begin()) - 1;
  }
  static auto lower(std::vector<Row>& rows, const Key& key) {
    return std::lower_bound(rows.begin(), rows.end(), key,
                            [](const Row& other, const Key& k) { return key_of(other) < k; });
  }
  std::size_t first_of(std::size_t at) const {
    std::size_t first = 0;
    for (std::size_t before = 0; before < at; ++before) first += blocks_[before]->count;
    return first;
  }
  void note_change(std::size_t row) { changed_from_ = std::min(changed_from_, row); }

  // `step`: that of a row which it has got.
  void changed(std::size_t at, std::int64_t step) {
    Block& block = *blocks_[at];
    const std::vector<Row>& rows = *block.rows;
    block.dirty = true;
    block.count = rows.size();
    if (rows.empty()) return;
    block.first = key_of(rows.front());
    block.last = key_of(rows.back());
    block.newest_step = std::max(block.newest_step, step);
  }
  void recount(std::size_t at) {
    std::int64_t newest = std::numeric_limits<std::int64_t>::min();
    for (const Row& row : *blocks_[at]->rows) newest = std::max(newest, step_of(row));
    blocks_[at]->newest_step = newest;
    changed(at, newest);
  }

  void split(std::size_t at) {
    auto second = std::make_unique<Block>();
    std::vector<Row>& rows = *blocks_[at]->rows;
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
    second->rows = std::make_unique<std::vector<Row>>(middle, rows.end());
    rows.erase(middle, rows.end());
    Block& made = *second;
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(second));
    recount(at);
    recount(at + 1);
    keep_in_memory(made);
  }

  template <class MayHave, class Unwanted>
  void erase(MayHave&& may_have, Unwanted&& unwanted) {
    std::size_t first = 0;
    for (std::size_t at = 0; at < blocks_.size();) {
      if (may_have(*blocks_[at])) {
        std::vector<Row>& rows = load(at);
        const auto kept = std::find_if(rows.begin(), rows.end(), unwanted);
        if (kept != rows.end()) note_change(first + static_cast<std::size_t>(kept - rows.begin()));
        size_ -= std::erase_if(rows, unwanted);
        recount(at);
      }
      first += blocks_[at]->count;
      if (blocks_[at]->count > 0) {
        ++at;
        continue;
      }
      std::erase(in_memory_, blocks_[at].get());
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  std::vector<Row>& load(std::size_t at) {
    Block& block = *blocks_[at];
    if (!block.rows) {
      std::string bytes;
      block.rows = std::make_unique<std::vector<Row>>();
      if (!scratch_->get(block.slot, bytes) || !unpack(bytes, *block.rows)) {
        block.rows->resize(block.count);  // the caller asks the scratch file whether it failed
      }
    }
    keep_in_memory(block);
    return *block.rows;
  }
  void keep_in_memory(Block& block) {
    if (!in_memory_.empty() && in_memory_.back() == &block) return;
    std::erase(in_memory_, &block);
    in_memory_.push_back(&block);
    while (in_memory_.size() > kBlocksInMemory) {
      Block& oldest = *in_memory_.front();
      in_memory_.erase(in_memory_.begin());
      if (oldest.dirty && !scratch_->put(pack(*oldest.rows), oldest.slot)) continue;  // it stays
      oldest.dirty = false;
      oldest.rows.reset();
    }
  }

  static constexpr bool kPlain = std::is_trivially_copyable_v<Row>;
  static std::string pack(const std::vector<Row>& rows) {
    if constexpr (kPlain) {
      return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Row)};
    } else {
      ArchiveWriter archive;
      archive(rows);
      const std::vector<std::byte> bytes = archive.take_bytes();
      return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
  }
  static bool unpack(const std::string& bytes, std::vector<Row>& rows) {
    if constexpr (kPlain) {
      rows.resize(bytes.size() / sizeof(Row));
      std::memcpy(static_cast<void*>(rows.data()), bytes.data(), bytes.size());
      return true;
    } else {
      ArchiveReader archive(std::as_bytes(std::span<const char>(bytes)));
      archive(rows);
      return archive.good();
    }
  }

  ScratchFile* scratch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> in_memory_;  // the last used last; blocks that no file takes are not listed
  std::size_t size_ = 0;
  std::size_t changed_from_ = 0;
};

}  // namespace swarmpi
