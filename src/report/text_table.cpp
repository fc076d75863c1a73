#include "report/text_table.hpp"

#include <algorithm>

#include "report/terminal.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kGap = 2;

using Rows = std::vector<std::vector<std::string>>;

std::size_t width_of(const Rows& rows, std::size_t column) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, shown_width(row[column]));
  return width;
}

std::string blanks(std::size_t width, const std::string& text) {
  return std::string(width - shown_width(text), ' ');
}

// The first column, and those from `from` to before `to`.
std::string block(const Rows& rows, const std::vector<std::size_t>& widths, std::size_t from,
                  std::size_t to) {
  std::string text;
  for (const auto& row : rows) {
    std::string line = row[0] + blanks(widths[0], row[0]);
    for (std::size_t i = from; i < to; ++i) {
      line += std::string(kGap, ' ') + blanks(widths[i], row[i]) + row[i];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string text_table(const Rows& rows, std::size_t columns) {
  if (rows.empty() || rows.front().empty()) return "";
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < rows.front().size(); ++i) widths.push_back(width_of(rows, i));
  if (widths.size() == 1) return block(rows, widths, 1, 1);
  std::string text;
  for (std::size_t from = 1, to = 1; from < widths.size(); from = to) {
    std::size_t used = widths[0];
    while (to < widths.size() && (to == from || used + kGap + widths[to] <= columns)) {
      used += kGap + widths[to++];
    }
    text += (text.empty() ? "" : "\n") + block(rows, widths, from, to);
  }
  return text;
}

}  // namespace swarmpi
