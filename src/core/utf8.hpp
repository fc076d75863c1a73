#pragma once
// Is this text? Asked of decks, of overrides and of the files that `prepare` collects.

#include <string_view>

namespace swarmpi {

/// Whether `bytes` are well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF).
bool is_utf8(std::string_view bytes);

}  // namespace swarmpi
