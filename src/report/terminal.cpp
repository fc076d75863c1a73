#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>

namespace swarmpi {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kReadableColumns = 100;

std::optional<std::size_t> known_columns(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::nullopt;
  return size.ws_col;
}

}  // namespace

std::size_t terminal_columns(std::FILE* out) { return known_columns(out).value_or(kUsualColumns); }

// Where the output of mpirun goes into a file, it gives its ranks terminals without a width.
bool can_renew_lines(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(out)) != 0 && known_columns(out) && kind != nullptr &&
         std::string(kind) != "dumb";
}

std::size_t text_columns(std::FILE* out) {
  return std::min(terminal_columns(out), kReadableColumns);
}

std::size_t unbroken_columns(std::FILE* out) {
  const bool terminal = isatty(fileno(out)) != 0;
  return (terminal ? known_columns(out) : std::nullopt)
      .value_or(std::numeric_limits<std::size_t>::max());
}

std::string folded(const std::string& text, std::size_t columns, std::size_t indent) {
  std::istringstream lines(text);
  std::string all, line;
  while (std::getline(lines, line)) {
    while (shown_width(line) > columns) {
      std::size_t end = line.rfind(' ', columns);
      if (end == std::string::npos || end <= indent)
        end = line.find(' ', std::max(columns, indent));
      const std::size_t next = line.find_first_not_of(' ', end);
      if (next == std::string::npos) break;
      all += line.substr(0, line.find_last_not_of(' ', end) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(next);
    }
    all += line + "\n";
  }
  return all;
}

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent,
                    std::size_t used) {
  std::istringstream words(text);
  std::string lines, word;
  bool line_is_empty = true;
  while (words >> word) {
    const std::size_t width = shown_width(word);
    if (!line_is_empty && used + 1 + width > columns) {
      lines += "\n" + std::string(indent, ' ');
      used = indent;
      line_is_empty = true;
    }
    if (!line_is_empty) lines += ' ';
    used += width + (line_is_empty ? 0 : 1);
    lines += word;
    line_is_empty = false;
  }
  return lines;
}

}  // namespace swarmpi
