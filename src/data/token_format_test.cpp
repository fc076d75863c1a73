#include "data/token_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

namespace swarmpi::token_format_test {
namespace {

template <class Token>
std::string stored(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  std::vector<std::int32_t> fields(256);
  fields[0] = magic;
  fields[1] = version;
  fields[2] = tokens;
  return stored(fields);
}

/// Numbers of tokens as those of a text are distributed: by Zipf's law.
template <class Token>
std::vector<Token> words(std::size_t count, double vocab) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> uniform(0, std::log(vocab));
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(std::exp(uniform(engine)) - 1);
  return tokens;
}

std::string problem_of(const std::string& file, DataFormat format) {
  const Result<std::size_t> header = header_bytes(file, format);
  return header.ok() ? "accepted" : header.status().message();
}

TEST(TokenFormat, ATokenHasSoManyBytes) {
  EXPECT_EQ(token_bytes(DataFormat::bytes), 1);
  EXPECT_EQ(token_bytes(DataFormat::tokens_u16), 2);
  EXPECT_EQ(token_bytes(DataFormat::tokens_u32), 4);
}

TEST(TokenFormat, HeadersOfLlmCAreNoTokens) {
  const std::string gpt2 = header(20240520, 1, 3) + stored<std::uint16_t>({1, 2, 50256});
  const std::string llama = header(20240801, 7, 3) + stored<std::uint32_t>({1, 2, 128000});
  EXPECT_EQ(header_bytes(gpt2, DataFormat::tokens_u16).value(), 1024u);
  EXPECT_EQ(header_bytes(llama, DataFormat::tokens_u32).value(), 1024u);
  EXPECT_EQ(header_bytes(gpt2, DataFormat::bytes).value(), 0u) << "bytes may have any values";
  const std::string plain = stored(words<std::uint16_t>(1000, 50257));
  EXPECT_EQ(header_bytes(plain, DataFormat::tokens_u16).value(), 0u);
  EXPECT_EQ(header_bytes(plain, DataFormat::tokens_u32).value(), 0u);
}

TEST(TokenFormat, AHeaderOfAnotherFormatIsRefused) {
  const std::string gpt2 = header(20240520, 1, 4) + stored<std::uint16_t>({1, 2, 3, 4});
  EXPECT_EQ(problem_of(gpt2, DataFormat::tokens_u32),
            "has llm.c's header of 16-bit tokens, but data.format is \"tokens_u32\": set "
            "data.format = \"tokens_u16\"");
  const std::string llama = header(20240801, 7, 1) + stored<std::uint32_t>({1});
  EXPECT_EQ(problem_of(llama, DataFormat::tokens_u16),
            "has llm.c's header of 32-bit tokens, but data.format is \"tokens_u16\": set "
            "data.format = \"tokens_u32\"");
  const std::string tokens = header(20240801, 12345, 1) + stored<std::uint32_t>({1});
  EXPECT_EQ(problem_of(tokens, DataFormat::tokens_u16), "accepted") << "tokens 55425, 308, ...";
}

TEST(TokenFormat, HeadersThatContradictTheFileAreRefused) {
  const std::string three = stored<std::uint32_t>({1, 2, 3});
  EXPECT_EQ(problem_of(header(20240801, 8, 3) + three, DataFormat::tokens_u32),
            "has version 8 of llm.c's header, only 7 is known");
  EXPECT_EQ(problem_of(header(20240801, 7, 4) + three, DataFormat::tokens_u32),
            "its header says 4 tokens, but 3 are there");
  EXPECT_EQ(problem_of("abcdef", DataFormat::tokens_u32),
            "holds 6 bytes, no multiple of 4, so it is not made of 32-bit tokens");
}

TEST(TokenFormat, RefusesAForeignFileByName) {
  const std::string gzip = "\x1F\x8B\x08" + std::string(1000, 'x');
  for (const auto format : {DataFormat::tokens_u16, DataFormat::tokens_u32}) {
    const std::string bits = format == DataFormat::tokens_u16 ? "16" : "32";
    EXPECT_EQ(problem_of(gzip, format), "is compressed by gzip, not a file of " + bits +
                                            "-bit tokens: unpack it (gunzip -k)");
  }
  EXPECT_EQ(header_bytes(gzip, DataFormat::bytes).value(), 0u) << "bytes may have any values";
}

TEST(TokenFormat, DoubtsAForeignFileThatIsReadAsBytes) {
  EXPECT_EQ(doubt_about("\x1F\x8B\x08" + std::string(10, 'x'), DataFormat::bytes),
            "is compressed by gzip, but is read as data.format = \"bytes\": unpack it (gunzip -k)");
}

/// The bytes of each token in the opposite order.
template <class Token>
std::string big_endian(const std::vector<Token>& tokens) {
  std::string bytes = stored(tokens);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Token)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof(Token)));
  }
  return bytes;
}

TEST(TokenFormat, DoubtsTokensOfSixtyFourBits) {
  const std::string wide = stored(words<std::uint64_t>(20000, 50257));
  EXPECT_EQ(doubt_about(wide, DataFormat::tokens_u16),
            "looks like 64-bit tokens, but is read as data.format = \"tokens_u16\": if it is, "
            "numpy.fromfile(\"OLD\", \"<u8\").astype(\"<u2\").tofile(\"NEW\")");
  EXPECT_EQ(doubt_about(stored(words<std::uint64_t>(500, 128256)), DataFormat::tokens_u32),
            "looks like 64-bit tokens, but is read as data.format = \"tokens_u32\": if it is, "
            "numpy.fromfile(\"OLD\", \"<u8\").astype(\"<u4\").tofile(\"NEW\")");
  EXPECT_NE(doubt_about(wide, DataFormat::bytes), "");
}

TEST(TokenFormat, DoubtsBigEndianTokens) {
  EXPECT_EQ(doubt_about(big_endian(words<std::uint16_t>(1001, 50257)), DataFormat::tokens_u16),
            "looks like big-endian 16-bit tokens, but is read as data.format = \"tokens_u16\": if "
            "it is, numpy.fromfile(\"OLD\", \">u2\").astype(\"<u2\").tofile(\"NEW\")");
  EXPECT_EQ(doubt_about(big_endian(words<std::uint32_t>(40001, 128256)), DataFormat::tokens_u32),
            "looks like big-endian 32-bit tokens, but is read as data.format = \"tokens_u32\": if "
            "it is, numpy.fromfile(\"OLD\", \">u4\").astype(\"<u4\").tofile(\"NEW\")");
  EXPECT_EQ(doubt_about(big_endian(words<std::uint64_t>(1000, 50257)), DataFormat::tokens_u16),
            "looks like big-endian 64-bit tokens, but is read as data.format = \"tokens_u16\": if "
            "it is, numpy.fromfile(\"OLD\", \">u8\").astype(\"<u2\").tofile(\"NEW\")");
}

TEST(TokenFormat, DoubtsNoTokensOfTheFormatThatTheyAreReadAs) {
  EXPECT_EQ(doubt_about(stored(words<std::uint16_t>(40001, 50257)), DataFormat::tokens_u16), "");
  EXPECT_EQ(doubt_about(stored(words<std::uint32_t>(40001, 128256)), DataFormat::tokens_u32), "");
  EXPECT_EQ(doubt_about(std::string(2000, 'a'), DataFormat::bytes), "");
  EXPECT_EQ(doubt_about(std::string(100000, '\0'), DataFormat::tokens_u16), "");
  std::mt19937_64 engine(5);
  std::vector<std::uint16_t> noise(40000);
  for (std::uint16_t& token : noise) token = static_cast<std::uint16_t>(engine());
  EXPECT_EQ(doubt_about(stored(noise), DataFormat::tokens_u16), "");
}

TEST(LikelyFormat, IsThatOfTheHeader) {
  EXPECT_EQ(likely_format(header(20240520, 1, 0)), DataFormat::tokens_u16);
  EXPECT_EQ(likely_format(header(20240801, 7, 0)), DataFormat::tokens_u32);
}

TEST(LikelyFormat, OfTokensWithoutHeaderIsKnownByTheirHighBytes) {
  EXPECT_EQ(likely_format(stored(words<std::uint16_t>(40000, 50257))), DataFormat::tokens_u16);
  EXPECT_EQ(likely_format(stored(words<std::uint16_t>(1000, 1000))), DataFormat::tokens_u16);
  EXPECT_EQ(likely_format(stored(words<std::uint32_t>(40000, 128256))), DataFormat::tokens_u32);
  std::string letters = "First Citizen: before we proceed any further, hear me speak. All: speak!";
  std::vector<std::uint16_t> characters;
  while (characters.size() < 2000) {
    for (const char c : letters) characters.push_back(static_cast<std::uint16_t>(c & 63));
  }
  EXPECT_EQ(likely_format(stored(characters)), DataFormat::tokens_u16) << "one for each letter";
}

TEST(LikelyFormat, OfTextIsBytes) {
  std::string text;
  while (text.size() < 100000) text += "na\xC3\xAFve \xE2\x82\xAC ";
  EXPECT_EQ(likely_format(text), DataFormat::bytes);
  for (std::size_t cut = 0; cut < 12; ++cut) {
    EXPECT_EQ(likely_format(text.substr(0, 2000 + cut)), DataFormat::bytes) << cut;
  }
}

TEST(LikelyFormat, IsNotKnownOfOtherBytes) {
  std::mt19937_64 engine(3);
  std::string noise(100000, '\0'), latin1, zeros(100000, '\0'), colours;
  for (char& c : noise) c = static_cast<char>(engine());
  while (latin1.size() < 2000) latin1 += "caf\xE9 ";
  while (colours.size() < 4000) {  // four bytes each, the last one 0
    for (int i = 0; i < 3; ++i) colours += static_cast<char>(engine());
    colours += '\0';
  }
  for (const std::string& bytes : {noise, latin1, zeros, colours, std::string("short\0", 6)}) {
    EXPECT_EQ(likely_format(bytes), std::nullopt);
  }
}

}  // namespace
}  // namespace swarmpi::token_format_test
