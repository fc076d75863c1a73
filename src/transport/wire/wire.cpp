#include "transport/wire/wire.hpp"

#include <utility>

#include "core/archive.hpp"
#include "core/check.hpp"
#include "protocol/messages/message_table.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

// What is not written as the archive would by itself.

void write(ArchiveWriter& archive, const CommitRef& record) {
  SWARMPI_CHECK(record, "a CommitMessage without its record");
  archive(*record);
}
void read(ArchiveReader& archive, CommitRef& record) {
  record = read_shared<CommitRecord>(archive);
}

void write(ArchiveWriter& archive, const ViewRef& view) {
  archive(view->number, view->members(), view->learners(), view->leaving(), view->move(),
          view->order().numbers, view->budgets());
}
void read(ArchiveReader& archive, ViewRef& view) {
  ViewNumber number;
  View::Roles members, learners, leaving;
  std::optional<StageMove> move;
  LeadingOrder order;
  Budgets budgets;
  archive(number, members, learners, leaving, move, order.numbers, budgets);
  view = share({number, std::move(members), std::move(learners), std::move(leaving), move,
                std::move(order), std::move(budgets)});
}

void write(ArchiveWriter& archive, const ViewMessage& message) {
  archive(message.restart, message.delta);
  if (!message.delta) archive(message.view);
}
void read(ArchiveReader& archive, ViewMessage& message) {
  archive(message.restart, message.delta);
  if (!message.delta) archive(message.view);
}

void write(ArchiveWriter& archive, const Bitmap& bitmap) {
  archive.number(bitmap.size());
  for (std::int64_t first = 0; first < bitmap.size(); first += 8) {
    unsigned byte = 0;
    for (int bit = 0; bit < 8; ++bit) byte |= bitmap.contains(first + bit) ? 1U << bit : 0U;
    archive.number(static_cast<std::uint8_t>(byte));
  }
}
void read(ArchiveReader& archive, Bitmap& bitmap) {
  std::int64_t size = 0;
  archive.number(size);
  const auto bytes_left = static_cast<std::int64_t>(archive.remaining());
  if (size < 0 || size / 8 > bytes_left) {
    archive.refuse("bitmap size", static_cast<std::uint64_t>(size));
  }
  if (!archive.good()) return;
  bitmap = Bitmap(size);
  for (std::int64_t first = 0; first < size; first += 8) {
    std::uint8_t byte = 0;
    archive.number(byte);
    for (int bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1) == 0) continue;
      if (first + bit < size) {
        bitmap.insert(first + bit);
      } else {
        archive.refuse("bitmap byte", byte);
      }
    }
  }
}

Packed pack(const Message& message) {
  ArchiveWriter archive;
  archive(message);
  return {archive.take_bytes(), archive.take_payload()};
}

Result<Message> unpack(std::span<const std::byte> header, PayloadRef payload) {
  return from_bytes<Message>(header, std::move(payload));
}

}  // namespace swarmpi
