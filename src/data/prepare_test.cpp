#include "data/prepare.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/anybody_test.hpp"
#include "data/test_files.hpp"

namespace swarmpi::prepare_test {
namespace {

namespace fs = std::filesystem;

PreparedText prepared(const std::string& out, const std::vector<std::string>& sources,
                      Existing existing = Existing::keep) {
  const Result<PreparedText> result = prepare_text(out, sources, existing);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result.value() : PreparedText{};
}

std::string problem_of(const std::string& out, const std::vector<std::string>& sources) {
  const Result<PreparedText> result = prepare_text(out, sources);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.status().code(), ExitStatus::bad_input);
  return result.status().message();
}

std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Prepare, JoinsTheTextsOfFoldersSortedByPath) {
  const DataFolder folder;
  folder.write("in/b/one.txt", "one");
  folder.write("in/a.txt", "first");
  folder.write("in/b.txt", "between a and b/");  // '.' sorts before '/'
  folder.write("in/Z.txt", "capitals come first\n");
  folder.write("in/\xC3\xA9.txt", "then accents");
  const std::string out = folder / "out.bin";
  const PreparedText result = prepared(out, {folder / "in"});
  EXPECT_EQ(content_of(out), "capitals come first\n\nfirst\nbetween a and b/\none\nthen accents");
  EXPECT_EQ(result.files, 5);
  EXPECT_EQ(result.bytes, static_cast<std::int64_t>(content_of(out).size()));
  EXPECT_EQ(result.duplicates, 0);
  EXPECT_EQ(result.not_text(), 0);
}

TEST(Prepare, LeavesOutWhatIsNotTextWhatIsEmptyAndWhatCameBefore) {
  const DataFolder folder;
  folder.write("in/1", "text \xE2\x82\xAC");
  folder.write("in/2", std::string("nul \0 byte", 10));
  folder.write("in/3", "latin-1 \xE9t\xE9");
  folder.write("in/4", "");
  folder.write("in/5", "text \xE2\x82\xAC");
  folder.write("in/6", "more");
  const PreparedText result = prepared(folder / "out", {folder / "in"});
  EXPECT_EQ(content_of(folder / "out"), "text \xE2\x82\xAC\nmore");
  EXPECT_EQ(result.files, 2);
  EXPECT_EQ(result.not_text(), 2);
  EXPECT_EQ(result.duplicates, 1);
}

TEST(Prepare, TheOrderOfSourcesAndFilesThatComeTwiceDoNotMatter) {
  const DataFolder folder;
  folder.write("x/1", "x one");
  folder.write("x/2", "x two");
  folder.write("y", "why");
  prepared(folder / "a", {folder / "x", folder / "y"});
  const PreparedText again =
      prepared(folder / "b", {folder / "y", folder / "x/2", folder / "x", folder / "x"});
  EXPECT_EQ(content_of(folder / "a"), "x one\nx two\nwhy");
  EXPECT_EQ(content_of(folder / "a"), content_of(folder / "b"));
  EXPECT_EQ(again.duplicates, 0) << "one path twice is one file";
}

TEST(Prepare, FollowsNoLinksInsideFolders) {
  const DataFolder folder;
  folder.write("in/a", "a");
  folder.write("elsewhere/b", "b");
  fs::create_symlink(folder / "elsewhere", folder / "in/folder");
  fs::create_symlink(folder / "elsewhere/b", folder / "in/file");
  fs::create_symlink(folder / "in", folder / "in/loop");
  fs::create_symlink(folder / "gone", folder / "in/dangling");
  prepared(folder / "out", {folder / "in"});
  EXPECT_EQ(content_of(folder / "out"), "a");

  fs::create_symlink(folder / "in", folder / "named");
  prepared(folder / "out2", {folder / "named"});
  EXPECT_EQ(content_of(folder / "out2"), "a") << "a link that is named is meant";
}

TEST(Prepare, DoesNotReadItsOwnOutput) {
  const DataFolder folder;
  folder.write("in/a", "a");
  folder.write("in/.out.bin.part-host-123-0", "being written, or left by a run that was killed");
  const std::string out = folder / "in/out.bin";
  prepared(out, {folder / "in"});
  EXPECT_EQ(content_of(out), "a");
  folder.write("in/out.bin", "of an earlier run");
  prepared(out, {folder / "in", out}, Existing::replace);
  EXPECT_EQ(content_of(out), "a") << "not even when it is named";
  const fs::path before = fs::current_path();
  fs::current_path(folder / "in");
  prepared("out.bin", {"."});
  fs::current_path(before);
  EXPECT_EQ(content_of(out), "a");
  EXPECT_EQ(files_in(folder / "in"), 3u) << "no partial file of ours is left";
}

TEST(Prepare, ATextInThePlaceOfTheOutputIsKept) {
  const DataFolder folder;
  const std::string a = folder.write("a.txt", "precious"), b = folder.write("b.txt", "text");
  const std::string problem = problem_of(a, {b});
  EXPECT_EQ(problem.find(a + ": exists, and is not what these texts give"), 0u) << problem;
  EXPECT_NE(problem.find("swarmpi prepare OUT.bin PATH..."), std::string::npos) << problem;
  EXPECT_EQ(content_of(a), "precious");
  fs::create_symlink(a, folder / "link");
  fs::create_symlink(folder / "gone", folder / "dangling");
  EXPECT_NE(problem_of(folder / "link", {b}), "accepted");
  EXPECT_NE(problem_of(folder / "dangling", {b}), "accepted");
  EXPECT_EQ(files_in(folder.path()), 3u) << "no partial file is left";

  const PreparedText forced = prepared(a, {b}, Existing::replace);
  EXPECT_FALSE(forced.was_there);
  EXPECT_EQ(content_of(a), "text");
}

TEST(Prepare, WhatIsThereIsComparedWithoutACopy) {
  const Anybody anybody;
  if (!anybody.acts_as_anybody()) GTEST_SKIP() << "root cannot become another user here";
  const DataFolder folder;
  const std::string out = folder.write("full/out.bin", "a\nb");
  folder.write("in/1", "a");
  folder.write("in/2", "b");
  fs::permissions(folder / "full", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(prepared(out, {folder / "in"}).was_there);
  for (const char* other : {"a\n", "a\nb\n", "a\nc", "other"}) {
    folder.write("full/out.bin", other);
    EXPECT_EQ(problem_of(out, {folder / "in"}).find(out + ": exists, and is not what"), 0u)
        << other;
  }
  fs::permissions(folder / "full", fs::perms::owner_all);
}

TEST(Prepare, MayBeRepeated) {
  const DataFolder folder;
  folder.write("in/a", "a");
  const std::string out = folder.write("out.bin", "");
  EXPECT_FALSE(prepared(out, {folder / "in"}).was_there) << "of an empty file nothing is lost";
  const auto written = fs::last_write_time(out);
  const PreparedText again = prepared(out, {folder / "in"});
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(again.files, 1);
  EXPECT_EQ(fs::last_write_time(out), written) << "a run may read it";

  folder.write("in/b", "b");
  EXPECT_NE(problem_of(out, {folder / "in"}), "accepted") << "other text is another file";
  EXPECT_EQ(content_of(out), "a");
}

TEST(Prepare, SaysWhatIsWrongWithTextOfOtherEncodings) {
  const DataFolder folder;
  const std::string latin1 = folder.write("in/a.txt", "latin-1 \xE9t\xE9");
  folder.write("in/b.txt", "\xE4");
  const std::string utf16 = folder.write("in/c.txt", std::string("\xFF\xFEt\0e\0x\0t\0", 10));
  const std::string out = folder / "out";
  EXPECT_EQ(problem_of(out, {folder / "in"}),
            out + ": not written, for the sources hold no text\n" + latin1 +
                " and 1 more: not UTF-8; if it is Latin-1: iconv -f latin1 -t utf8 " + latin1 +
                " > NEW.txt\n" + utf16 + ": UTF-16 or UTF-32, not UTF-8: iconv -f utf16 -t utf8 " +
                utf16 + " > NEW.txt (or -f utf32)");

  folder.write("in/d.txt", "text");
  const PreparedText result = prepared(out, {folder / "in"});
  EXPECT_EQ(result.not_utf8.files, 2);
  EXPECT_EQ(result.utf16.files, 1);
  EXPECT_EQ(result.advice().find(latin1), 0u);
}

TEST(Prepare, NamesCompressedFilesAndArchives) {
  const DataFolder folder;
  const std::string gzip = "\x1F\x8B\x08\xFF", tar = std::string(257, '\0') + "ustar";
  const std::string first = folder.write("in/a.gz", gzip), archive = folder.write("in/b", tar);
  folder.write("in/c.gz", gzip + "more");
  const std::string out = folder / "out";
  EXPECT_EQ(problem_of(out, {folder / "in"}),
            out + ": not written, for the sources hold no text\n" + archive +
                ": a tar archive: unpack it (tar -xf)\n" + first +
                " and 1 more: compressed by gzip: unpack it (gunzip -k)");
  folder.write("in/d.txt", "PAR1 is text");
  EXPECT_EQ(prepared(out, {folder / "in"}).not_text(), 3);
  EXPECT_EQ(content_of(out), "PAR1 is text");
}

TEST(Prepare, SpecialFilesInFoldersArePassedOver) {
  const DataFolder folder;
  folder.write("in/a", "a");
  ASSERT_EQ(mkfifo((folder / "in/pipe").c_str(), 0600), 0);
  prepared(folder / "out", {folder / "in"});
  EXPECT_EQ(content_of(folder / "out"), "a");
}

TEST(Prepare, UnreadableFilesInFoldersAreCounted) {
  const Anybody anybody;
  if (!anybody.acts_as_anybody()) GTEST_SKIP() << "root cannot become another user here";
  const DataFolder folder;
  folder.write("in/a", "a");
  fs::permissions(folder.write("in/b", "b"), fs::perms::none);
  folder.write("in/c/d", "d");
  fs::permissions(folder / "in/c", fs::perms::none);
  const PreparedText result = prepared(folder / "out", {folder / "in"});
  fs::permissions(folder / "in/c", fs::perms::owner_all);
  EXPECT_EQ(content_of(folder / "out"), "a");
  EXPECT_EQ(result.not_text(), 2);
}

TEST(Prepare, ProblemsLeaveWhatWasThereAlone) {
  const DataFolder folder;
  const std::string out = folder.write("out.bin", "precious");
  folder.write("in/nul", std::string("\0", 1));
  const std::string missing = folder / "missing";
  EXPECT_EQ(problem_of(out, {folder / "in", missing}),
            missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(problem_of(out, {"/dev/null"}), "/dev/null: is neither a file nor a folder");
  EXPECT_EQ(problem_of(out, {folder / "in"}), out +
                                                  ": not written, for the sources hold no text\n" +
                                                  (folder / "in/nul") + ": not text: NUL bytes");
  EXPECT_EQ(problem_of(out, {}), out + ": not written, for the sources hold no text");
  EXPECT_EQ(content_of(out), "precious");

  const std::string nowhere = folder / "no/out.bin";
  EXPECT_EQ(problem_of(nowhere, {folder / "in"}),
            nowhere + ": cannot be written: there is no folder " + (folder / "no"));
  EXPECT_EQ(problem_of(folder.path(), {folder / "in"}),
            folder.path() + ": must be a file to write, not a folder");
  EXPECT_EQ(problem_of(folder.path() + "/", {folder / "in"}),
            folder.path() + "/: must be a file to write, not a folder");
  EXPECT_EQ(problem_of("/proc/out.bin", {out}),
            "/proc/out.bin: cannot be written: No such file or directory");
  EXPECT_EQ(files_in(folder.path()), 2u) << "no partial file is left";
}

}  // namespace
}  // namespace swarmpi::prepare_test
