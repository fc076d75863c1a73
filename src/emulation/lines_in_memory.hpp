#pragma once
// Lines that peers in several processes of one host share: each process knows what its own peer
// sends, and what the lines still carry is in memory that all of them see. Any of them may be
// killed or stopped at any instant, with the lock in its hands too.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "hardware/common_lines.hpp"
#include "io/descriptor.hpp"

namespace swarmpi {

class LinesInMemory final : public CommonLines {
 public:
  /// The same in all processes.
  struct Plan {
    std::vector<double> mbps;    ///< of each line; 0: no bound
    std::size_t most_flows = 0;  ///< of a line at a time; of more those that end last are forgotten
    double patience_s = 1;       ///< with a process that is stopped with the lock
  };

  /// Errors: failed, where there is no memory.
  static Result<std::unique_ptr<LinesInMemory>> make(Plan plan);
  /// Those that another process has made. Errors: failed.
  static Result<std::unique_ptr<LinesInMemory>> find(Plan plan, const std::string& address);
  ~LinesInMemory() override;
  LinesInMemory(const LinesInMemory&) = delete;
  LinesInMemory& operator=(const LinesInMemory&) = delete;

  /// Where other processes of this user on this host find them while this process lives. Nothing is
  /// left behind: the memory has no name.
  std::string address() const;

  /// Times are those of a clock that all processes share (HostClock). A process that is stopped
  /// with the lock in its hands is waited for once: from then on, until it goes on or dies,
  /// messages take no time on these lines.
  Nanoseconds pass(std::size_t line, SharedLine::Flow flow, std::int64_t bytes,
                   const Passage& passage, const AheadBound& ahead) override;

 private:
  LinesInMemory(Plan plan, Descriptor memory, std::byte* begin);
  static Result<std::unique_ptr<LinesInMemory>> map(Plan plan, Descriptor memory);

  Plan plan_;
  Descriptor memory_;
  std::byte* begin_;
  bool gave_up_ = false;  // the lock was not to be had, the last time
};

}  // namespace swarmpi
