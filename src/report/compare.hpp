#pragma once
// `swarmpi compare A.h5 B.h5`: did two runs compute the same?

#include <optional>
#include <ostream>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// Compares loss, grad_norm, state_hash, skipped and validation loss of two run files, rows matched
/// by step, bit for bit; with `rtol` losses and norms to that relative difference and the hash not
/// at all. Prints the first difference; which run is incomplete or invalid; and what differs in
/// decks and fingerprints. good: equal, incomplete runs as far as they go; no: they differ, or one
/// is invalid; bad_input: one cannot be read, with a message to `error`.
ExitStatus compare_runs(const std::string& a, const std::string& b, std::optional<double> rtol,
                        std::ostream& out, std::ostream& error);

/// Compares all rows of all tables, in their order, and what else the files say: bit for bit, but
/// for the builds and hosts that made them. Prints the first difference of each table. good: equal;
/// no: they differ; bad_input: one cannot be read, or one is simulated and the other is not, with a
/// message to `error`.
ExitStatus compare_all(const std::string& a, const std::string& b, std::ostream& out,
                       std::ostream& error);

}  // namespace swarmpi
