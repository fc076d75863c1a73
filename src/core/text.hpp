#pragma once
// Numbers as text for people, and whether bytes are text at all.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace swarmpi {

/// The nearest double; exact up to 2^53.
inline double as_double(std::int64_t value) { return static_cast<double>(value); }

/// "23.4 GiB", "512 KiB": three significant digits.
std::string readable_bytes(double bytes);

/// "812", "12.3 M", "1.23 G": three significant digits.
std::string readable_count(double count);

/// "1 peer", "3 peers".
std::string counted(std::int64_t count, std::string_view noun);

/// "0-2,5": three or more consecutive numbers become a range.
std::string number_list(const std::set<std::int64_t>& numbers);

/// The words of both texts, each once, sorted, with a blank between two.
std::string joined_words(const std::string& a, const std::string& b);

/// Whether `name` is one of `names`.
bool contains(const std::vector<std::string>& names, const std::string& name);

/// Whether `bytes` are well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF).
bool is_utf8(std::string_view bytes);

}  // namespace swarmpi
