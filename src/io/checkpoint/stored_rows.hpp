#pragma once
// The rows of a run in its checkpoints. All tables but /peers are cut into segments, files of so
// many rows, which are named by their content: a checkpoint shares those of the one before, by hard
// links, and writes only what has come since.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/records.hpp"
#include "core/status.hpp"
#include "io/journal/merge.hpp"

namespace swarmpi {

inline constexpr std::size_t kSegmentRows = 65536;

/// Writes the rows of one journal into checkpoints.
class RowStorer {
 public:
  /// `merge`: of that journal, up to `step` at least.
  explicit RowStorer(JournalMerge& merge, std::size_t segment_rows = kSegmentRows)
      : merge_(&merge), segment_rows_(segment_rows) {}

  /// Writes what a run that is resumed after `step` does not make again into the folder step-N, and
  /// names it in the order in which it is to be read: a step's row comes last. `delay`: d. Errors:
  /// stopped.
  Result<std::vector<StoredFile>> store(const std::string& checkpoint, std::int64_t step,
                                        std::int64_t delay);

 private:
  struct Target;
  /// Takes the full segments of the newest checkpoint for its own, where they end with the rows
  /// that this journal has there: a new leader does not look at all rows.
  void adopt(const Target& target);
  template <class Row>
  void adopt_table(const char* table, const std::string& checkpoint,
                   const std::vector<StoredFile>& all);
  template <class Row>
  Status store_table(const char* table, std::size_t stable, bool any_later, std::int64_t step,
                     Target& target);

  JournalMerge* merge_;
  std::size_t segment_rows_;
  std::map<std::string, std::vector<StoredFile>> full_;  // of each table, in order
  bool adopted_ = false;
};

/// Whether a checkpoint's file of that name is a segment.
bool is_segment_name(const std::string& name);

/// The rows of one segment, in order. Errors: bad_input, where it is not what the checkpoint says;
/// those of `use`.
Status read_segment(const std::string& checkpoint, const StoredFile& file,
                    const std::function<Status(const Record&)>& use);

}  // namespace swarmpi
