// The bytes of journals, manifests and marks of the end, as commit db79bc35 wrote them. Its
// journals have version 5, in which rows have the same bytes behind the version's digit.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/hash.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files.hpp"
#include "io/journal/format.hpp"
#include "io/test_support.hpp"

namespace swarmpi::golden_test {
namespace {

// Every field holds its place in the row.
template <class Row>
Row numbered_fields() {
  Row row;
  int place = 0;
  for_each_field(row, [&]<class Field>(std::string_view, Field& field) {
    ++place;
    if constexpr (std::is_same_v<Field, bool>) {
      field = true;
    } else if constexpr (std::is_same_v<Field, std::string>) {
      field = "text";
    } else {
      field = static_cast<Field>(place);
    }
  });
  return row;
}

template <class Row>
void expect_bytes(std::uint32_t type, std::uint64_t hash) {
  constexpr std::uint64_t kSynced = 7;
  std::string bytes = encode(numbered_fields<Row>(), kSynced);
  EXPECT_EQ(first_frame(bytes, kJournalFormat.newest).value().type, type) << kTypeName<Row>;
  bytes.at(3) = '5';
  EXPECT_EQ(hash_bytes(bytes.data(), bytes.size()), hash) << kTypeName<Row>;
}

TEST(JournalGolden, EveryRowHasItsTypeAndItsBytes) {
  expect_bytes<StepRow>(1, 0xff8ed9d6514ee374);
  expect_bytes<ValidationRow>(2, 0xdf7d8813e8bc4f54);
  expect_bytes<PeerRow>(3, 0x3ae3de693df8fc4e);
  expect_bytes<EventRow>(4, 0x9b616072b70aa0e1);
  expect_bytes<ThroughputRow>(5, 0x6d92df01fc801a7c);
  expect_bytes<GoodputRow>(6, 0x7e1b21b2758b18ef);
}

// As version 6 has them, with the first term of the start.
TEST(JournalGolden, ItsBeginHasItsBytes) {
  JournalBegin begin;
  begin.term = 1;
  begin.incarnation = 2;
  begin.from_step = 3;
  begin.delay = 4;
  begin.first_term = 5;
  const std::string bytes = encode(begin);
  EXPECT_EQ(hash_bytes(bytes.data(), bytes.size()), 0xef4e07f4862098c8);
}

TEST(JournalGolden, TheMarkOfTheEndHasItsText) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "j");
  ASSERT_TRUE(mark_ended(folder / "j", {2, 4, ExitStatus::stopped, "somebody asked"}).ok());
  EXPECT_EQ(read_file(folder / "j/ended").value(), "run 2 term 4 status 3\nsomebody asked\n");
}

TEST(ManifestGolden, HasItsText) {
  Manifest manifest;
  manifest.step = 100;
  manifest.leader = {"leader.h5", 1, 2};
  manifest.stages = {{"stage-0.h5", 3, 4}, {"stage-1.h5", 5, 6}};
  manifest.rows = {{"rows-steps-0", 7, 8}};
  EXPECT_EQ(manifest_text(manifest),
            "swarmpi checkpoint 3\n"
            "step 100\n"
            "leader leader.h5 0000000000000001 2\n"
            "stage stage-0.h5 0000000000000003 4\n"
            "stage stage-1.h5 0000000000000005 6\n"
            "rows rows-steps-0 0000000000000007 8\n"
            "end 063113f5143f2a80\n");
}

}  // namespace
}  // namespace swarmpi::golden_test
