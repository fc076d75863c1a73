// Terms on real files: which process may lead, and until when what a leader stores counts.

#include "runtime/run_storage.hpp"

#include <gtest/gtest.h>

#include "io/test_support.hpp"

namespace swarmpi {
namespace {

// One process of a run.
class Writer {
 public:
  Writer(const std::string& folder, std::int64_t first_term)
      : storage_(plan(folder, first_term), stages_, clock_, inbox_) {}

  template <class Answer>
  Answer answer_to(auto action) {
    storage_.take(std::move(action));
    return next<Answer>();
  }
  template <class Answer>
  Answer next() {
    while (true) {
      if (const std::optional<Event> event = inbox_.take()) return std::get<Answer>(*event);
    }
  }

 private:
  static StoragePlan plan(const std::string& folder, std::int64_t first_term) {
    StoragePlan plan;
    plan.run_file = folder + "/RUN.h5";
    plan.checkpoints = folder + "/checkpoints";
    plan.first_term = first_term;
    return plan;
  }

  WallClock clock_;
  Inbox inbox_;
  PayloadPool payloads_;
  JobExecutor stages_{Config(), nullptr, payloads_, {}};
  RunStorage storage_;
};

TEST(RunStorage, ARunThatHasEndedHasNoFurtherLeaderButALaterRunMay) {
  const TestFolder folder;
  Writer leader(folder.path(), 1);
  EXPECT_TRUE(leader.answer_to<TermCreated>(CreateTerm{Term(1)}).created);
  leader.answer_to<EndDurable>(StoreEnd{ExitStatus::stopped, "somebody asked"});

  const auto late = Writer(folder.path(), 1).answer_to<TermCreated>(CreateTerm{Term(2)});
  EXPECT_FALSE(late.created);
  ASSERT_TRUE(late.ended);
  EXPECT_EQ(late.ended->why, "somebody asked");

  EXPECT_TRUE(Writer(folder.path(), 2).answer_to<TermCreated>(CreateTerm{Term(2)}).created);
}

TEST(RunStorage, ALeaderCannotStoreOnceALaterTermExists) {
  const TestFolder folder;
  Writer first(folder.path(), 1);
  EXPECT_TRUE(first.answer_to<TermCreated>(CreateTerm{Term(1)}).created);
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
  Writer second(folder.path(), 1);
  EXPECT_TRUE(second.answer_to<TermCreated>(CreateTerm{Term(2)}).created);
  const auto over = first.answer_to<TermOver>(StoreRecord{2, EventRow{}});
  EXPECT_EQ(over.term, Term(1));
  EXPECT_EQ(over.newest, Term(2));
  EXPECT_TRUE(first.answer_to<TermCreated>(CreateTerm{Term(3)}).created);
  first.answer_to<RecordDurable>(StoreRecord{1, EventRow{}});
}

}  // namespace
}  // namespace swarmpi
