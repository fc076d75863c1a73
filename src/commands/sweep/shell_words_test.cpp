#include "commands/sweep/shell_words.hpp"

#include <gtest/gtest.h>

namespace swarmpi::shell_words_test {
namespace {

using Words = std::vector<std::string>;

Words words(const std::string& text) {
  const Result<Words> found = shell_words(text);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? found.value() : Words();
}

TEST(ShellWords, AreSeparatedByBlanks) {
  EXPECT_EQ(words(" srun  -n 4\t-c 2\n"), (Words{"srun", "-n", "4", "-c", "2"}));
  EXPECT_EQ(words("  "), Words());
  EXPECT_EQ(words(""), Words());
}

TEST(ShellWords, QuotesKeepBlanks) {
  EXPECT_EQ(words("echo 'a b'"), (Words{"echo", "a b"}));
  EXPECT_EQ(words("echo \"a b\"c' d'"), (Words{"echo", "a bc d"}));
  EXPECT_EQ(words("env A='' \"\" b"), (Words{"env", "A=", "", "b"}));
  EXPECT_EQ(words("'it\"s' \"it's\""), (Words{"it\"s", "it's"}));
}

TEST(ShellWords, ABackslashKeepsTheNextCharacter) {
  EXPECT_EQ(words(R"(a\ b \'c \"d \\e)"), (Words{"a b", "'c", "\"d", "\\e"}));
  EXPECT_EQ(words(R"("a\"b\\c\$d\e")"), Words{R"(a"b\c$d\e)"}) << "of these only some";
  EXPECT_EQ(words(R"('a\b')"), Words{R"(a\b)"});
  EXPECT_EQ(words("a\\"), Words{"a\\"});
  EXPECT_EQ(words("srun \\\n -n 4"), (Words{"srun", "-n", "4"})) << "the line goes on";
}

TEST(ShellWords, NothingIsExpanded) {
  EXPECT_EQ(words("$HOME ~ *.h5 a;b #c"), (Words{"$HOME", "~", "*.h5", "a;b", "#c"}));
}

TEST(ShellWords, AQuoteThatIsNotClosedIsRefused) {
  for (const char* text : {"echo 'a b", "echo \"a b", "\"a\\\"", "it's"}) {
    const Result<Words> found = shell_words(text);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_EQ(found.status().code(), ExitStatus::bad_input);
    EXPECT_NE(found.status().message().find("not closed"), std::string::npos);
  }
  EXPECT_EQ(shell_words("echo 'a").status().message(),
            "`echo 'a` has a ' that is not closed: close it, or put a backslash before it");
}

}  // namespace
}  // namespace swarmpi::shell_words_test
