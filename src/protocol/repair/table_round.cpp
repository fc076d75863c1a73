#include "protocol/repair/table_round.hpp"

#include <fmt/core.h>

#include "protocol/messages/tables.hpp"

namespace swarmpi {

std::string TableRound::waiting_for() const {
  std::string text = "tables of peers";
  for (const PeerId peer : awaited_) text += fmt::format(" {}", peer.value);
  return text;
}

void TableRound::drop_tables(double now_s) {
  if (!gathering()) since_s_ = now_s;
  state_ = State::settled;
  tables_.clear();
  awaited_.clear();
}

void TableRound::gather(const View::Roles& members) {
  state_ = State::gathering;
  for (const auto& [peer, stages] : members) awaited_.insert(peer);
}

bool TableRound::enter(const TableMessage& table, PeerId from) {
  if (awaited_.erase(from) == 0) return false;
  tables_[from] = table;
  if (awaited_.empty()) state_ = State::settled;
  return true;
}

bool TableRound::leave_out(const std::set<PeerId>& peers) {
  if (!gathering()) return false;
  std::erase_if(awaited_, [&](PeerId peer) { return peers.contains(peer); });
  if (!awaited_.empty()) return false;
  state_ = State::settled;
  return true;
}

void TableRound::fall_back() {
  state_ = State::falling_back;
  awaited_.clear();
}

}  // namespace swarmpi
