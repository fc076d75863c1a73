#include "io/tables.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/choices.hpp"
#include "io/column_notes.hpp"
#include "io/row_fields.hpp"
#include "io/throughput_steps.hpp"

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

/// Gives the columns their units and names, and those beside the table's scale that coordinate.
template <class Row>
void describe_columns(Hdf5Output& file, const std::string& table) {
  const Row* const row = nullptr;
  const std::string scale = table + "/" + std::string(kScaleColumn);
  std::vector<std::string> others;
  for (const ColumnNote& note : notes_of(row)) {
    const std::string name = table + "/" + std::string(note.column);
    if (!note.units.empty()) file.text_attribute(name, "units", std::string(note.units));
    file.text_attribute(name, "long_name", std::string(note.long_name));
    if (name != scale) others.push_back(name);
  }
  file.dimension_scale(scale, others);
}

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
  if (std::is_same_v<Row, ThroughputRow> && columns == Columns::shown) {
    const std::int64_t offset = file.later_column<std::int64_t>(table + "/step", count);
    const auto write = [&rows, offset](const Descriptor& out) {
      return write_throughput_steps(rows, out, offset);
    };
    if (count > 0) file.write_later(write);
  }
  if (columns == Columns::shown) describe_columns<Row>(file, table);
  if (count > 0) file.write_later(NumberColumns<Row>(rows, columns, std::move(offsets)));
}

/// use(column, name) for each column of a table that the file has, and for those that it lacks and
/// should have.
template <class Row, class Use>
void for_each_stored_column(Hdf5Input& file, const std::string& table, Columns columns, Use&& use) {
  for_each_column<Row>([&]<class Column>(const Column& column) {
    if (columns == Columns::shown && !column.shown) return;
    const std::string name = table + "/" + column.name;
    if (column.came_later && !file.has(name)) return;
    use(column, name);
  });
}

/// How many rows a table has: as many as each of its columns.
template <class Row>
std::size_t count_rows(Hdf5Input& file, const std::string& table, Columns columns) {
  std::optional<std::int64_t> count;
  const auto compare = [&]<class Column>(const Column&, const std::string& name) {
    const std::int64_t size = file.column_size<StoredColumn<Column>>(name);
    if (count.value_or(size) != size) file.refuse(name + " is shorter or longer than its table");
    count = size;
  };
  for_each_stored_column<Row>(file, table, columns, compare);
  return static_cast<std::size_t>(count.value_or(0));
}

/// Reads rows.size() rows, from row `from` on. They must be zeros.
template <class Row>
void read_rows(Hdf5Input& file, const std::string& table, Columns columns, std::size_t from,
               std::vector<Row>& rows) {
  const ElementRange range{static_cast<std::int64_t>(from), std::ssize(rows)};
  const auto read = [&]<class Column>(const Column& column, const std::string& name) {
    std::vector<StoredColumn<Column>> values;
    if constexpr (kIsText<Column>) {
      values = file.text_column(name, range);
    } else {
      values = file.column<StoredColumn<Column>>(name, range);
    }
    if (!file.status().ok()) return;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      column.of(rows[i]) = from_stored<typename Column::Value>(values[i], file, name);
    }
  };
  for_each_stored_column<Row>(file, table, columns, read);
}

/// What is known of a table in a file before its rows are read.
template <class Row>
struct StoredTable {
  std::string name;
  std::size_t count = 0;
};

/// Rows of a file.
class StoredRows final : public TableRows {
 public:
  StoredRows(Hdf5Input& file, const std::string& group, Columns columns)
      : file_(&file), columns_(columns) {
    const History names;
    for_each_table(names, [&]<class Row>(const char* name, const std::vector<Row>&) {
      auto& table = std::get<StoredTable<Row>>(tables_);
      table.name = group + "/" + name;
      table.count = count_rows<Row>(file, table.name, columns);
    });
  }

  std::size_t count(const StepRow*) override { return count_of<StepRow>(); }
  std::size_t count(const ValidationRow*) override { return count_of<ValidationRow>(); }
  std::size_t count(const PeerRow*) override { return count_of<PeerRow>(); }
  std::size_t count(const EventRow*) override { return count_of<EventRow>(); }
  std::size_t count(const ThroughputRow*) override { return count_of<ThroughputRow>(); }
  std::size_t count(const GoodputRow*) override { return count_of<GoodputRow>(); }
  void for_each(const Use<StepRow>& use) override { for_each_block(use); }
  void for_each(const Use<ValidationRow>& use) override { for_each_block(use); }
  void for_each(const Use<PeerRow>& use) override { for_each_block(use); }
  void for_each(const Use<EventRow>& use) override { for_each_block(use); }
  void for_each(const Use<ThroughputRow>& use) override { for_each_block(use); }
  void for_each(const Use<GoodputRow>& use) override { for_each_block(use); }

 private:
  template <class Row>
  std::size_t count_of() const {
    return std::get<StoredTable<Row>>(tables_).count;
  }

  template <class Row>
  void for_each_block(const std::function<bool(std::span<const Row>)>& use) {
    const auto& table = std::get<StoredTable<Row>>(tables_);
    std::vector<Row> rows;
    for (std::size_t from = 0; from < table.count; from += rows.size()) {
      rows.assign(std::min(kBlockRows, table.count - from), Row{});
      read_rows(*file_, table.name, columns_, from, rows);
      if (!file_->status().ok() || !use(rows)) return;
    }
  }

  Hdf5Input* file_;
  Columns columns_;
  std::tuple<StoredTable<StepRow>, StoredTable<ValidationRow>, StoredTable<PeerRow>,
             StoredTable<EventRow>, StoredTable<ThroughputRow>, StoredTable<GoodputRow>>
      tables_;
};

}  // namespace

void write_tables(Hdf5Output& file, const std::string& group, TableRows& rows, Columns columns) {
  const History names;
  for_each_table(names, [&]<class Row>(const char* name, const std::vector<Row>&) {
    write_table<Row>(file, group + "/" + name, rows, columns);
  });
}

std::unique_ptr<TableRows> open_tables(Hdf5Input& file, const std::string& group, Columns columns) {
  return std::make_unique<StoredRows>(file, group, columns);
}

History read_tables(Hdf5Input& file, const std::string& group, Columns columns) {
  return all_rows(*open_tables(file, group, columns));
}

History all_rows(TableRows& rows) {
  History history;
  for_each_table(history, [&]<class Row>(const char*, std::vector<Row>& all) {
    all.reserve(rows.count(static_cast<const Row*>(nullptr)));
    const TableRows::Use<Row> use = [&all](std::span<const Row> some) {
      all.insert(all.end(), some.begin(), some.end());
      return true;
    };
    rows.for_each(use);
  });
  return history;
}

}  // namespace swarmpi
