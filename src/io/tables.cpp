#include "io/tables.hpp"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
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

template <class Column>
using StoredColumn = Stored<typename Column::Value>;

template <class Column>
constexpr bool kIsText = std::is_same_v<StoredColumn<Column>, std::string>;

/// The values of a column in some rows, as the file has them.
template <class Column, class Row>
std::vector<StoredColumn<Column>> values_of(const Column& column, std::span<const Row> rows) {
  std::vector<StoredColumn<Column>> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(to_stored(column.of(row)));
  return values;
}

/// Writes the columns of numbers to where the file has room for them, all in one pass.
template <class Row>
class NumberColumns {
 public:
  NumberColumns(TableRows& rows, Columns columns, std::vector<std::int64_t> offsets)
      : rows_(&rows), columns_(columns), offsets_(std::move(offsets)) {}

  int operator()(const Descriptor& file) const {
    int error = 0;
    std::size_t done = 0;
    const TableRows::Use<Row> use = [&](std::span<const Row> rows) {
      if ((error = write(file, rows, done)) != 0) return false;
      done += rows.size();
      return true;
    };
    rows_->for_each(use);
    return error == 0 && done != rows_->count(static_cast<const Row*>(nullptr)) ? EIO : error;
  }

 private:
  int write(const Descriptor& file, std::span<const Row> rows, std::size_t done) const {
    int error = 0;
    std::size_t number = 0;
    for_each_column<Row>([&]<class Column>(const Column& column) {
      if constexpr (!kIsText<Column>) {
        if (columns_ == Columns::shown && !column.shown) return;
        const std::int64_t offset = offsets_[number++];
        if (error != 0) return;
        const auto values = values_of(column, rows);
        const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                     values.size() * sizeof(values[0]));
        error =
            write_all_at(file, bytes, offset + static_cast<std::int64_t>(done * sizeof(values[0])));
      }
    });
    return error;
  }

  TableRows* rows_;
  Columns columns_;
  std::vector<std::int64_t> offsets_;
};

template <class Row>
void write_table(Hdf5Output& file, const std::string& table, TableRows& rows, Columns columns) {
  static_assert(std::endian::native == std::endian::little, "the file's bytes are those of memory");
  const std::size_t count = rows.count(static_cast<const Row*>(nullptr));
  std::vector<std::int64_t> offsets;
  for_each_column<Row>([&]<class Column>(const Column& column) {
    if (columns == Columns::shown && !column.shown) return;
    const std::string name = table + "/" + column.name;
    if constexpr (kIsText<Column>) {
      auto texts = file.text_column(name, count);
      const TableRows::Use<Row> use = [&](std::span<const Row> some) {
        texts.append(values_of(column, some));
        return true;
      };
      rows.for_each(use);
    } else {
      offsets.push_back(file.later_column<StoredColumn<Column>>(name, count));
    }
  });
  if (count > 0) file.write_later(NumberColumns<Row>(rows, columns, std::move(offsets)));
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

void write_tables(Hdf5Output& file, const std::string& group, TableRows& rows, Columns columns) {
  const History names;
  for_each_table(names, [&]<class Row>(const char* name, const std::vector<Row>&) {
    write_table<Row>(file, group + "/" + name, rows, columns);
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
