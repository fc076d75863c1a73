#include "io/tables.hpp"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/choices.hpp"
#include "io/row_fields.hpp"

namespace swarmpi {

namespace {

/// HDF5 has no type for bool that every reader understands; enumerators are stored as their names.
template <class Value>
using Stored = std::conditional_t<std::is_same_v<Value, bool>, std::uint8_t,
                                  std::conditional_t<Choice<Value>, std::string, Value>>;

template <class Value>
Stored<Value> to_stored(const Value& value) {
  if constexpr (Choice<Value>) {
    return name_of(value);
  } else {
    return value;
  }
}

template <class Value>
Value from_stored(const Stored<Value>& stored, Hdf5Input& file, const std::string& name) {
  if constexpr (Choice<Value>) {
    const std::optional<Value> known = value_named<Value>(stored);
    if (!known) file.refuse(name + " holds `" + stored + "`, which is not known");
    return known.value_or(Value{});
  } else {
    return static_cast<Value>(stored);
  }
}

template <class Row>
void write_table(Hdf5Output& file, const std::string& table, const std::vector<Row>& rows,
                 Columns columns) {
  for_each_column<Row>([&]<class Column>(const Column& column) {
    if (columns == Columns::shown && !column.shown) return;
    std::vector<Stored<typename Column::Value>> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(to_stored(column.of(row)));
    file.column(table + "/" + column.name, values);
  });
}

template <class Row>
std::vector<Row> read_table(Hdf5Input& file, const std::string& table, Columns columns) {
  std::vector<Row> rows;
  bool first = true;
  for_each_column<Row>([&]<class Column>(const Column& column) {
    using Value = typename Column::Value;
    if (columns == Columns::shown && !column.shown) return;
    const std::string name = table + "/" + column.name;
    if (column.came_later && !file.has(name)) return;
    std::vector<Stored<Value>> values;
    if constexpr (std::is_same_v<Stored<Value>, std::string>) {
      values = file.text_column(name);
    } else {
      values = file.column<Stored<Value>>(name);
    }
    if (std::exchange(first, false)) rows.resize(values.size());
    if (values.size() != rows.size()) file.refuse(name + " is shorter or longer than its table");
    if (!file.status().ok()) return;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      column.of(rows[i]) = from_stored<Value>(values[i], file, name);
    }
  });
  return rows;
}

}  // namespace

void write_tables(Hdf5Output& file, const std::string& group, const History& history,
                  Columns columns) {
  for_each_table(history, [&](const char* name, const auto& rows) {
    write_table(file, group + "/" + name, rows, columns);
  });
}

History read_tables(Hdf5Input& file, const std::string& group, Columns columns) {
  History history;
  for_each_table(history, [&]<class Row>(const char* name, std::vector<Row>& rows) {
    rows = read_table<Row>(file, group + "/" + name, columns);
  });
  return history;
}

}  // namespace swarmpi
