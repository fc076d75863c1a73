#pragma once
// The width of the terminal, and text that fits it.

#include <cstddef>
#include <cstdio>
#include <string>

namespace swarmpi {

/// Its width; 80 where `out` is no terminal.
std::size_t terminal_columns(std::FILE* out);
/// Whether a line there can be rewritten.
bool can_renew_lines(std::FILE* out);

/// The width for paragraphs: the terminal's, but no more than people like to read.
std::size_t text_columns(std::FILE* out);

/// The width for tables and long values: the terminal's; elsewhere no line needs to be broken.
std::size_t unbroken_columns(std::FILE* out);
/// Lines that are longer than `columns` broken at blanks, and indented where they go on; all blanks
/// between words stay. A longer word keeps a line to itself.
std::string folded(const std::string& text, std::size_t columns, std::size_t indent);

/// `text` broken at blanks into lines of at most `columns`; a longer word keeps a line to itself.
/// Lines after the first are indented; of the first, `used` columns are taken already.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent = 0,
                    std::size_t used = 0);

/// Characters that a terminal shows for UTF-8 text.
std::size_t shown_width(const std::string& text);

}  // namespace swarmpi
