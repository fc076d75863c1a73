#pragma once
// From a deck file and overrides to a Config, or to one clear message with file, line and key.

#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Reads DECK, after the decks that its `include` names by their paths from its folder: it may say
/// anew what they say, rows of lists add up. Applies `section.key=value` overrides in order, checks
/// every key against the schema (type, range, choices, "did you mean") and the rules between keys
/// that need no data (heads divide width, stages fit layers and groups, ...). Errors: bad_input,
/// naming file, line and key; overrides are named as `--set`.
Result<Config> load_deck(const std::string& path, const std::vector<std::string>& overrides);

/// The same from text, for decks stored in checkpoints and run files. `name` stands for the file in
/// messages.
Result<Config> parse_deck(const std::string& text, const std::string& name,
                          const std::vector<std::string>& overrides);

/// A status whose message begins with a key ("data.paths: ...") with the place where the deck gives
/// it put in front.
Status with_place(const Config& config, const Status& status);

/// The complete deck as TOML, every key with its value, in schema order;
/// parse_deck(resolved_deck(c)) == c. Callers set `data.hash` first, so that what is stored names
/// its data.
std::string resolved_deck(const Config& config);

/// Keys in which two configs differ, as `section.key: a -> b`, in schema order.
struct DeckDifference {
  std::string key;
  std::string a, b;
};
std::vector<DeckDifference> deck_differences(const Config& a, const Config& b);

/// A key and its value, as it stands in a deck.
struct DeckValue {
  std::string key, value;
};
/// All keys of the resolved deck in its order, those of tables by their rows: `train.lr`,
/// `devices.t4.gflops`, `routes[0].mbps`.
std::vector<DeckValue> deck_values(const Config& config);

/// Whether a resumed run may differ from its checkpoint's deck in this key (docs/running.md).
/// `cuts_matter`: in either.
bool may_change_on_resume(const std::string& key, bool cuts_matter);

/// The deck reference: every key with type, unit, range, default and help, as text for a terminal.
std::string deck_reference();

}  // namespace swarmpi
