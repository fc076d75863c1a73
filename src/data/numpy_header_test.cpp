#include "data/numpy_header.hpp"

#include <gtest/gtest.h>

#include <string>

#include "data/token_format.hpp"

namespace swarmpi::numpy_header_test {
namespace {

/// A file as numpy.save() writes it.
std::string saved(int version, const std::string& type, const std::string& shape,
                  std::size_t bytes) {
  std::string header = "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }";
  const std::size_t begin = version == 1 ? 10 : 12;
  header.resize((begin + header.size() + 64) / 64 * 64 - begin - 1, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (std::size_t i = 0; i < begin - 8; ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 255);
  }
  return file + header + std::string(bytes, '\1');
}

std::string problem_of(const std::string& file, DataFormat format) {
  const Result<std::size_t> header = header_bytes(file, format);
  return header.ok() ? "accepted" : header.status().message();
}

TEST(NumpyHeader, IsNoToken) {
  for (const int version : {1, 2, 3}) {
    const std::string u16 = saved(version, "'<u2'", "(100,)", 200);
    EXPECT_EQ(header_bytes(u16, DataFormat::tokens_u16).value(), u16.size() - 200);
    EXPECT_EQ(header_bytes(u16, DataFormat::bytes).value(), 0u) << "bytes may have any values";
    for (const char* type : {"'<u4'", "'<i4'"}) {
      const std::string u32 = saved(version, type, "(100,)", 400);
      EXPECT_EQ(header_bytes(u32, DataFormat::tokens_u32).value(), u32.size() - 400);
    }
  }
  const std::string long_header = saved(2, "'<u2'", "(1,)" + std::string(70'000, ' '), 2);
  EXPECT_EQ(header_bytes(long_header, DataFormat::tokens_u16).value(), long_header.size() - 2);
}

TEST(NumpyHeader, NamesTheFormatOfTheArrayWhenTheDeckHasAnother) {
  EXPECT_EQ(problem_of(saved(1, "'<u2'", "(4,)", 8), DataFormat::tokens_u32),
            "is a NumPy array of type '<u2', but data.format is \"tokens_u32\": set data.format = "
            "\"tokens_u16\"");
  EXPECT_EQ(problem_of(saved(1, "'<i4'", "(4,)", 16), DataFormat::tokens_u16),
            "is a NumPy array of type '<i4', but data.format is \"tokens_u16\": set data.format = "
            "\"tokens_u32\"");
}

TEST(NumpyHeader, NamesTheConversionWhenTheArrayHasAnotherType) {
  for (const std::string type : {"'>u2'", "'<i8'", "'<f4'", "'|u1'", "'<i2'"}) {
    EXPECT_EQ(problem_of(saved(1, type, "(4,)", 32), DataFormat::tokens_u16),
              "is a NumPy array of type " + type +
                  ", but data.format is \"tokens_u16\": numpy.save(\"NEW.npy\", "
                  "numpy.load(\"OLD.npy\").astype(\"<u2\"))");
  }
  EXPECT_NE(problem_of(saved(1, "[('a', '<u4')]", "(4,)", 16), DataFormat::tokens_u32), "accepted");
}

TEST(NumpyHeader, IsRefusedWhenTheArrayHasOtherDimensions) {
  for (const std::string shape : {"()", "(2, 2)", "(4, 1,)", "(,)", "(-4,)", "(4x,)"}) {
    EXPECT_EQ(problem_of(saved(1, "'<u2'", shape, 8), DataFormat::tokens_u16),
              "is a NumPy array of shape " + shape +
                  ", but tokens have one dimension: numpy.save(\"NEW.npy\", "
                  "numpy.load(\"OLD.npy\").ravel())");
  }
}

TEST(NumpyHeader, IsRefusedWhenItContradictsTheFile) {
  for (const std::size_t bytes : {0, 7, 9, 10}) {
    EXPECT_EQ(problem_of(saved(1, "'<u2'", "(4,)", bytes), DataFormat::tokens_u16),
              "its NumPy header says 4 tokens of 2 bytes, but " + std::to_string(bytes) +
                  " bytes follow");
  }
  EXPECT_EQ(problem_of(saved(4, "'<u2'", "(4,)", 8), DataFormat::tokens_u16),
            "has version 4 of NumPy's header, only 1 to 3 are known");
}

TEST(NumpyHeader, IsDamagedWhenCutAnywhere) {
  const std::string whole = saved(1, "'<u2'", "(4,)", 0);
  for (std::size_t size = 6; size < whole.size(); ++size) {
    EXPECT_EQ(problem_of(whole.substr(0, size), DataFormat::tokens_u16),
              "is a NumPy array (.npy) with a damaged header")
        << size;
  }
  std::string without_type = whole, huge = saved(2, "'<u2'", "(4,)", 8);
  without_type.replace(without_type.find("descr"), 5, "other");
  huge.replace(8, 4, "\xFF\xFF\xFF\xFF");
  for (const std::string& file : {without_type, huge}) {
    EXPECT_EQ(problem_of(file, DataFormat::tokens_u16),
              "is a NumPy array (.npy) with a damaged header");
  }
}

}  // namespace
}  // namespace swarmpi::numpy_header_test
