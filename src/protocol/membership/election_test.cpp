#include "protocol/membership/election.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/message.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::election_test {
namespace {

ViewRef view_of(ViewNumber number, const std::vector<std::int32_t>& peers) {
  View view;
  view.number = number;
  for (const std::int32_t peer : peers) view.add(PeerId(peer));
  return share(std::move(view));
}

// Peer 1 of a run of peers 0 to 3, after the death of peer 0, which led in view 1.1.
struct Candidate {
  Candidate() {
    membership.adopt(view_of({Term(1), 1}, {0, 1, 2, 3}));
    lose(0);
  }
  std::optional<ViewMessage> lose(std::int32_t peer) {
    membership.lost(PeerId(peer));
    return election.lost(PeerId(peer));
  }
  void answers(std::int32_t peer, ViewRef view, Term term = Term(2)) {
    election.receive(InquiryAnswer{term, std::move(view), nullptr}, PeerId(peer));
  }
  // To whom messages of this kind were sent since the last call.
  template <class Body>
  std::vector<std::int32_t> sent() {
    std::vector<std::int32_t> peers;
    for (const Action& action : outbox.take()) {
      const auto* send = get_if<Send>(&action);
      if (send != nullptr && holds_alternative<Body>(send->message.body)) {
        peers.push_back(send->to.value);
      }
    }
    return peers;
  }

  RunPlan plan = testing::tiny_plan(1, 2);
  Membership membership{
      PeerId(1), {{PeerId(0), PeerId(1), PeerId(2), PeerId(3)}, {}, Term(1)}, plan};
  Outbox outbox;
  Election election{membership, outbox};
};

using Peers = std::vector<std::int32_t>;

TEST(Election, AsksStorageForOneTermAtATime) {
  Candidate candidate;
  EXPECT_FALSE(candidate.election.under_way());
  candidate.election.ask_for(Term(2));
  const Actions actions = candidate.outbox.take();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(get<CreateTerm>(actions[0]).term, Term(2));
  EXPECT_TRUE(candidate.election.under_way());
  EXPECT_FALSE(candidate.election.inquires());
  candidate.election.storage_answered();
  EXPECT_FALSE(candidate.election.under_way());
}

TEST(Election, TheMandateIsTheNewestViewOfAll) {
  Candidate candidate;
  candidate.election.inquire(Term(2), nullptr);
  EXPECT_EQ(candidate.sent<InquiryMessage>(), (Peers{2, 3}));
  candidate.answers(2, view_of({Term(1), 3}, {0, 1, 2, 3}));
  EXPECT_FALSE(candidate.election.mandate());
  candidate.answers(3, view_of({Term(1), 2}, {1, 2, 3}));
  const auto mandate = candidate.election.mandate();
  ASSERT_TRUE(mandate);
  EXPECT_EQ(mandate->term, Term(2));
  EXPECT_EQ(mandate->view->number, (ViewNumber{Term(1), 3}));
  EXPECT_FALSE(candidate.election.under_way());
  EXPECT_FALSE(candidate.election.mandate()) << "once";
}

TEST(Election, WhoIsInANewerViewIsAskedTooAndEachOnce) {
  Candidate candidate;
  candidate.membership.heard_of(PeerId(7));
  candidate.election.inquire(Term(2), nullptr);
  EXPECT_EQ(candidate.sent<InquiryMessage>(), (Peers{2, 3, 7}));
  candidate.answers(7, view_of({Term(1), 2}, {0, 1, 2, 3, 7, 8}));
  EXPECT_EQ(candidate.sent<InquiryMessage>(), Peers{8});
  EXPECT_EQ(candidate.election.asked().size(), 4u);
  EXPECT_EQ(candidate.election.awaited().size(), 3u);
  candidate.election.repeat_inquiry();
  EXPECT_EQ(candidate.sent<InquiryMessage>(), (Peers{2, 3, 8}));
}

TEST(Election, TheDeadAreNotWaitedFor) {
  Candidate candidate;
  candidate.election.inquire(Term(2), nullptr);
  candidate.answers(3, view_of({Term(1), 1}, {0, 1, 2, 3}));
  candidate.lose(2);
  EXPECT_TRUE(candidate.election.mandate());
}

TEST(Election, AnswersToAnInquiryOfAnotherTermDoNotCount) {
  Candidate candidate;
  candidate.election.inquire(Term(2), nullptr);
  candidate.answers(2, view_of({Term(1), 9}, {0, 1, 2, 3}), Term(3));
  candidate.answers(3, view_of({Term(1), 1}, {0, 1, 2, 3}));
  EXPECT_FALSE(candidate.election.mandate()) << "peer 2 has not answered this one";
}

TEST(Election, AViewOfAnotherLeaderEndsTheInquiry) {
  Candidate candidate;
  candidate.election.inquire(Term(2), nullptr);
  candidate.election.settled();
  EXPECT_FALSE(candidate.election.under_way());
  candidate.election.ask_for(Term(3));
  candidate.election.settled();
  EXPECT_TRUE(candidate.election.under_way()) << "storage will answer all the same";
}

TEST(Election, AfterAPromiseViewsOfEarlierTermsAreHeldBack) {
  Candidate candidate;
  candidate.election.receive(InquiryMessage{Term(4)}, PeerId(2), nullptr);
  EXPECT_EQ(candidate.sent<InquiryAnswer>(), Peers{2});
  EXPECT_FALSE(candidate.election.admits({view_of({Term(3), 1}, {1, 3}), nullptr}));
  EXPECT_TRUE(candidate.election.admits({view_of({Term(4), 1}, {1, 2}), nullptr}));
  candidate.election.receive(InquiryMessage{Term(3)}, PeerId(3), nullptr);
  EXPECT_TRUE(candidate.sent<InquiryAnswer>().empty()) << "a later term is promised";
}

TEST(Election, ThePromiseEndsWithThePeerThatItWasMadeTo) {
  Candidate candidate;
  candidate.election.receive(InquiryMessage{Term(4)}, PeerId(2), nullptr);
  candidate.election.admits({view_of({Term(3), 1}, {1, 3}), nullptr});
  EXPECT_FALSE(candidate.lose(3)) << "was not promised anything";
  const auto held_back = candidate.lose(2);
  ASSERT_TRUE(held_back);
  EXPECT_EQ(held_back->view->number.term, Term(3));
  EXPECT_TRUE(candidate.election.admits(*held_back));
}

TEST(Election, AViewThatWasHeldBackDoesNotCountIfItsLeaderHasDied) {
  Candidate candidate;
  candidate.election.receive(InquiryMessage{Term(4)}, PeerId(2), nullptr);
  candidate.election.admits({view_of({Term(3), 1}, {3, 5}), nullptr});
  candidate.lose(3);
  EXPECT_FALSE(candidate.lose(2));
}

// It will not lead: the views of the peer that does must not be held back.
TEST(Election, NothingIsPromisedToAPeerThatIsNotInTheView) {
  Candidate candidate;
  candidate.election.receive(InquiryMessage{Term(4)}, PeerId(9), nullptr);
  EXPECT_EQ(candidate.sent<InquiryAnswer>(), Peers{9});
  EXPECT_TRUE(candidate.election.admits({view_of({Term(3), 1}, {1, 2}), nullptr}));
}

TEST(Election, ACandidateThatTheNewestViewHasLeftOutFollowsThatView) {
  Candidate candidate;
  candidate.election.inquire(Term(4), nullptr);
  for (const std::int32_t peer : {2, 3}) {
    candidate.answers(peer, view_of({Term(2), 1}, {2, 3}), Term(4));
  }
  EXPECT_FALSE(candidate.election.mandate()->view->contains(PeerId(1)));
  EXPECT_TRUE(candidate.election.admits({view_of({Term(2), 2}, {1, 2, 3}), nullptr}));
}

TEST(Election, RemembersSinceWhenNobodyLeads) {
  Candidate candidate;
  EXPECT_EQ(candidate.election.filled(3), 3) << "nobody has died";
  candidate.election.vacant_since(4);
  candidate.election.vacant_since(5);
  EXPECT_EQ(candidate.election.filled(6), 4);
  candidate.election.vacant_since(7);
  candidate.election.settled();
  EXPECT_EQ(candidate.election.filled(8), 8);
}

}  // namespace
}  // namespace swarmpi::election_test
