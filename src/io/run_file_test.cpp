#include "io/run_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "io/column_notes.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/row_fields.hpp"
#include "io/tables.hpp"
#include "io/test_support.hpp"
#include "io/throughput_steps.hpp"

namespace swarmpi::run_file_test {
namespace {

void expect_written(const std::string& path, const RunFile& run) {
  const Status status = write_run_file(path, run);
  EXPECT_TRUE(status.ok()) << status.message();
}

RunFile sample_run(std::int64_t steps) {
  RunFile run;
  run.deck = "[model]\nlayers = 2 # größer\n";
  run.seed = "1";
  run.version = "0.1.0";
  run.build = "g++ 12";
  run.fingerprint = "00ff";
  run.hosts = "node1 node2";
  run.complete = true;
  run.verdict = "invalid: peers differ";
  run.history = sample_history(steps);
  return run;
}

template <class Row>
void expect_same(const std::vector<Row>& a, const std::vector<Row>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for_each_column<Row>([&](const auto& column) {
      if (!column.shown) return;
      EXPECT_TRUE(same_bits(column.of(a[i]), column.of(b[i]))) << column.name << " " << i;
    });
  }
}

void expect_refused(const std::string& path, const std::string& why) {
  const Result<RunFile> read = read_run_file(path);
  ASSERT_FALSE(read.ok()) << why;
  EXPECT_EQ(read.status().code(), ExitStatus::bad_input);
  EXPECT_NE(read.status().message().find(path), std::string::npos) << read.status().message();
  EXPECT_NE(read.status().message().find(why), std::string::npos) << read.status().message();
}

TEST(RunFile, EveryBitComesBack) {
  const TestFolder folder;
  const RunFile run = sample_run(300);
  expect_written(folder / "RUN.h5", run);
  const Result<RunFile> read = read_run_file(folder / "RUN.h5");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const RunFile& found = read.value();
  EXPECT_EQ(found.deck, run.deck);
  EXPECT_EQ(found.seed, run.seed);
  EXPECT_EQ(found.version, run.version);
  EXPECT_EQ(found.build, run.build);
  EXPECT_EQ(found.fingerprint, run.fingerprint);
  EXPECT_EQ(found.hosts, run.hosts);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.verdict, run.verdict);
  expect_same(found.history.steps, run.history.steps);
  expect_same(found.history.validation, run.history.validation);
  expect_same(found.history.peers, run.history.peers);
  expect_same(found.history.events, run.history.events);
  expect_same(found.history.throughput, run.history.throughput);
  expect_same(found.history.goodput, run.history.goodput);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(RunFile, SaysWhetherAnythingWasLearned) {
  const TestFolder folder;
  RunFile run = sample_run(3);
  expect_written(folder / "RUN.h5", run);
  EXPECT_EQ(read_run_file(folder / "RUN.h5").value().fidelity, "real");
  EXPECT_TRUE(read_run_file(folder / "RUN.h5").value().has_learned());
  run.fidelity = kSimulatedFidelity;
  run.verdict = "invalid: a rule was broken";
  expect_written(folder / "simulated.h5", run);
  EXPECT_EQ(read_run_file(folder / "simulated.h5").value().fidelity, "simulated");
  EXPECT_FALSE(read_run_file(folder / "simulated.h5").value().has_learned());
}

/// Those of a table; their number in each block goes to `blocks`.
template <class Row>
std::vector<Row> rows_of(TableRows& rows, std::vector<std::size_t>& blocks) {
  std::vector<Row> all;
  blocks.clear();
  const TableRows::Use<Row> use = [&](std::span<const Row> some) {
    all.insert(all.end(), some.begin(), some.end());
    blocks.push_back(some.size());
    return true;
  };
  rows.for_each(use);
  EXPECT_EQ(rows.count(static_cast<const Row*>(nullptr)), all.size());
  return all;
}

TEST(RunFile, ManyRowsAreReadBlockByBlock) {
  const TestFolder folder;
  RunFile run = sample_run(2 * kBlockRows);
  while (run.history.events.size() <= kBlockRows) {
    const std::string detail = "number " + std::to_string(run.history.events.size());
    run.history.events.push_back({2, 3, EventKind::notice, 1, -1, 0, detail});
  }
  expect_written(folder / "RUN.h5", run);
  RunFileReader file(folder / "RUN.h5");
  EXPECT_EQ(file.head().verdict, run.verdict);
  std::vector<std::size_t> blocks;
  expect_same(rows_of<PeerRow>(file.rows(), blocks), run.history.peers);
  EXPECT_EQ(blocks, (std::vector<std::size_t>{kBlockRows, kBlockRows, 1}));
  expect_same(rows_of<EventRow>(file.rows(), blocks), run.history.events);
  EXPECT_EQ(blocks, (std::vector<std::size_t>{kBlockRows, 1}));
  EXPECT_TRUE(file.status().ok()) << file.status().message();

  std::size_t seen = 0;
  const TableRows::Use<StepRow> first_block = [&seen](std::span<const StepRow> rows) {
    seen += rows.size();
    return false;
  };
  file.rows().for_each(first_block);
  EXPECT_EQ(seen, kBlockRows);
}

TEST(RunFile, NamesAPipe) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "RUN.h5").c_str(), 0600), 0);
  const std::string why = read_run_file(folder / "RUN.h5").status().message();
  EXPECT_NE(why.find("it is a pipe, not a file"), std::string::npos) << why;
}

TEST(RunFile, ARunWithoutAnyRowIsARunFile) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", RunFile{});
  const Result<RunFile> read = read_run_file(folder / "RUN.h5");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.value().history.steps.empty());
  EXPECT_EQ(read.value().verdict, "open");
  EXPECT_FALSE(read.value().complete);
}

TEST(RunFile, AFileThatIsNoRunFileIsRefused) {
  const TestFolder folder;
  expect_refused(folder / "missing.h5", "No such file");
  expect_refused(folder.path(), "folder");
  std::ofstream(folder / "empty.h5") << "";
  expect_refused(folder / "empty.h5", "empty");
  std::ofstream(folder / "text.h5") << "step,loss\n1,2.5\n";
  expect_refused(folder / "text.h5", "no HDF5 file");
  const hid_t file =
      H5Fcreate((folder / "other.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_refused(folder / "other.h5", "no text attribute `deck`");
  for (const char* group : {"state", "tensors"}) {
    const std::string path = folder / (std::string(group) + ".h5");
    const hid_t part = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(part, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(part);
    expect_refused(path, "a part of a checkpoint");
  }
}

TEST(RunFile, AFileThatLacksATableIsRefused) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(5));
  const hid_t file = H5Fopen((folder / "RUN.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, "/steps/loss", H5P_DEFAULT), 0);
  H5Fclose(file);
  expect_refused(folder / "RUN.h5", "/steps/loss");
}

/// Gives all events of a file other kinds.
void rename_events(const std::string& path, const std::vector<const char*>& kinds) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t column = H5Dopen2(file, "/events/kind", H5P_DEFAULT);
  const hid_t text = H5Dget_type(column);
  ASSERT_GE(H5Dwrite(column, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, kinds.data()), 0);
  H5Tclose(text);
  H5Dclose(column);
  H5Fclose(file);
}

TEST(RunFile, AnUnknownKindOfEventIsRefusedByName) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(5));
  rename_events(folder / "RUN.h5", {"commit", "eclipse"});
  expect_refused(folder / "RUN.h5", "/events/kind holds `eclipse`, which is not known");
}

TEST(RunFile, NoRowsComeAfterOneThatCannotBeRead) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(5));
  rename_events(folder / "RUN.h5", {"commit", "eclipse"});
  RunFileReader file(folder / "RUN.h5");
  ASSERT_TRUE(file.status().ok()) << file.status().message();
  std::vector<std::size_t> blocks;
  EXPECT_EQ(rows_of<StepRow>(file.rows(), blocks).size(), 6u);
  EXPECT_TRUE(file.status().ok());
  file.rows().for_each(TableRows::Use<EventRow>([](std::span<const EventRow>) {
    ADD_FAILURE() << "a row that is not known is used";
    return true;
  }));
  EXPECT_EQ(file.status().code(), ExitStatus::bad_input);
  file.rows().for_each(TableRows::Use<StepRow>([](std::span<const StepRow>) {
    ADD_FAILURE() << "rows come after an error";
    return true;
  }));
}

TEST(RunFile, AFileFromBeforeAColumnWasAddedReadsAsZerosThere) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(5));
  const hid_t file = H5Fopen((folder / "RUN.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, "/peers/microbatches", H5P_DEFAULT), 0);
  H5Fclose(file);
  const Result<RunFile> read = read_run_file(folder / "RUN.h5");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read.value().history.peers.size(), 6u);
  for (const PeerRow& row : read.value().history.peers) {
    EXPECT_EQ(row.microbatches, 0);
    EXPECT_EQ(row.bytes_received, 8);
  }
}

TEST(RunFile, AFileFromBeforeThePeersTimeWasToldHasNoRowsOfIt) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(5));
  const hid_t file = H5Fopen((folder / "RUN.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, "/goodput", H5P_DEFAULT), 0);
  H5Fclose(file);
  const Result<RunFile> read = read_run_file(folder / "RUN.h5");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().history.peers.size(), 6u);
  EXPECT_TRUE(read.value().history.goodput.empty());
}

// Files of early commits do not name their format: that is version 1.
TEST(RunFile, OfVersionOneIsReadAndOfALaterVersionRefusedByName) {
  const TestFolder folder;
  const std::string path = folder / "RUN.h5";
  for (const char* mark : {"", "swarmpi run 1"}) {
    expect_written(path, sample_run(5));
    set_format(path, mark);
    const Result<RunFile> read = read_run_file(path);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value().history.steps.size(), 6u);
  }
  set_format(path, "swarmpi run 9");
  expect_names_version(read_run_file(path).status(), path, 9, kRunFileFormat);
  set_format(path, "swarmpi leader 1");
  expect_refused(path, "its format is `swarmpi leader 1`");
}

/// Writes an attribute of the root anew, as a text.
void set_text(const std::string& path, const char* name, const char* value) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete(file, name);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Awrite(attribute, type, &value), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(file);
}

TEST(RunFile, SeedAndCompleteAreNumbersAndTextsInVersionOne) {
  const TestFolder folder;
  const std::string path = folder / "RUN.h5";
  expect_written(path, sample_run(5));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const char* name : {"seed", "complete"}) {
    std::int64_t value = 0;
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    EXPECT_GE(H5Aread(attribute, H5T_NATIVE_INT64, &value), 0) << name;
    EXPECT_EQ(value, 1) << name;
    H5Aclose(attribute);
  }
  H5Fclose(file);
  set_text(path, "seed", "1");
  set_text(path, "complete", "0");
  const Result<RunFile> read = read_run_file(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().seed, "1");
  EXPECT_FALSE(read.value().complete);
  set_text(path, "complete", "2");
  expect_refused(path, "`complete` is not 0 or 1");
}

TEST(RunFile, ASeedThatIsNoNumberStaysAText) {
  const TestFolder folder;
  RunFile run = sample_run(1);
  for (const char* seed : {"", "1x", "99999999999999999999"}) {
    run.seed = seed;
    expect_written(folder / "RUN.h5", run);
    EXPECT_EQ(read_run_file(folder / "RUN.h5").value().seed, seed);
  }
}

template <class Row>
void expect_notes(std::vector<std::string> expected = {}) {
  std::vector<std::string> noted;
  for_each_column<Row>([&](const auto& column) {
    if (column.shown) expected.push_back(column.name);
  });
  const Row* const row = nullptr;
  for (const ColumnNote& note : notes_of(row)) noted.emplace_back(note.column);
  EXPECT_EQ(noted, expected);
}

TEST(RunFile, EachColumnThatIsShownHasANote) {
  expect_notes<StepRow>();
  expect_notes<ValidationRow>();
  expect_notes<PeerRow>();
  expect_notes<EventRow>();
  expect_notes<ThroughputRow>({"step"});
  expect_notes<GoodputRow>();
}

TEST(RunFile, RowsOfThroughputHaveTheStepThatWasCommittedAtTheirTime) {
  const TestFolder folder;
  History history;
  for (std::int64_t step = 0; step < 10; ++step) {
    history.steps.push_back({.step = step, .time_s = 0.1 * static_cast<double>(step)});
    history.throughput.push_back({.time_s = 0.1 * static_cast<double>(step)});
  }
  history.throughput[4].time_s += 0.01;  // of a step that was made again
  HistoryRows rows(history);
  for (const std::size_t at_once : {1, 3, 10, 100}) {
    const std::string path = folder / "steps";
    const Descriptor file = Descriptor::open(path, O_RDWR | O_CREAT | O_TRUNC);
    ASSERT_EQ(write_throughput_steps(rows, file, 8, at_once), 0);
    std::vector<std::int64_t> found(12);  // one more than there should be
    ASSERT_EQ(::pread(file.number(), found.data(), 96, 0), 88);
    found.pop_back();
    EXPECT_EQ(found, (std::vector<std::int64_t>{0, 0, 1, 2, 3, -1, 5, 6, 7, 8, 9})) << at_once;
  }
}

TEST(RunFile, CutOffAnywhereItIsRefused) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(20));
  const std::string whole = read_file(folder / "RUN.h5").value();
  for (std::size_t size = 1; size < whole.size(); size += 97) {
    std::ofstream(folder / "cut.h5", std::ios::binary) << whole.substr(0, size);
    const Result<RunFile> read = read_run_file(folder / "cut.h5");
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_EQ(read.status().code(), ExitStatus::bad_input);
  }
}

TEST(RunFile, AFullDiskAtAnyPointLeavesTheLastOneAndNothingElse) {
  const TestFolder folder;
  expect_written(folder / "RUN.h5", sample_run(1));
  const RunFile larger = sample_run(500);
  expect_written(folder / "whole.h5", larger);
  const std::size_t needed = std::filesystem::file_size(folder / "whole.h5");
  int refused = 0;
  for (std::size_t room = 0; room < needed; room += needed / 37) {
    Status status;
    {
      const SmallDisk disk(room);
      status = write_run_file(folder / "RUN.h5", larger);
    }
    ASSERT_EQ(status.code(), ExitStatus::stopped) << room;
    EXPECT_NE(status.message().find("no room"), std::string::npos) << status.message();
    ++refused;
  }
  EXPECT_GE(refused, 37);
  EXPECT_EQ(folder.entries(), 2u);
  EXPECT_EQ(read_run_file(folder / "RUN.h5").value().history.steps.size(), 2u);
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
  expect_written(folder / "RUN.h5", larger);
}

}  // namespace
}  // namespace swarmpi::run_file_test
