#include "protocol/replica/learning.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kValueBytes = sizeof(float);

/// Runs of blocks of at most so many elements, or single ones.
std::vector<BlockRange> cut_into_pieces(const std::vector<Block>& blocks,
                                        std::int64_t most_elements) {
  std::vector<BlockRange> pieces;
  std::int64_t elements = 0;  // of the last piece
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto block = static_cast<std::int64_t>(b);
    elements += blocks[b].count;
    if (pieces.empty() || elements > most_elements) {
      pieces.push_back({block, block});
      elements = blocks[b].count;
    }
    pieces.back().end = block + 1;
  }
  return pieces;
}

}  // namespace

Learning::Learning(const RunPlan& plan, StageId stage, const std::vector<Block>& blocks, Step since)
    : stage_(stage),
      has_ratios_(plan.train.optimizer == Optimizer::lamb),
      kept_limit_bytes_(plan.torture_only.kept_gradient_bytes),
      missing_blocks_(plan.stage_tensors.at(static_cast<std::size_t>(stage.value)).size()),
      hashes_(missing_blocks_.size()),
      window_(plan.torture_only.piece_elements * (plan.delay() + 2) * kValueBytes),
      begun_(since) {
  for (const Block& block : blocks) {
    tensor_of_block_.push_back(block.tensor);
    ++missing_blocks_.at(static_cast<std::size_t>(block.tensor));
  }
  for (const BlockRange& range : cut_into_pieces(blocks, plan.torture_only.piece_elements)) {
    Piece& piece = pieces_.emplace_back();
    piece.blocks = range;
    piece.bytes = elements_of(blocks, range) * (plan.delay() + 2) * kValueBytes;
  }
}

// ---- Pieces on their way

std::vector<std::pair<PeerId, FetchMessage>> Learning::ask(PeerId self,
                                                           const std::vector<PeerId>& donors,
                                                           double now_s) {
  std::vector<std::pair<PeerId, FetchMessage>> requests;
  if (donors.empty() || !ready()) return requests;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    Piece& piece = pieces_[p];
    if (piece.where != Where::missing) continue;
    if (!window_.has_room(piece.bytes)) break;
    // Who begins anew, because something was wrong, begins with another donor.
    const auto turn = static_cast<std::size_t>(self.value + begun_.value + 1) + p;
    piece.donor = donor_for(piece, turn, donors);
    piece.where = Where::asked;
    piece.at_least = begun_;
    piece.request = window_.ask(piece.bytes, now_s);
    requests.emplace_back(piece.donor, FetchMessage{stage_, piece.blocks, begun_});
  }
  return requests;
}

PeerId Learning::donor_for(const Piece& piece, std::size_t turn,
                           const std::vector<PeerId>& donors) const {
  std::map<PeerId, std::int64_t> awaited_bytes;
  for (const Piece& other : pieces_) {
    if (other.where == Where::asked) awaited_bytes[other.donor] += other.bytes;
  }
  std::optional<PeerId> best;
  for (std::size_t i = 0; i < donors.size(); ++i) {
    const PeerId donor = donors[(turn + i) % donors.size()];
    if (piece.damaged_at.contains(donor)) continue;
    if (!best || awaited_bytes[donor] < awaited_bytes[*best]) best = donor;
  }
  return best.value_or(donors[turn % donors.size()]);  // all have sent it damaged: once more
}

void Learning::forget_donors(const View& view) {
  for (Piece& piece : pieces_) {
    if (piece.where == Where::asked && !view.serves(piece.donor, stage_)) lose(piece);
  }
}

std::set<PeerId> Learning::asked() const {
  std::set<PeerId> donors;
  for (const Piece& piece : pieces_) {
    if (piece.where == Where::asked) donors.insert(piece.donor);
  }
  return donors;
}

void Learning::receive(const PieceMessage& message, PeerId from, double now_s) {
  const auto at = std::lower_bound(
      pieces_.begin(), pieces_.end(), message.blocks.first,
      [](const Piece& piece, std::int64_t first) { return piece.blocks.first < first; });
  SWARMPI_CHECK(at != pieces_.end() && at->blocks == message.blocks,
                "all peers cut the state into the same pieces");
  Piece& piece = *at;
  // Sent twice; or what was asked for before an update that it can have no part in any more.
  if (piece.where != Where::asked || message.step < piece.at_least) return;
  window_.receive(piece.request, piece.bytes, now_s);
  piece.where = Where::came;
  piece.donor = from;
  piece.came = message;
  const auto done =
      std::find_if(piece.missed.begin(), piece.missed.end(),
                   [&](const MissedUpdate& update) { return update.record->step > message.step; });
  drop_missed(piece, static_cast<std::size_t>(done - piece.missed.begin()));
}

std::optional<WriteJob> Learning::next_write(Step applied) const {
  for (const Piece& piece : pieces_) {
    if (piece.where != Where::came || piece.came->step > applied) continue;
    SWARMPI_CHECK(piece.came->step.value + std::ssize(piece.missed) == applied.value,
                  "each update that a piece has missed is kept for it");
    return WriteJob{stage_,
                    piece.blocks,
                    piece.came->step,
                    piece.came->hash,
                    piece.came->state,
                    piece.missed,
                    completed_by(piece.blocks)};
  }
  return std::nullopt;
}

void Learning::written(const WriteResult& result) {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& candidate) {
    return candidate.blocks == result.blocks;
  });
  if (!result.intact) {
    piece->damaged_at.insert(piece->donor);
    return lose(*piece);
  }
  for (std::size_t i = 0; i < result.completed.size(); ++i) {
    hashes_.at(static_cast<std::size_t>(result.completed[i])) = result.tensor_hashes.at(i);
  }
  arrived(*piece);
}

void Learning::arrived(Piece& piece) {
  for (std::int64_t b = piece.blocks.first; b < piece.blocks.end; ++b) {
    --missing_blocks_[static_cast<std::size_t>(tensor_of_block_[static_cast<std::size_t>(b)])];
  }
  drop_missed(piece, piece.missed.size());
  piece.came.reset();
  window_.release(piece.bytes);
  piece.where = Where::here;
  ++here_;
}

void Learning::lose(Piece& piece) {
  if (piece.where == Where::asked) window_.forget(piece.bytes);
  if (piece.where == Where::came) window_.release(piece.bytes);
  if (piece.where == Where::here) {
    --here_;
    for (std::int64_t b = piece.blocks.first; b < piece.blocks.end; ++b) {
      ++missing_blocks_[static_cast<std::size_t>(tensor_of_block_[static_cast<std::size_t>(b)])];
    }
  }
  drop_missed(piece, piece.missed.size());
  piece.came.reset();
  piece.where = Where::missing;
}

void Learning::drop_missed(Piece& piece, std::size_t count) {
  const auto end = piece.missed.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto update = piece.missed.begin(); update != end; ++update) {
    kept_bytes_ -= size_of(update->gradient);
  }
  piece.missed.erase(piece.missed.begin(), end);
}

std::vector<std::int32_t> Learning::completed_by(const BlockRange& blocks) const {
  std::map<std::int32_t, std::int64_t> filled;  // blocks, by tensor
  for (std::int64_t b = blocks.first; b < blocks.end; ++b) {
    ++filled[tensor_of_block_[static_cast<std::size_t>(b)]];
  }
  std::vector<std::int32_t> completed;
  for (const auto& [tensor, count] : filled) {
    if (missing_blocks_[static_cast<std::size_t>(tensor)] == count) completed.push_back(tensor);
  }
  return completed;
}

// ---- Updates

void Learning::receive(const RatiosMessage& message) {
  if (message.step > begun_) ratios_[message.step] = message.ratios;
}

bool Learning::may_miss(const Piece& piece, Step step) {
  if (piece.where == Where::asked) return piece.at_least < step;
  return piece.where == Where::came && piece.came->step < step;
}

bool Learning::may_update(const CommitRecord& record, bool has_gradient) const {
  if (!has_gradient || complete()) return true;
  if (kept_bytes_ > kept_limit_bytes_) return false;
  return !has_ratios_ || record.skipped || ratios_.contains(record.step);
}

std::optional<PartialState> Learning::begin_update(const CommitRef& record, bool has_gradient) {
  const Step step = record->step;
  update_ = Update{record, {}, {}};
  begun_ = step;
  if (const auto ratios = ratios_.find(step); ratios != ratios_.end()) {
    update_->ratios = std::move(ratios->second);
  }
  ratios_.erase(ratios_.begin(), ratios_.upper_bound(step));
  if (!has_gradient) {
    for (Piece& piece : pieces_) {
      if (piece.where == Where::here || may_miss(piece, step)) lose(piece);
    }
    return PartialState{};
  }
  if (complete()) return std::nullopt;
  PartialState partial{ranges_here(), {}, update_->ratios};
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (!may_miss(pieces_[p], step)) continue;
    partial.under_way.push_back(pieces_[p].blocks);
    update_->under_way.push_back(p);
  }
  return partial;
}

std::vector<BlockRange> Learning::ranges_here() const {
  std::vector<BlockRange> ranges;
  for (const Piece& piece : pieces_) {
    if (piece.where != Where::here) continue;
    if (!ranges.empty() && ranges.back().end == piece.blocks.first) {
      ranges.back().end = piece.blocks.end;
    } else {
      ranges.push_back(piece.blocks);
    }
  }
  return ranges;
}

// A piece may have come while the update ran, or have been asked of another donor.
void Learning::updated(const ApplyResult& result) {
  hashes_ = result.hash.tensors;
  if (!update_) return;
  for (std::size_t i = 0; i < update_->under_way.size(); ++i) {
    Piece& piece = pieces_[update_->under_way[i]];
    if (!may_miss(piece, result.step)) continue;
    const PayloadRef& gradient = result.gradients.at(i);
    kept_bytes_ += size_of(gradient);
    piece.missed.push_back({update_->record, gradient, update_->ratios});
  }
  update_.reset();
}

}  // namespace swarmpi
