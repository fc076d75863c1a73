#pragma once
// The runs of a sweep: every combination of the values that its keys take.

#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// A key of the deck and the values that it takes, each as it stands after `=` in a setting.
struct VariedKey {
  std::string key;
  std::vector<std::string> values;
};

/// One run: its settings, and the name of its folder.
struct Combination {
  std::vector<std::string> settings;  ///< `train.lr=1e-3`
  std::string name;                   ///< `lr=1e-3,seed=2`
};

/// Of `train.lr=1e-3,3e-3`; commas within brackets, braces or quotes are part of a value. Errors:
/// bad_input.
Result<VariedKey> parse_varied_key(const std::string& text);

/// All of them, the last key varying fastest. Errors: bad_input, where a key comes twice, or in
/// `settings` as well, or where there are too many.
Result<std::vector<Combination>> combine(const std::vector<VariedKey>& keys,
                                         const std::vector<std::string>& settings);

}  // namespace swarmpi
