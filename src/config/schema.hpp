#pragma once
// The one schema of the deck: every key with its place in Config, type, range and help.
// Parsing, overrides, the resolved deck, "did you mean" and the deck reference all read it; nothing
// else knows key names.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"

namespace swarmpi {

/// Where in Config the value of an enum is, as a number, and the names of its values.
struct ChoiceField {
  std::uint8_t& (*value)(Config&);
  std::span<const std::string_view> names;

  std::uint8_t& operator()(Config& config) const { return value(config); }
};

/// Where in Config a key's value is; the alternative is the key's type.
using Field =
    std::variant<bool& (*)(Config&), std::int64_t& (*)(Config&), std::uint64_t& (*)(Config&),
                 double& (*)(Config&), std::string& (*)(Config&), ChoiceField,
                 std::vector<std::string>& (*)(Config&), std::vector<std::int64_t>& (*)(Config&)>;

/// Numbers that a key takes; of a list, each element.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;     ///< min itself is out
  bool below_max = false;     ///< max itself is out
  std::string_view why = {};  ///< where it is not obvious
};

enum class OnResume { fixed, may_change };

struct KeySpec {
  std::string_view section = {}, name = {};
  Field field;
  std::string_view unit = {};
  Range range = {};
  bool default_only = false;                     ///< this version takes no other value
  std::vector<std::string_view> available = {};  ///< what this version takes; empty: all
  OnResume on_resume = OnResume::fixed;
  bool required = false;  ///< in a row of a table: has no default
  std::string_view help = {};

  std::string full_name() const { return std::string(section) + "." + std::string(name); }
  /// The names of an enum's values; of any other key none.
  std::vector<std::string_view> choices() const;
};

/// Tables that a deck may give any number of times: [devices.NAME], or [[peers]]. Each is a row of
/// a list in Config; the fields of its keys are those of the last row there.
struct TableSpec {
  std::string_view name = {};
  std::string& (*row_name)(Config&) = nullptr;  ///< where NAME is kept; null: rows have none
  std::vector<KeySpec> keys = {};
  std::size_t (*count)(const Config&) = nullptr;
  void (*resize)(Config&, std::size_t rows) = nullptr;
  void (*append_row)(const Config& from, std::size_t row, Config& to) = nullptr;
  std::string_view help = {};

  /// How a row begins in the deck: `[devices.NAME]`, `[[peers]]`.
  bool named() const { return row_name != nullptr; }
  std::string header(std::string_view name_of_row = "NAME") const;
  const KeySpec* find_key(std::string_view key) const;
  /// A config whose only row in this table is that one.
  Config alone(const Config& config, std::size_t row) const;
  /// NAME of that row. REQUIRES: named.
  std::string name_of(const Config& config, std::size_t row) const;
  /// What names a row in `Config::places`: `devices.NAME`, `peers[0]`.
  std::string row_id(const Config& config, std::size_t row) const;
};

/// All tables, in the order in which a resolved deck has them. Every key of theirs may change on
/// resume.
const std::vector<TableSpec>& tables();

/// The table's specification, or null.
const TableSpec* find_table(std::string_view name);

/// All keys, section by section, in the order in which a resolved deck has them.
const std::vector<KeySpec>& schema();

/// The key's row, or null.
const KeySpec* find_key(std::string_view section, std::string_view name);

/// Sections that have keys, in order, without tables.
const std::vector<std::string_view>& sections();

}  // namespace swarmpi
