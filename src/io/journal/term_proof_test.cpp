#include "io/journal/term_proof.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string_view>

#include "io/files.hpp"
#include "io/journal/journal.hpp"
#include "io/library_calls_test.hpp"
#include "io/test_support.hpp"

namespace swarmpi::term_proof_test {
namespace {

using Later = std::optional<std::int64_t>;

TEST(TermProof, ATermIsProvenUntilALaterOneHasMarkedItOver) {
  const TestFolder folder;
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later());
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later());
  EXPECT_EQ(folder.entries(), 0u) << "a proof leaves nothing";
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 5).ok());
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later(5));
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later(5));
  EXPECT_EQ(later_term(folder.path(), 5).value(), Later());
}

TEST(TermProof, AMarkThatComesInTheMidstOfAProofIsSeenAndKept) {
  const TestFolder folder;
  before_file_call = [&](const char* call) {
    if (std::string_view(call) != "rename") return;
    before_file_call = nullptr;  // once, and not for what happens on the other host now
    EXPECT_TRUE(mark_earlier_terms_over(folder.path(), 2).ok());
  };
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(2));
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(2));
}

TEST(TermProof, AMarkReplacesWhatAProofThatStoodStillHasLeft) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "over-1", "").ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later()) << "it was this leader's own";
  ASSERT_TRUE(write_file_durably(folder / "over-1", "").ok());
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 2).ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(2));
}

TEST(TermProof, WhoeverBeginsATermMarksAllThatAreNotMarkedYet) {
  const TestFolder folder;
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 2).ok());
  // Term 3 was created, and its leader died before it had marked term 2.
  JournalBegin begin;
  begin.term = 4;
  ASSERT_TRUE(JournalWriter::create(folder.path(), begin).ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(2));
  EXPECT_EQ(later_term(folder.path(), 2).value(), Later(4));
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later(4));
}

TEST(TermProof, TermsBelowAGapOfMarksAreMarkedToo) {
  const TestFolder folder;
  for (const char* name : {"term-1", "term-3"}) {
    ASSERT_TRUE(write_file_durably(folder / name, "").ok());
  }
  ASSERT_TRUE(write_file_durably(folder / "over-5", "term 6\n").ok());
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 7).ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(7));
  EXPECT_EQ(later_term(folder.path(), 3).value(), Later(7));
  EXPECT_EQ(later_term(folder.path(), 5).value(), Later(6));
}

// Term 1 stood still in the midst of its proof: its empty mark is none.
TEST(TermProof, ReplacesAnEmptyMarkBelowAGapOfMarks) {
  const TestFolder folder;
  for (const char* name : {"term-1", "over-1"}) std::ofstream(folder / name);
  std::ofstream(folder / "over-3") << "term 4\n";
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 5).ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(5));
}

TEST(TermProof, ATermFarAboveAllOthersIsBegunAtOnce) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "term-1", "").ok());
  ASSERT_TRUE(mark_earlier_terms_over(folder.path(), 1'000'000'000).ok());
  EXPECT_EQ(later_term(folder.path(), 1).value(), Later(1'000'000'000));
  EXPECT_EQ(later_term(folder.path(), 999'999'999).value(), Later(1'000'000'000));
}

TEST(TermProof, WhereTheFolderCannotBeWrittenNothingIsProven) {
  const TestFolder folder;
  EXPECT_FALSE(later_term(folder / "missing", 1).ok());
}

}  // namespace
}  // namespace swarmpi::term_proof_test
