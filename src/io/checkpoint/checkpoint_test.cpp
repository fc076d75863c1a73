#include "io/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "io/checkpoint/leader_file.hpp"
#include "io/checkpoint/own_parts.hpp"
#include "io/checkpoint/stage_file.hpp"
#include "io/checkpoint/test_support.hpp"
#include "io/files.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/test_support.hpp"

namespace swarmpi::checkpoint_test {
namespace {

namespace fs = std::filesystem;

/// A model of two stages with values that tell their positions apart.
struct Model {
  std::vector<std::vector<float>> values;
  std::vector<std::vector<TensorState>> stages;

  explicit Model(std::size_t versions, std::int64_t scale = 1) {
    stages.push_back({tensor("embedding.tokens", 256 * scale, 17, versions),
                      tensor("layer.0.norm1.weight", 1, 17, versions)});
    stages.push_back({tensor("head.weight", 256, 17, versions)});
  }

  TensorState tensor(const std::string& name, std::int64_t rows, std::int64_t columns,
                     std::size_t versions) {
    TensorState saved;
    saved.name = name;
    saved.rows = rows;
    saved.columns = columns;
    for (std::size_t i = 0; i < versions; ++i) saved.weights.push_back(fill(rows * columns));
    saved.moment1 = fill(rows * columns);
    saved.moment2 = fill(rows * columns);
    return saved;
  }

  float* fill(std::int64_t count) {
    std::vector<float>& made = values.emplace_back(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = static_cast<float>(values.size()) + 1e-4f * static_cast<float>(i);
    }
    return made.data();
  }
};

CheckpointHead head_of(std::int64_t step) {
  CheckpointHead head;
  head.deck = "[model]\n";
  head.version = "0.1.0";
  head.build = "g++";
  head.fingerprint = "00ff";
  head.state.step = step;
  head.state.applied_updates = step - 1;
  head.state.skips_in_a_row = 1;
  head.state.incarnation = 2;
  head.state.exponents = {{3, -5, INT16_MIN}, {4, -5, 0}};
  head.state.state_hash = 0xfedcba9876543210u;
  head.state.time_s = 12.5;
  return head;
}

/// `parts`: of each stage what each of its owners writes.
void make_checkpoint(const std::string& folder, std::int64_t step,
                     const std::vector<std::vector<std::vector<TensorState>>>& parts) {
  const std::string path = checkpoint_path(folder, step);
  std::vector<StoredFile> files;
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    for (std::size_t peer = 0; peer < parts[stage].size(); ++peer) {
      const auto file =
          write_stage_file(path, static_cast<std::int64_t>(stage), 3,
                           static_cast<std::int64_t>(peer), parts[stage][peer], host_memory());
      ASSERT_TRUE(file.ok()) << file.status().message();
      files.push_back(file.value());
    }
  }
  const auto rows = stored_rows(path, sample_history(step));
  const Status status = write_manifest(path, head_of(step), rows, files, 3);
  ASSERT_TRUE(status.ok()) << status.message();
}

void make_checkpoint(const std::string& folder, std::int64_t step, const Model& model) {
  make_checkpoint(folder, step, {{model.stages[0]}, {model.stages[1]}});
}

/// What one replica has of a stage whose tensors, one after the other, are dealt: the elements from
/// `first` to `end`.
std::vector<TensorState> owned_of(std::vector<TensorState> stage, std::int64_t first,
                                  std::int64_t end) {
  std::int64_t begin = 0;  // of the tensor
  for (TensorState& tensor : stage) {
    const std::int64_t from = std::clamp(first - begin, std::int64_t{0}, tensor.count());
    const std::int64_t to = std::clamp(end - begin, from, tensor.count());
    begin += tensor.count();
    tensor.owned = ElementRange{from, to - from};
    tensor.moment1 = from == to ? nullptr : tensor.moment1 + from;
    tensor.moment2 = from == to ? nullptr : tensor.moment2 + from;
  }
  return stage;
}

/// The parts of owners between whose elements these cuts are.
std::vector<std::vector<TensorState>> dealt(const std::vector<TensorState>& stage,
                                            const std::vector<std::int64_t>& cuts) {
  std::vector<std::vector<TensorState>> parts;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    parts.push_back(owned_of(stage, i == 0 ? 0 : cuts[i - 1],
                             i < cuts.size() ? cuts[i] : std::numeric_limits<std::int64_t>::max()));
  }
  return parts;
}

/// An array that was not read yet, as long as another; nothing may be read behind its end.
struct Room {
  const float* expected;
  std::vector<float> values;

  Room(const float* written, std::int64_t count)
      : expected(written), values(static_cast<std::size_t>(count) + 1, -1.0f) {}
  void check(const std::string& name) const {
    ASSERT_EQ(values.back(), -1.0f) << name;
    if (expected == nullptr) return;
    EXPECT_EQ(std::memcmp(values.data(), expected, (values.size() - 1) * sizeof(float)), 0) << name;
  }
};

/// The weights as a whole, and the moments that are owned.
void expect_read(const Checkpoint& checkpoint, const std::vector<TensorState>& tensors) {
  EXPECT_TRUE(checkpoint.lists(tensors));
  EXPECT_TRUE(checkpoint.prove(tensors).ok());
  for (const TensorState& tensor : tensors) {
    const std::int64_t owned = tensor.owned.value_or(tensor.all()).count;
    std::vector<Room> rooms;
    for (const float* weights : tensor.weights) rooms.emplace_back(weights, tensor.count());
    for (const float* moment : {tensor.moment1, tensor.moment2}) rooms.emplace_back(moment, owned);
    TensorState read = tensor;
    for (std::size_t i = 0; i < read.weights.size(); ++i) read.weights[i] = rooms[i].values.data();
    read.moment1 = rooms[rooms.size() - 2].values.data();
    read.moment2 = rooms[rooms.size() - 1].values.data();
    const Status status = checkpoint.read(read, host_memory());
    ASSERT_TRUE(status.ok()) << status.message();
    for (const Room& room : rooms) room.check(tensor.name);
  }
}

/// That a checkpoint without some elements of a tensor, or with some of them twice, is not read.
void expect_refused(const Checkpoint& checkpoint, const TensorState& tensor,
                    const std::string& why) {
  EXPECT_FALSE(checkpoint.lists({tensor}));
  const Status status = checkpoint.read(tensor, host_memory());
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

std::string refusal(const std::string& path, bool none_there = false) {
  bool none = false;
  const Result<Checkpoint> opened = Checkpoint::open(path, &none);
  EXPECT_FALSE(opened.ok()) << path;
  if (opened.ok()) return "";
  EXPECT_EQ(none, none_there) << opened.status().message();
  EXPECT_EQ(opened.status().code(), ExitStatus::bad_input);
  EXPECT_NE(opened.status().message().find(path), std::string::npos) << opened.status().message();
  return opened.status().message();
}

TEST(Checkpoint, EverythingComesBackBitForBit) {
  const TestFolder folder;
  const Model model(2);
  make_checkpoint(folder.path(), 7, model);
  const Result<Checkpoint> opened = Checkpoint::open(folder / "step-7");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& checkpoint = opened.value();

  const CheckpointHead& head = checkpoint.head();
  const CheckpointHead expected = head_of(7);
  EXPECT_EQ(head.deck, expected.deck);
  EXPECT_EQ(head.version, expected.version);
  EXPECT_EQ(head.build, expected.build);
  EXPECT_EQ(head.fingerprint, expected.fingerprint);
  EXPECT_EQ(head.state.step, 7);
  EXPECT_EQ(head.state.applied_updates, 6);
  EXPECT_EQ(head.state.skips_in_a_row, 1);
  EXPECT_EQ(head.state.incarnation, 2);
  EXPECT_EQ(head.state.exponents, expected.state.exponents);
  EXPECT_EQ(head.state.state_hash, expected.state.state_hash);
  EXPECT_EQ(head.state.time_s, 12.5);
  const History history = history_of(checkpoint);
  EXPECT_EQ(history.steps.size(), 8u);
  EXPECT_TRUE(history.peers.empty());
  EXPECT_EQ(history.validation.at(0).time_s, 1.25) << "the run file does not show it";

  for (const auto& stage : model.stages) expect_read(checkpoint, stage);
}

TEST(Checkpoint, WhatDoesNotFitIsRefused) {
  const TestFolder folder;
  make_checkpoint(folder.path(), 7, Model(2));
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  std::vector<float> room(256 * 17 + 17);
  float* to = room.data();
  const std::string head = "head.weight";
  EXPECT_TRUE(checkpoint.read({head, 256, 17, {nullptr, to}}, host_memory()).ok());
  EXPECT_TRUE(checkpoint.read({head, 256, 17, {}, nullptr, to}, host_memory()).ok());
  EXPECT_EQ(checkpoint.read({head, 17, 256, {to, nullptr}}, host_memory()).code(),
            ExitStatus::bad_input);
  EXPECT_FALSE(checkpoint.read({head, 256, 17, {to}}, host_memory()).ok()) << "it has two versions";
  EXPECT_FALSE(checkpoint.read({head, 256, 17, {to, to, to}}, host_memory()).ok());
  EXPECT_FALSE(checkpoint.read({"nothing", 256, 17, {to, to}}, host_memory()).ok());
}

TEST(Checkpoint, RefusesStateThatNoRunReaches) {
  const TestFolder folder;
  const Model model(1);
  const auto checked = [&](const auto& change) {
    CheckpointHead head = head_of(7);
    change(head.state);
    const std::string path = folder / "step-7";
    std::vector<StoredFile> files;
    for (std::int64_t stage = 0; stage < 2; ++stage) {
      const auto& tensors = model.stages[static_cast<std::size_t>(stage)];
      files.push_back(write_stage_file(path, stage, 3, 0, tensors, host_memory()).value());
    }
    EXPECT_TRUE(write_manifest(path, head, {}, files, 3).ok());
    return Checkpoint::open(path).value().check_state(3, 2);
  };
  const auto refusal_of = [&](const auto& change) { return checked(change).message(); };
  const auto has = [&](const std::string& what) {
    return "checkpoint " + (folder / "step-7") + " cannot be used: leader.term-3.h5 has " + what;
  };
  EXPECT_TRUE(checked([](ResumeState&) {}).ok());
  EXPECT_TRUE(checked([](ResumeState& state) {
                state.exponents[0] = {128, -1024, INT16_MIN};
              }).ok());
  EXPECT_EQ(refusal_of([](ResumeState& state) { state.exponents[1][2] = 32767; }),
            has("exponent 32767 of tensor 2, which no gradient has"));
  EXPECT_EQ(refusal_of([](ResumeState& state) { state.exponents[0][1] = -32767; }),
            has("exponent -32767 of tensor 1, which no gradient has"));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal_of([](ResumeState& state) { state.time_s = kNan; }),
            has("time nan s, which is not that of a run"));
  EXPECT_EQ(refusal_of([](ResumeState& state) { state.time_s = -1; }),
            has("time -1 s, which is not that of a run"));
  EXPECT_NE(refusal_of([](ResumeState& state) {
              state.incarnation = INT64_MAX;
            }).find("incarnation 9223372036854775807"),
            std::string::npos);
  EXPECT_NE(refusal_of([](ResumeState& state) {
              state.skips_in_a_row = INT64_MAX;
            }).find("9223372036854775807 skips in a row"),
            std::string::npos);
}

// Owners of a stage: the first has no element of the norm, the second crosses from the embedding to
// the norm. The second stage has 4352 elements: of it the last owner has nothing. Cuts are within
// rows of 17.
const std::vector<std::int64_t> kThreeOwners = {1000, 4360};
const std::vector<std::int64_t> kTwoOwners = {4355};

TEST(Checkpoint, WhatThreeOwnersHaveWrittenIsReadWhole) {
  const TestFolder folder;
  const Model model(2);
  make_checkpoint(folder.path(), 7,
                  {dealt(model.stages[0], kThreeOwners), dealt(model.stages[1], kThreeOwners)});
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  EXPECT_EQ(checkpoint.files().size(), 6u);
  for (const auto& stage : model.stages) expect_read(checkpoint, stage);
}

TEST(Checkpoint, AnOwnerReadsItsElementsOfWhatWasWrittenWhole) {
  const TestFolder folder;
  const Model model(2);
  make_checkpoint(folder.path(), 7, model);
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  for (const auto& part : dealt(model.stages[0], kThreeOwners)) expect_read(checkpoint, part);
  // Within a row; to a row's end; whole rows; of two rows a piece each; one element.
  const std::int64_t ranges[][2] = {{18, 30}, {20, 34}, {34, 68}, {30, 36}, {4351, 4352}, {5, 5}};
  for (const auto& [first, end] : ranges) {
    expect_read(checkpoint, owned_of(model.stages[1], first, end));
  }
}

TEST(Checkpoint, WhatThreeOwnersHaveWrittenTwoOthersRead) {
  const TestFolder folder;
  const Model model(1);
  make_checkpoint(folder.path(), 7, {dealt(model.stages[0], kThreeOwners), {model.stages[1]}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  for (const auto& part : dealt(model.stages[0], kTwoOwners)) expect_read(checkpoint, part);
  for (const auto& part : dealt(model.stages[1], kTwoOwners)) expect_read(checkpoint, part);
}

TEST(Checkpoint, ElementsThatNoFileHasOrThatTwoHaveAreRefused) {
  const TestFolder folder;
  const Model model(2);
  const TensorState& tokens = model.stages[0][0];
  const auto parts = dealt(model.stages[0], kThreeOwners);
  const auto opened = [&](const std::vector<std::vector<TensorState>>& written) {
    make_checkpoint(folder.path(), 7, {written, {model.stages[1]}});
    return Checkpoint::open(folder.path()).value();
  };
  const std::string of_tokens = " of tensor embedding.tokens (256, 17) are ";
  expect_refused(opened({parts[1], parts[2]}), tokens,
                 "elements 0 to 999" + of_tokens + "missing before those in stage-0.term-3.peer-0");
  expect_refused(
      opened({parts[0], parts[2]}), tokens,
      "elements 1000 to 4351" + of_tokens + "missing after those in stage-0.term-3.peer-0");
  expect_refused(opened({parts[0], owned_of(model.stages[0], 990, 4360), parts[2]}), tokens,
                 "elements 990 to 999" + of_tokens +
                     "both in stage-0.term-3.peer-0.h5 and in stage-0.term-3.peer-1.h5");
  expect_refused(opened({model.stages[0], parts[1]}), tokens,
                 "elements 1000 to 4351" + of_tokens + "both in");
  expect_refused(opened({parts[0], parts[2]}), model.stages[0][1],
                 "elements 0 to 7 of tensor layer.0.norm1.weight (1, 17) are missing before");
}

TEST(Checkpoint, PiecesOfAnotherModelAreRefused) {
  const TestFolder folder;
  const Model model(2);
  make_checkpoint(folder.path(), 7, {dealt(model.stages[0], kThreeOwners), {model.stages[1]}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  TensorState tokens = model.stages[0][0];
  tokens.rows = 128;
  expect_refused(checkpoint, tokens,
                 "elements 1000 to 4351 of tensor embedding.tokens (128, 17) are in "
                 "stage-0.term-3.peer-1.h5, beyond the tensor's end");
  tokens = model.stages[0][0];
  tokens.weights.pop_back();
  const Status status = checkpoint.read(tokens, host_memory());
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("stage-0.term-3.peer-0.h5"), std::string::npos);
  EXPECT_NE(status.message().find("embedding.tokens does not have 1 versions of its weights"),
            std::string::npos)
      << status.message();
}

TEST(Checkpoint, AllFilesWithPiecesOfATensorAreProven) {
  const TestFolder folder;
  const Model model(1);
  make_checkpoint(folder.path(), 1, {dealt(model.stages[0], kThreeOwners), {model.stages[1]}});
  const std::string file = folder / "step-1/stage-0.term-3.peer-1.h5";
  std::string changed = read_file(file).value();
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << changed;
  const auto open = [&](const CheckpointProof& proof) {
    return Checkpoint::open(folder.path(), nullptr, nullptr, proof).value();
  };
  const Checkpoint all = open({.share = 0, .shares = 4});
  EXPECT_TRUE(all.lists(model.stages[0]));
  const Status status = all.prove(model.stages[0]);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("stage-0.term-3.peer-1"), std::string::npos) << status.message();
  EXPECT_TRUE(all.prove(model.stages[1]).ok());
  EXPECT_FALSE(open({.share = 0, .shares = 4, .lists_all = false}).lists(model.stages[0]))
      << "of the other files it knows nothing";
}

TEST(Checkpoint, APartThatDoesNotSayWhatItsPiecesAreIsRefused) {
  const TestFolder folder;
  const std::string path = folder / "stage-0.term-3.peer-0.h5";
  const auto refusal_of = [&](const std::vector<std::int64_t>& firsts,
                              const std::vector<std::int64_t>& counts) {
    Hdf5Output file(path, kStageFileFormat);
    file.column("/names", std::vector<std::string>{"embedding.tokens", "head.weight"});
    file.column("/first_elements", firsts);
    file.column("/element_counts", counts);
    EXPECT_TRUE(file.finish().ok());
    const auto tensors = stage_file_tensors(path);
    EXPECT_EQ(tensors.status().code(), ExitStatus::bad_input);
    EXPECT_NE(tensors.status().message().find(path), std::string::npos);
    return tensors.status().message();
  };
  EXPECT_NE(refusal_of({0}, {1, 1}).find("do not have a value for each of"), std::string::npos);
  EXPECT_NE(refusal_of({0, 0}, {1}).find("do not have a value for each of"), std::string::npos);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::pair<std::int64_t, std::int64_t> pieces[] = {{-1, 5}, {3, 0}, {3, -1}, {3, most}};
  for (const auto& [first, count] : pieces) {
    EXPECT_NE(refusal_of({0, first}, {1, count}).find("of tensor head.weight it has"),
              std::string::npos);
  }
}

// So that older builds refuse only what they cannot read.
TEST(Checkpoint, APartWithoutPiecesIsWrittenInVersionOne) {
  const TestFolder folder;
  const Model model(1);
  const FileFormat older{kStageFileFormat.name, kStageFileFormat.what, 1, 1};
  const auto write = [&](std::int64_t peer, const std::vector<TensorState>& tensors) {
    const StoredFile file =
        write_stage_file(folder.path(), 0, 3, peer, tensors, host_memory()).value();
    return std::pair(file.hash, Hdf5Input(folder / file.name, older).status());
  };
  const auto [hash, whole] = write(0, model.stages[0]);
  EXPECT_TRUE(whole.ok()) << whole.message();
  EXPECT_EQ(write(1, owned_of(model.stages[0], 0, 4369)).first, hash) << "it owns all";
  EXPECT_TRUE(write(2, owned_of(model.stages[0], 0, 4352)).second.ok()) << "the embedding, whole";
  EXPECT_TRUE(write(3, owned_of(model.stages[0], 0, 0)).second.ok()) << "nothing";
  const Status pieces = write(4, owned_of(model.stages[0], 0, 4351)).second;
  expect_names_version(pieces, folder / "stage-0.term-3.peer-4.h5", 2, older);
}

TEST(Checkpoint, AFolderMeansItsNewestCompleteOne) {
  const TestFolder folder;
  const Model model(1);
  for (const std::int64_t step : {9, 10, 100}) make_checkpoint(folder.path(), step, model);
  ASSERT_TRUE(write_stage_file(folder / "step-200", 0, 3, 0, model.stages[0], host_memory()).ok());
  EXPECT_EQ(Checkpoint::open(folder.path() + "/").value().head().state.step, 100);
  EXPECT_EQ(Checkpoint::open(folder / "step-9/").value().head().state.step, 9);
  EXPECT_NE(refusal(folder / "step-200").find("not complete"), std::string::npos);
  EXPECT_NE(refusal(folder / "step-11").find("has step-9 step-10 step-100"), std::string::npos);
}

TEST(Checkpoint, FollowsALinkToAMovedOne) {
  const TestFolder folder, elsewhere;
  for (const std::int64_t step : {9, 10}) make_checkpoint(folder.path(), step, Model(1));
  fs::copy(folder / "step-10", elsewhere / "moved", fs::copy_options::recursive);
  fs::remove_all(folder / "step-10");
  fs::create_directory_symlink(elsewhere / "moved", folder / "step-10");
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 10);
  EXPECT_NE(set_aside(folder / "step-10").message().find("is a link"), std::string::npos);
  ASSERT_TRUE(prune_checkpoints(folder.path(), 1).ok());
  for (const char* kept : {"step-9", "step-10/manifest"}) EXPECT_TRUE(fs::exists(folder / kept));

  fs::rename(elsewhere / "moved", elsewhere / "unmounted");
  EXPECT_NE(refusal(folder.path()).find("mount its disk, or remove the link"), std::string::npos);
  fs::rename(folder / "step-9", folder / "step-11");
  EXPECT_EQ(Checkpoint::open(folder.path()).status().message().find("mount"), std::string::npos)
      << "an older one is not missed";
}

TEST(Checkpoint, AMissingCheckpointIsToldApartFromABrokenOne) {
  const TestFolder folder;
  refusal(folder / "still_to_come", true);
  refusal(folder.path(), true);
  refusal(folder / "step-5", false);
  fs::create_directory(folder / "step-5");
  refusal(folder / "step-5", false);
  refusal(folder.path(), true);
  std::ofstream(folder / "file") << "x";
  EXPECT_NE(refusal(folder / "file").find("not a checkpoint"), std::string::npos);
}

TEST(Checkpoint, ADamagedNewestOneIsPassedOverForTheNewestThatIsWhole) {
  const TestFolder folder;
  const Model model(1);
  for (const std::int64_t step : {1, 2, 3}) make_checkpoint(folder.path(), step, model);
  for (const char* name : {"stage-1.term-3.peer-0.h5", "leader.term-3.h5", "manifest"}) {
    const std::string file = folder / (std::string("step-3/") + name);
    const std::string whole = read_file(file).value();
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    std::string end_changed = whole;
    end_changed[whole.size() - 2] = 'x';
    for (const std::string& bad :
         {changed, end_changed, whole.substr(0, whole.size() - 1), std::string()}) {
      std::ofstream(file, std::ios::binary) << bad;
      const Result<Checkpoint> opened = Checkpoint::open(folder.path());
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      EXPECT_EQ(opened.value().path(), folder / "step-2");
      ASSERT_EQ(opened.value().passed_over().size(), 1u);
      EXPECT_EQ(opened.value().passed_over()[0].path, folder / "step-3");
      EXPECT_EQ(opened.value().passed_over()[0].step, 3);
      EXPECT_NE(opened.value().passed_over()[0].why.find(name), std::string::npos);
      if (std::string(name).rfind("stage", 0) != 0) {
        EXPECT_EQ(Checkpoint::read_head(folder.path()).value().state.step, 2);
      }
      const std::string why = refusal(folder / "step-3");
      EXPECT_NE(why.find(name), std::string::npos);
      EXPECT_NE(why.find("; an older one to try is " + folder / "step-2"), std::string::npos)
          << why;
    }
    std::ofstream(file, std::ios::binary) << whole;
    EXPECT_TRUE(Checkpoint::open(folder.path()).value().passed_over().empty());
  }
}

// The processes of a host read each file once together, and each what it loads.
TEST(Checkpoint, OneProvesItsShareAndWhatItReads) {
  const TestFolder folder;
  const Model model(1);
  for (const std::int64_t step : {1, 2}) make_checkpoint(folder.path(), step, model);
  const std::string file = folder / "step-2/stage-1.term-3.peer-0.h5";
  std::string changed = read_file(file).value();
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << changed;
  const auto open = [&](const CheckpointProof& proof) {
    return Checkpoint::open(folder.path(), nullptr, nullptr, proof).value();
  };
  const Checkpoint first = open({.share = 0, .shares = 2});
  EXPECT_EQ(first.head().state.step, 2) << "the damage is in the other's share";
  EXPECT_TRUE(first.prove(model.stages[0]).ok());
  const Status second_stage = first.prove(model.stages[1]);
  EXPECT_EQ(second_stage.code(), ExitStatus::bad_input);
  EXPECT_NE(second_stage.message().find("stage-1"), std::string::npos) << second_stage.message();
  const Checkpoint second = open({.share = 1, .shares = 2});
  EXPECT_EQ(second.head().state.step, 1);
  ASSERT_EQ(second.passed_over().size(), 1u);
  const Checkpoint told = open({.share = 0, .shares = 2, .known_damaged = second.passed_over()});
  EXPECT_EQ(told.head().state.step, 1);
  ASSERT_EQ(told.passed_over().size(), 1u);
  EXPECT_EQ(told.passed_over()[0].why, second.passed_over()[0].why);
  EXPECT_EQ(open({.shares = 0}).head().state.step, 2) << "looks at the ends only";
  fs::resize_file(file, 10);
  EXPECT_EQ(open({.shares = 0}).head().state.step, 1);
}

TEST(Checkpoint, WhereNoneIsWholeTheNewestOnesDamageIsNamed) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2}) {
    make_checkpoint(folder.path(), step, Model(1));
    fs::resize_file(folder / ("step-" + std::to_string(step) + "/leader.term-3.h5"), 10);
  }
  EXPECT_NE(refusal(folder.path()).find("step-2 cannot be used: leader.term-3.h5"),
            std::string::npos);
}

// A good checkpoint must not be set aside for all because one host cannot read it now. Root reads
// whatever the permissions are: a folder in the place of a file stands for an error.
TEST(Checkpoint, WhatCannotBeReadNowIsAnErrorAndNoOlderOneIsTaken) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2}) make_checkpoint(folder.path(), step, Model(1));
  for (const char* name : {"stage-0.term-3.peer-0.h5", "leader.term-3.h5"}) {
    const std::string file = folder / (std::string("step-2/") + name);
    fs::rename(file, folder / "aside");
    fs::create_directory(file);
    std::vector<DamagedCheckpoint> damaged;
    const Result<Checkpoint> opened = Checkpoint::open(folder.path(), nullptr, &damaged);
    ASSERT_FALSE(opened.ok());
    EXPECT_TRUE(damaged.empty());
    EXPECT_NE(opened.status().message().find(name), std::string::npos) << opened.status().message();
    EXPECT_NE(opened.status().message().find("it is a folder"), std::string::npos)
        << opened.status().message();
    fs::remove(file);
    fs::rename(folder / "aside", file);
  }
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 2);
}

TEST(Checkpoint, AFileThatIsShownLateIsNoDamage) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2}) make_checkpoint(folder.path(), step, Model(1));
  const std::string file = folder / "step-2/stage-1.term-3.peer-0.h5";
  fs::rename(file, folder / "hidden");
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fs::rename(folder / "hidden", file);
  });
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 2);
  other.join();
}

TEST(OwnParts, AreRemovedWhereNoManifestHasComeForAQuarterOfAnHour) {
  const TestFolder folder;
  make_checkpoint(folder.path(), 1, Model(1));
  OwnParts parts;
  parts.wrote(folder / "step-1/stage-0.term-3.peer-0.h5", 0);
  for (const std::int64_t step : {2, 3}) {
    const std::string path = checkpoint_path(folder.path(), step);
    const StoredFile file =
        write_stage_file(path, 0, 3, 0, Model(1).stages[0], host_memory()).value();
    parts.wrote(path + "/" + file.name, 600 * static_cast<double>(step - 2));
  }
  parts.remove_lost(899);
  EXPECT_EQ(folder.entries(), 3u);
  parts.remove_lost(901);
  EXPECT_FALSE(fs::exists(folder / "step-2"));
  EXPECT_TRUE(fs::exists(folder / "step-3/stage-0.term-3.peer-0.h5"));
  EXPECT_TRUE(Checkpoint::open(folder / "step-1").ok()) << "it is complete";
}

// It may be whole: the program that wrote it can tell.
TEST(Checkpoint, ANewestOneOfALaterVersionIsNotPassedOver) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2}) make_checkpoint(folder.path(), step, Model(1));
  std::ofstream(folder / "step-2/manifest") << "swarmpi checkpoint 9\nend 0\n";
  EXPECT_NE(refusal(folder.path()).find("in version 9"), std::string::npos);
}

TEST(Checkpoint, OneThatIsSetAsideIsNoCheckpointAnyMoreAndIsPruned) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2}) make_checkpoint(folder.path(), step, Model(1));
  ASSERT_TRUE(set_aside(folder / "step-2").ok());
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 1);
  EXPECT_TRUE(Checkpoint::open(folder.path()).value().passed_over().empty());
  make_checkpoint(folder.path(), 3, Model(1));
  ASSERT_TRUE(prune_checkpoints(folder.path(), 1).ok());
  EXPECT_EQ(folder.entries(), 1u) << "only step-3 is left";
}

// Stands for a writer on another host, whose folder of the same name is on a disk of its own.
TEST(Checkpoint, APartIsFoundOnlyInFull) {
  const TestFolder folder;
  const Model model(1);
  const std::string path = folder / "step-2";
  std::vector<StoredFile> files;
  for (const std::int64_t stage : {0, 1}) {
    const auto& tensors = model.stages[static_cast<std::size_t>(stage)];
    files.push_back(write_stage_file(path, stage, 3, 0, tensors, host_memory()).value());
  }
  const auto missing = [&]() -> std::optional<MissingPart> {
    return find_missing_part(path, files, 0).value();
  };
  EXPECT_FALSE(missing());
  const std::string part = path + "/" + files[1].name;
  const std::string whole = read_file(part).value();
  std::string end_changed = whole;
  end_changed[whole.size() - 2] = 'x';
  for (const std::string& bad : {end_changed, whole.substr(0, whole.size() - 1), std::string()}) {
    std::ofstream(part, std::ios::binary) << bad;
    ASSERT_TRUE(missing());
    EXPECT_EQ(missing()->number, 1u);
    EXPECT_NE(missing()->why.find(part), std::string::npos) << missing()->why;
  }
  fs::remove_all(path);
  ASSERT_TRUE(missing());
  EXPECT_EQ(missing()->number, 0u);
}

TEST(Checkpoint, APartThatComesLateIsWaitedFor) {
  const TestFolder folder;
  const std::string path = folder / "step-2";
  const StoredFile file =
      write_stage_file(path, 0, 3, 0, Model(1).stages[0], host_memory()).value();
  fs::rename(path, folder / "hidden");
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fs::rename(folder / ("hidden/" + file.name), path + "/" + file.name);
  });
  EXPECT_FALSE(find_missing_part(path, {file}, 60).value());
  other.join();
}

TEST(Checkpoint, NamesAFileThatIsAPipe) {
  const TestFolder folder;
  make_checkpoint(folder.path(), 5, Model(1));
  for (const char* name : {"stage-1.term-3.peer-0.h5", "leader.term-3.h5", "manifest"}) {
    const std::string file = folder / (std::string("step-5/") + name);
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    const std::string why = refusal(folder / "step-5");
    EXPECT_NE(why.find(name), std::string::npos) << why;
    EXPECT_NE(why.find("it is a pipe, not a file"), std::string::npos) << why;
  }
}

TEST(Checkpoint, AManifestOfAnotherProgramOrVersionIsRefused) {
  const TestFolder folder;
  fs::create_directory(folder / "step-1");
  std::ofstream(folder / "step-1/manifest") << "{\"model\": 1}\n";
  EXPECT_NE(refusal(folder / "step-1").find("not written by SwarMPI"), std::string::npos);
  std::ofstream(folder / "step-1/manifest") << "swarmpi checkpoint 9\nend 0\n";
  expect_names_version(Checkpoint::open(folder / "step-1").status(), folder / "step-1/manifest", 9,
                       kManifestFormat);
}

// Files of early commits do not name their format: that is version 1.
TEST(Checkpoint, PartsOfVersionOneAreReadAndOfALaterVersionRefusedByName) {
  const TestFolder folder;
  make_checkpoint(folder.path(), 1, Model(1));
  const std::string leader = folder / "step-1/leader.term-3.h5";
  const std::string stage = folder / "step-1/stage-1.term-3.peer-0.h5";
  set_format(leader, "");
  set_format(stage, "");
  EXPECT_EQ(read_leader_file(leader).value().head.deck, "[model]\n");
  EXPECT_EQ(stage_file_tensors(stage).value().at(0).name, "head.weight");
  make_checkpoint(folder.path(), 1, Model(1));
  set_format(leader, "swarmpi leader 9");
  set_format(stage, "swarmpi stage 9");
  expect_names_version(read_leader_file(leader).status(), leader, 9, kLeaderFileFormat);
  expect_names_version(stage_file_tensors(stage).status(), stage, 9, kStageFileFormat);
}

TEST(Checkpoint, AFullDiskLeavesNoHalfFileAndNoCheckpoint) {
  const TestFolder folder;
  const Model model(1, 10);
  make_checkpoint(folder.path(), 1, model);
  Result<StoredFile> file = StoredFile{};
  {
    const SmallDisk disk(300000);
    file = write_stage_file(folder / "step-2", 0, 3, 0, model.stages[0], host_memory());
  }
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), ExitStatus::stopped);
  EXPECT_NE(file.status().message().find("no room"), std::string::npos);
  EXPECT_NE(file.status().message().find("stage-0"), std::string::npos);
  EXPECT_EQ(folder.entries("step-2"), 0u);
  Status status;
  {
    const SmallDisk disk(1000);
    status = write_manifest(folder / "step-2", head_of(2), {}, {}, 3);
  }
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_EQ(folder.entries("step-2"), 0u);
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 1);
}

TEST(Prune, OnlyTheNewestStayAndNothingElseIsTouched) {
  const TestFolder folder;
  const Model model(1);
  for (const std::int64_t step : {1, 2, 3, 10}) make_checkpoint(folder.path(), step, model);
  ASSERT_TRUE(write_stage_file(folder / "step-5", 0, 3, 0, model.stages[0], host_memory()).ok());
  ASSERT_TRUE(write_stage_file(folder / "step-11", 0, 3, 0, model.stages[0], host_memory()).ok());
  for (const char* other : {"step-", "step-01", "step-1-best", "steps", "keep"}) {
    fs::create_directory(folder / other);
    std::ofstream(folder / other + std::string("/manifest")) << "x";
  }
  fs::create_directory_symlink(folder / "step-1-best", folder / "step-4");
  std::ofstream(folder / "step-2/notes.txt") << "the good one";

  ASSERT_TRUE(prune_checkpoints(folder.path(), 2).ok());
  for (const char* gone : {"step-1", "step-5", "step-2/manifest", "step-2/leader.term-3.h5"}) {
    EXPECT_FALSE(fs::exists(folder / gone)) << gone;
  }
  for (const char* kept : {"step-3/manifest", "step-10/manifest", "step-11", "step-2/notes.txt",
                           "step-4", "step-01", "step-1-best/manifest", "steps", "keep/manifest"}) {
    EXPECT_TRUE(fs::exists(folder / kept)) << kept;
  }
  EXPECT_EQ(Checkpoint::open(folder.path()).value().head().state.step, 10);
}

TEST(Prune, ZeroKeepsAll) {
  const TestFolder folder;
  const Model model(1);
  for (const std::int64_t step : {1, 2, 3}) make_checkpoint(folder.path(), step, model);
  ASSERT_TRUE(prune_checkpoints(folder.path(), 0).ok());
  for (const char* kept : {"step-1", "step-2", "step-3"}) EXPECT_TRUE(fs::exists(folder / kept));
  EXPECT_TRUE(prune_checkpoints(folder / "none", 1).ok());
}

}  // namespace
}  // namespace swarmpi::checkpoint_test
