#include "runtime/payload_copies.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <future>
#include <vector>

#include "kernels/reference/guarded_backend.hpp"
#include "kernels/reference/reference_backend.hpp"
#include "model/local_trainer_test.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "runtime/job_executor.hpp"

namespace swarmpi::test::payload_copies_test {
namespace {

constexpr double kPatienceS = 60;
constexpr StageId kFirst(0), kSecond(1);

// Copies that come when the test says so.
class HeldCopies final : public kernels::HostCopies {
 public:
  explicit HeldCopies(std::shared_future<void> come) : come_(std::move(come)) {}
  bool wait(double at_most_s) override {
    return come_.wait_for(std::chrono::duration<double>(at_most_s)) == std::future_status::ready;
  }

 private:
  std::shared_future<void> come_;
};

TEST(PayloadCopies, APayloadIsThereWhenItsCopiesAreAndThenTheProtocolThreadIsWoken) {
  const auto backend = ready_backend(tiny_deck());
  Inbox inbox;
  PayloadCopies copies(*backend, inbox, kPatienceS);
  PayloadPool payloads;
  std::promise<void> come;
  const auto payload = payloads.take(100);
  EXPECT_TRUE(payload->there());
  copies.land(payload, std::make_unique<HeldCopies>(come.get_future().share()));
  EXPECT_FALSE(payload->there());
  EXPECT_FALSE(copies.idle());
  come.set_value();
  pollfd woken{inbox.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&woken, 1, 10'000), 1);
  EXPECT_TRUE(payload->there());
}

TEST(PayloadCopies, WhatNobodyWantsAnyMoreIsNoOtherPayloadBeforeItHasCome) {
  const auto backend = ready_backend(tiny_deck());
  Inbox inbox;
  PayloadCopies copies(*backend, inbox, kPatienceS);
  PayloadPool payloads;
  std::promise<void> come;
  auto payload = payloads.take(100);
  const std::byte* const place = payload->data();
  copies.land(payload, std::make_unique<HeldCopies>(come.get_future().share()));
  payload.reset();
  const auto other = payloads.take(100);
  EXPECT_NE(other->data(), place);
  EXPECT_TRUE(other->there());
  come.set_value();
}

TEST(PayloadCopiesDeathTest, ADeviceThatHangsInACopyIsTheDeathOfThePeerInWords) {
  const auto hang = [] {
    const auto backend = ready_backend(tiny_deck());
    Inbox inbox;
    PayloadPool payloads;
    std::promise<void> never;
    PayloadCopies copies(*backend, inbox, 0.01);
    copies.land(payloads.take(100), std::make_unique<HeldCopies>(never.get_future().share()));
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(hang(), "copy of a result from the device has not come to its end");
}

// Notes what it is to fetch.
class FetchingBackend final : public kernels::reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  void fetch_ahead(std::shared_ptr<const std::byte> from_host, std::size_t size_bytes) override {
    fetched.emplace_back(std::move(from_host), size_bytes);
    if (fetched.size() == 2) both.set_value();
  }
  std::vector<std::pair<std::shared_ptr<const std::byte>, std::size_t>> fetched;
  std::promise<void> both;
};

TEST(PayloadCopies, WhatTheNextJobReadsIsFetchedOnceAndKept) {
  FetchingBackend backend(kernels::Precision::fp32);
  Inbox inbox;
  PayloadPool payloads;
  PayloadCopies copies(backend, inbox, kPatienceS);
  auto first = payloads.take(100);
  const auto second = payloads.take(50);
  const std::byte* const place = first->data();
  for (int i = 0; i < 3; ++i) copies.fetch_ahead(first);
  first.reset();
  copies.fetch_ahead(second);
  ASSERT_EQ(backend.both.get_future().wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  EXPECT_EQ(backend.fetched[0].first.get(), place);
  EXPECT_EQ(backend.fetched[0].second, 100U);
  EXPECT_EQ(backend.fetched[1].first.get(), second->data());
  EXPECT_NE(payloads.take(100)->data(), place) << "the backend may still read it";
}

// The passes of a microbatch through two stages of one peer: each job reads what the one before has
// made, as soon as it is told.
struct Passes {
  Passes(const Config& config, kernels::Backend& backend, bool beside)
      : copies(backend, inbox, kPatienceS) {
    std::vector<std::unique_ptr<StageModel>> stages;
    for (const StageSpec& spec : partition_model(config)) {
      stages.push_back(std::make_unique<StageModel>(config, spec, backend, 1));
      EXPECT_TRUE(stages.back()->initialize().ok());
    }
    const auto tokens = [](const MicrobatchId&, std::span<std::int32_t> inputs,
                           std::span<std::int32_t> targets) {
      std::fill(inputs.begin(), inputs.end(), 1);
      std::fill(targets.begin(), targets.end(), 2);
      return Status();
    };
    JobExecutor executor(PeerId(0), config, tokens, payloads, std::move(stages));
    if (beside) executor.copy_beside_jobs(copies);
    const MicrobatchId microbatch{Step(0), Purpose::train, 0};
    const auto exponents = std::make_shared<const Exponents>(Exponents(100, kernels::kNoExponent));
    const auto forward = run(executor, ForwardJob{{microbatch, kFirst}, nullptr});
    const PayloadRef output = get<ForwardResult>(forward).output;
    const auto last =
        run(executor, BackwardJob{{microbatch, kSecond}, output, nullptr, exponents, true});
    loss_nats = get<BackwardResult>(last).loss_nats;
    const PayloadRef gradient = get<BackwardResult>(last).input_gradient;
    const auto first =
        run(executor, BackwardJob{{microbatch, kFirst}, nullptr, gradient, exponents, true});
    for (const auto& did : get<BackwardResult>(first).contributions) {
      measured.push_back(did.exponent);
    }
    for (const PayloadRef& payload : {output, gradient}) {
      payload->wait();
      crossed.emplace_back(payload->data(), payload->data() + payload->size_bytes());
    }
  }
  static JobResult run(JobExecutor& executor, const Job& job) {
    return executor.execute(job).value();
  }

  Inbox inbox;
  PayloadPool payloads;
  PayloadCopies copies;
  double loss_nats = 0;
  std::vector<std::int16_t> measured;
  std::vector<std::vector<std::byte>> crossed;
};

TEST(PayloadCopies, JobsThatReadWhatIsStillOnItsWayHaveTheSameBits) {
  Config config = tiny_deck();
  config.swarm.stages = 2;
  const auto guarded = kernels::make_guarded_backend({.precision = kernels::Precision::fp32});
  guarded->prepare_thread();
  const auto plain = ready_backend(config);
  const Passes beside(config, *guarded, true), expected(config, *plain, false);
  EXPECT_EQ(beside.loss_nats, expected.loss_nats);
  EXPECT_EQ(beside.measured, expected.measured);
  EXPECT_EQ(beside.crossed, expected.crossed);
}

}  // namespace
}  // namespace swarmpi::test::payload_copies_test
