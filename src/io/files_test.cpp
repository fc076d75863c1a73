#include "io/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/anybody_test.hpp"
#include "core/hash.hpp"
#include "io/descriptor.hpp"
#include "io/temporary_file.hpp"
#include "io/test_support.hpp"

namespace swarmpi::files_test {
namespace {

std::string megabytes(std::size_t count) { return std::string(count << 20, 'x'); }

TEST(Files, WhatWasWrittenIsRead) {
  const TestFolder folder;
  const std::string binary("a\0b\n", 4);
  ASSERT_TRUE(write_file_durably(folder / "one", binary).ok());
  EXPECT_EQ(read_file(folder / "one").value(), binary);
}

TEST(Files, NewContentReplacesOldAndNothingElseIsLeft) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "one", "old").ok());
  ASSERT_TRUE(write_file_durably(folder / "one", "new").ok());
  EXPECT_EQ(read_file(folder / "one").value(), "new");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Files, WhoLosesTheRightToPublishInBetweenLeavesTheOldContentAndNothingElse) {
  const TestFolder folder;
  const std::string path = folder / "a.txt";
  ASSERT_TRUE(write_file_durably(path, "old").ok());
  std::size_t entries = 0;
  const Status status = write_file_durably(path, "new", [&] {
    entries = folder.entries("");
    return Status::stopped("a later leader writes it");
  });
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_NE(status.message().find(path), std::string::npos);
  EXPECT_EQ(entries, 2u) << "it is asked when the new content exists";
  EXPECT_EQ(read_file(path).value(), "old");
  EXPECT_EQ(folder.entries(""), 1u);
}

TEST(Files, AFullDiskStopsTheRunKeepsTheOldContentAndLeavesNoPartialFile) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "one", "old").ok());
  Status status;
  {
    const SmallDisk disk(1 << 16);
    status = write_file_durably(folder / "one", megabytes(1));
  }
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_NE(status.message().find(folder / "one"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("no room"), std::string::npos) << status.message();
  EXPECT_EQ(read_file(folder / "one").value(), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Files, AMissingFolderIsNamed) {
  const TestFolder folder;
  const Status status = write_file_durably(folder / "nowhere/one", "x");
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_NE(status.message().find("nowhere/one"), std::string::npos);
  EXPECT_EQ(read_file(folder / "nowhere/one").status().code(), ExitStatus::bad_input);
  EXPECT_EQ(read_file(folder.path()).status().code(), ExitStatus::bad_input);
}

TEST(Files, TheHashOfAFileIsThatOfItsBytes) {
  const TestFolder folder;
  const std::string content = megabytes(3) + "tail";
  ASSERT_TRUE(write_file_durably(folder / "one", content).ok());
  const FileHash found = hash_file(folder / "one").value();
  EXPECT_EQ(found.hash, hash_bytes(content.data(), content.size()));
  EXPECT_EQ(found.size_bytes, static_cast<std::int64_t>(content.size()));
}

TEST(Files, ATrailerTellsAFileThatIsWholeFromOneThatIsNot) {
  const TestFolder folder;
  const std::string content = megabytes(3) + "tail", path = folder / "one";
  const auto write = [&](const Descriptor& file) { return write_all(file, content); };
  FileHash hash;
  ASSERT_TRUE(write_file_durably(path, write, &hash).ok());
  EXPECT_EQ(hash.hash, hash_bytes(content.data(), content.size()));
  EXPECT_EQ(hash.size_bytes, static_cast<std::int64_t>(content.size()) + kTrailerBytes);
  EXPECT_EQ(hash_file(path, kTrailerBytes).value().hash, hash.hash);
  EXPECT_TRUE(check_trailer(path, hash).ok());

  const std::string whole = read_file(path).value();
  EXPECT_EQ(whole.substr(0, content.size()), content);
  EXPECT_FALSE(check_trailer(path, {hash.hash + 1, hash.size_bytes}).ok());
  for (const std::string& bad : {whole.substr(1), whole + "\n", content, std::string()}) {
    std::ofstream(path, std::ios::binary) << bad;
    const Status found = check_trailer(path, hash);
    EXPECT_NE(found.message().find(path), std::string::npos) << found.message();
  }
  EXPECT_EQ(check_trailer(path, hash).code(), ExitStatus::bad_input);
  std::filesystem::remove(path);
  EXPECT_EQ(check_trailer(path, hash).code(), ExitStatus::stopped) << "it cannot be read";
}

TEST(Files, ReadsRegularFilesOnly) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, what] : {std::pair(pipe, "pipe"), std::pair(folder.path(), "folder"),
                                   std::pair(std::string("/dev/zero"), "device")}) {
    for (const Status& status :
         {read_file(path).status(), hash_file(path).status(), check_trailer(path, {})}) {
      EXPECT_EQ(status.code(), ExitStatus::bad_input);
      EXPECT_EQ(status.message(),
                "cannot read " + path + ": it is a " + std::string(what) + ", not a file");
    }
  }
}

TEST(Files, ReadsNoMoreThanAllowed) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder / "one", "12345").ok());
  EXPECT_EQ(read_file(folder / "one", 5).value(), "12345");
  EXPECT_EQ(read_file(folder / "one", 4).status().message(),
            "cannot read " + (folder / "one") + ": it is too large: 5 bytes, 4 are allowed");
  EXPECT_FALSE(read_file("/proc/self/maps", 100).ok()) << "its size is said to be 0";
  std::filesystem::resize_file(folder / "one", 1ull << 40);
  EXPECT_NE(read_file(folder / "one").status().message().find("too large"), std::string::npos);
}

TEST(Files, NamesTheLimitWhenNoDescriptorIsLeft) {
  const TestFolder folder;
  Status status;
  {
    const FewDescriptors none(0);
    status = create_folder(folder / "new");
  }
  EXPECT_NE(status.message().find("Too many open files (see ulimit -n)"), std::string::npos)
      << status.message();
}

// Its random part tells processes apart that have one host name, and are each process 1.
TEST(Files, TemporaryNamesHaveARandomPart) {
  const TestFolder folder;
  const std::string name = TemporaryFile(folder / "one").name();
  EXPECT_TRUE(std::regex_match(name, std::regex(R"(.*/\.one\.part-.*-[0-9a-f]{16}-\d+-\d+)")))
      << name;
}

TEST(Files, NamesAWorkingDirectoryThatIsGone) {
  EXPECT_EXIT(
      {
        std::string gone;
        {
          const TestFolder folder;
          gone = folder.path();
          std::filesystem::current_path(gone);
        }
        const Status status = prove_writable("runs", 0);
        std::fputs(status.message().c_str(), stderr);
        std::exit(static_cast<int>(status.code()));
      },
      ::testing::ExitedWithCode(2),
      "cannot write into folder runs: the working directory: No such file or directory");
}

TEST(Files, FoldersAreMadeWithTheirParents) {
  const TestFolder folder;
  EXPECT_TRUE(prove_writable(folder / "a/b/c/", 1000).ok());
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Files, AFolderThatIsAFileIsRefused) {
  const TestFolder folder;
  std::ofstream(folder / "file") << "x";
  const Status status = prove_writable(folder / "file/sub", 0);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("file/sub"), std::string::npos) << status.message();
  EXPECT_EQ(prove_writable(folder / "file", 0).code(), ExitStatus::bad_input);
}

TEST(Files, MoreThanTheDiskHasIsRefused) {
  const TestFolder folder;
  const Status status = prove_writable(folder.path(), std::int64_t{1} << 60);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("are free"), std::string::npos) << status.message();
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Files, AFolderWithoutPermissionIsRefused) {
  const Anybody anybody;
  if (!anybody.acts_as_anybody()) GTEST_SKIP() << "root cannot become another user here";
  const TestFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  EXPECT_EQ(prove_writable(folder.path(), 0).code(), ExitStatus::bad_input);
  EXPECT_EQ(prove_writable(folder / "new", 0).code(), ExitStatus::bad_input);
  ::chmod(folder.path().c_str(), 0700);
}

TEST(Files, OldTemporaryFilesOfKilledWritersAreRemoved) {
  const TestFolder folder;
  const std::string old_file = folder / ".one.part-elsewhere-1-0";
  const std::string new_file = folder / ".one.part-elsewhere-2-0";
  const std::string of_other = folder / ".two.part-elsewhere-1-0";
  for (const std::string& name : {old_file, new_file, of_other}) std::ofstream(name) << "x";
  const timeval long_ago[2] = {{1000, 0}, {1000, 0}};
  ::utimes(old_file.c_str(), long_ago);
  ::utimes(of_other.c_str(), long_ago);
  ASSERT_TRUE(write_file_durably(folder / "one", "x").ok());
  EXPECT_FALSE(std::filesystem::exists(old_file));
  EXPECT_TRUE(std::filesystem::exists(new_file)) << "a process may still be writing it";
  EXPECT_TRUE(std::filesystem::exists(of_other));
}

}  // namespace
}  // namespace swarmpi::files_test
