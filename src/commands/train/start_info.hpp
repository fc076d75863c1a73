#pragma once
// What every rank says of itself before a run of many begins, and whether they fit together: the
// same program, deck, data, bits and state, and one file system for what is written.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct StartInfo {
  Status status;  ///< of what this rank has prepared on its own
  std::string host;
  std::string build;
  std::string deck;  ///< resolved, with the data's hash
  std::string fingerprint;
  std::int64_t step = -1;                         ///< the run goes on after it
  std::map<StageId, std::uint64_t> stage_hashes;  ///< of the state it has loaded

  std::string packed() const;
};

/// What packed() made. Errors: failed, where another program speaks.
Result<StartInfo> unpack_start_info(const std::string& text);

/// Whether these ranks can run together; the message names ranks and hosts. `state_hash`: what the
/// checkpoint says of the whole state, where one is resumed.
Status check_compatible(const std::vector<StartInfo>& ranks, bool resumed,
                        std::uint64_t state_hash);

}  // namespace swarmpi
