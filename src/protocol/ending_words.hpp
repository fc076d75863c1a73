#pragma once
// Words by which the reasons of ends are told apart: each is part of the one message that the core
// makes of it, and of nothing else. Torture's rules look for them.

#include <string_view>

namespace swarmpi::ending_words {

/// A newcomer, or a peer that is in no newest view.
inline constexpr std::string_view kNoRunToJoin = "there is no run to join";
/// A peer is silent, and whoever ends the run for it could not have it killed.
inline constexpr std::string_view kCannotBeKilled = "does not answer, and cannot be killed";
/// Of several others none answers, so that it has had nobody killed.
inline constexpr std::string_view kHearsNobody = "this peer hears none of the others";
/// A leader that hears most of the others, which do not hear it.
inline constexpr std::string_view kIsNotHeard = "most of the others do not hear this peer";
/// A run that was to stop ends without a peer that is silent.
inline constexpr std::string_view kWasLeft = "does not answer, nobody can kill it: it was left";
/// A peer that was stopped itself, and whom nobody answers.
inline constexpr std::string_view kStoppedTooLong = "this peer was stopped for too long";
/// A call of the file system.
inline constexpr std::string_view kDoesNotReturn = "does not return";
/// A leader's storage hangs, and others were asked.
inline constexpr std::string_view kNobodyShowed = "no other peer has shown that it can store";
/// Whoever was to lead hangs in storage, and nobody else is left to lead.
inline constexpr std::string_view kNobodyCanStore = "no other peer can store what the run makes";
/// Work hangs that nobody else can do.
inline constexpr std::string_view kNobodyCanWork = "and no other peer can do it";
/// The checkpoint of a stop could not be made.
inline constexpr std::string_view kNoCheckpointOf = "there is no checkpoint of step";
inline constexpr std::string_view kNobodyTold = "nobody has told its state";
inline constexpr std::string_view kNobodyCanWrite = "storage hangs, or does not answer, wherever";

}  // namespace swarmpi::ending_words
