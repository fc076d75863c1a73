#pragma once
// Whether a term is over, by what its file server says and not by a listing, which a host may
// remember for a minute.
//
// A leader marks all earlier terms over, by files `over-N`, before it says that it leads. Whoever
// leads term N proves that nobody has: it creates `over-N` exclusively, which fails where the mark
// is, and takes it away again by a rename. If a mark has replaced the file meanwhile, the rename
// shows it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

/// Of the files that tell of term N.
inline constexpr std::string_view kOverPrefix = "over-", kProofPrefix = "proof-";

/// Marks all terms before `term` over, so that no leader of them proves itself from now on: those
/// that have files, and up to 64 below `term` that have none yet. Errors: stopped.
Status mark_earlier_terms_over(const std::string& folder, std::int64_t term);

/// The term that has begun after this one, as far as that is marked; nothing while it is proven to
/// be the newest. REQUIRES: only the process that leads `term` asks, on one thread. Errors:
/// stopped, where the folder cannot be written.
Result<std::optional<std::int64_t>> later_term(const std::string& folder, std::int64_t term);

}  // namespace swarmpi
