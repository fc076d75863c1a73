#include "data/dataset.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "core/hash.hpp"
#include "data/test_files.hpp"
#include "kernels/backend.hpp"

namespace swarmpi::dataset_test {
namespace {

/// Tokens of which every window of four gives its position: base-16 digits of a counter, small
/// enough for a byte.
std::string numbered_bytes(std::size_t size) {
  std::string text;
  for (std::uint32_t i = 0; text.size() < size; ++i) {
    text += static_cast<char>(16 + (i >> 8 & 15));
    text += static_cast<char>(i >> 4 & 15);
    text += static_cast<char>(i & 15);
    text += static_cast<char>(32 + (i >> 12));
  }
  text.resize(size);
  return text;
}

/// Other tokens of that kind.
std::string later_bytes(std::size_t size) { return numbered_bytes(80000 + size).substr(80000); }

Config small_config(const std::vector<std::string>& paths) {
  Config config;
  config.model.context = 8;
  config.data.paths = paths;
  config.data.validation_fraction = 0.1;
  config.train.microbatches = 3;
  config.train.microbatch_size = 4;
  return config;
}

Dataset opened(const Config& config) {
  Result<Dataset> dataset = Dataset::open(config);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  return std::move(dataset).value();
}

std::string problem_of(const Config& config) {
  const Result<Dataset> dataset = Dataset::open(config);
  const Status status = dataset.ok() ? dataset.value().scan().status() : dataset.status();
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  return status.message();
}

struct Batch {
  std::vector<std::int32_t> inputs, targets;
  bool operator==(const Batch&) const = default;
};

Batch batch_of(const Dataset& dataset, const Config& config, Purpose purpose, std::int64_t step,
               std::int32_t index) {
  const auto size = static_cast<std::size_t>(config.train.microbatch_size * config.model.context);
  Batch batch{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
  const Status status =
      dataset.microbatch({Step(step), purpose, index}, batch.inputs, batch.targets);
  EXPECT_TRUE(status.ok()) << status.message();
  return batch;
}

/// Which sequence of the stream each row of a batch is; checks all its tokens and targets on the
/// way. A row may have no targets at all.
std::vector<std::size_t> rows_of(const Batch& batch, const std::string& text, std::size_t context) {
  std::vector<std::size_t> sequences;
  for (std::size_t row = 0; row * context < batch.inputs.size(); ++row) {
    const auto first = batch.inputs.begin() + static_cast<std::ptrdiff_t>(row * context);
    const std::string inputs(first, first + static_cast<std::ptrdiff_t>(context));
    const std::size_t position = text.find(inputs);
    EXPECT_NE(position, std::string::npos);
    EXPECT_EQ(position % context, 0u);
    for (std::size_t t = 0; t < context; ++t) {
      if (batch.targets[row * context] == kernels::kNoTarget) {
        EXPECT_EQ(batch.targets[row * context + t], kernels::kNoTarget);
        continue;
      }
      EXPECT_EQ(batch.targets[row * context + t],
                static_cast<unsigned char>(text[position + t + 1]));
    }
    sequences.push_back(position / context);
  }
  return sequences;
}

std::vector<std::size_t> train_order(const Dataset& dataset, const Config& config,
                                     const std::string& text, std::int64_t steps) {
  std::vector<std::size_t> order;
  for (std::int64_t step = 1; step <= steps; ++step) {
    for (std::int32_t index = 0; index < config.train.microbatches; ++index) {
      const Batch batch = batch_of(dataset, config, Purpose::train, step, index);
      for (const std::size_t s : rows_of(batch, text, 8)) order.push_back(s);
    }
  }
  return order;
}

TEST(Dataset, CutsTheStreamIntoSequencesThatOverlapByOne) {
  const DataFolder folder;
  // 800 tokens are 99 sequences of 8: the hundredth has no target for its last position. 801 are
  // 100.
  for (const std::size_t size : {800, 801, 808}) {
    const Config config = small_config({folder.write("a.bin", numbered_bytes(size))});
    const Dataset dataset = opened(config);
    EXPECT_EQ(dataset.tokens(), static_cast<std::int64_t>(size));
    EXPECT_EQ(dataset.train_sequences() + dataset.validation_sequences(), size == 800 ? 99 : 100);
  }
}

TEST(Dataset, APassTakesEveryTrainingSequenceOnceAndNoHeldOutOne) {
  const DataFolder folder;
  const std::string text = numbered_bytes(8 * 500 + 1);
  const Config config = small_config({folder.write("a.bin", text)});
  const Dataset dataset = opened(config);
  const auto pass = static_cast<std::size_t>(dataset.train_sequences());

  std::set<std::size_t> held_out;
  for (std::int32_t i = 0; i < dataset.validation_microbatches(); ++i) {
    const Batch batch = batch_of(dataset, config, Purpose::validate, 1, i);
    const std::vector<std::size_t> rows = rows_of(batch, text, 8);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (batch.targets[row * 8] == kernels::kNoTarget) continue;
      EXPECT_TRUE(held_out.insert(rows[row]).second) << "held-out sequences come once";
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(held_out.size()), dataset.validation_sequences());

  const auto order = train_order(dataset, config, text, 200);
  ASSERT_GT(order.size(), 5 * pass);
  std::vector<std::vector<std::size_t>> passes;
  for (std::size_t start = 0; start + pass <= order.size(); start += pass) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(start);
    const std::vector<std::size_t> one(first, first + static_cast<std::ptrdiff_t>(pass));
    const std::set<std::size_t> distinct(one.begin(), one.end());
    EXPECT_EQ(distinct.size(), pass) << "a sequence came twice in a pass";
    for (const std::size_t s : distinct) EXPECT_EQ(held_out.count(s), 0u) << s;
    passes.push_back(one);
  }
  EXPECT_FALSE(std::is_sorted(passes[0].begin(), passes[0].end()));
  EXPECT_NE(passes[0], passes[1]) << "every pass has its own order";
}

TEST(Dataset, ValidationReadsEveryHeldOutSequenceThoughTheLastMicrobatchIsNotFull) {
  const DataFolder folder;
  const std::string text = numbered_bytes(8 * 500 + 1);
  Config config = small_config({folder.write("a.bin", text)});
  for (const std::int64_t size : {1, 4, 7, 64, 1000}) {
    config.train.microbatch_size = std::min<std::int64_t>(size, 100);
    const Dataset dataset = opened(config);
    std::int64_t with_targets = 0;
    for (std::int32_t i = 0; i < dataset.validation_microbatches(); ++i) {
      const Batch batch = batch_of(dataset, config, Purpose::validate, 1, i);
      const auto missing = std::ranges::count(batch.targets, kernels::kNoTarget);
      EXPECT_LT(missing, std::ssize(batch.targets)) << "some sequence is in each microbatch";
      EXPECT_TRUE(missing == 0 || i + 1 == dataset.validation_microbatches());
      EXPECT_TRUE(std::ranges::all_of(batch.inputs, [](std::int32_t t) { return t >= 0; }));
      with_targets += std::ssize(batch.targets) - missing;
    }
    EXPECT_EQ(with_targets, dataset.validation_tokens());
    EXPECT_EQ(with_targets, dataset.validation_sequences() * 8);
  }
}

TEST(Dataset, AMicrobatchIsAFunctionOfSeedStepAndIndexAlone) {
  const DataFolder folder;
  const std::string text = numbered_bytes(4001);
  Config config = small_config({folder.write("a.bin", text)});
  const Dataset dataset = opened(config);
  const Dataset again = opened(config);
  const Batch late = batch_of(dataset, config, Purpose::train, 1000000007, 2);
  EXPECT_EQ(late, batch_of(again, config, Purpose::train, 1000000007, 2));
  EXPECT_EQ(batch_of(dataset, config, Purpose::train, 0, 1),
            batch_of(dataset, config, Purpose::train, 1, 1))
      << "step 0 runs the microbatches of step 1";

  config.train.seed = 2;
  const Dataset other = opened(config);
  EXPECT_NE(train_order(dataset, config, text, 5), train_order(other, config, text, 5));
  EXPECT_EQ(batch_of(dataset, config, Purpose::validate, 1, 0),
            batch_of(other, config, Purpose::validate, 9, 0))
      << "what is held out depends on neither seed nor step";
}

TEST(Dataset, TheCutIntoMicrobatchesDoesNotChangeTheOrder) {
  const DataFolder folder;
  const std::string text = numbered_bytes(4001);
  Config config = small_config({folder.write("a.bin", text)});
  const auto by_12 = train_order(opened(config), config, text, 4);
  config.train.microbatches = 2;
  config.train.microbatch_size = 3;
  EXPECT_EQ(train_order(opened(config), config, text, 8), by_12);
}

TEST(Dataset, SeveralFilesAreOneStream) {
  const DataFolder folder;
  const std::string text = numbered_bytes(3000);
  const Config whole = small_config({folder.write("whole.bin", text)});
  const Config cut = small_config(
      {folder.write("a.bin", text.substr(0, 1)), folder.write("b.bin", text.substr(1, 1500)),
       folder.write("c.bin", text.substr(1501, 3)), folder.write("d.bin", text.substr(1504))});
  const Dataset a = opened(whole), b = opened(cut);
  EXPECT_EQ(a.scan().value(), b.scan().value());
  EXPECT_EQ(a.scan().value(), hash_bytes(text.data(), text.size()));
  EXPECT_EQ(a.tokens(), b.tokens());
  EXPECT_EQ(train_order(a, whole, text, 30), train_order(b, cut, text, 30));
}

TEST(Dataset, HoldsOutTheFractionThatWasAskedFor) {
  const DataFolder folder;
  Config config = small_config({folder.write("a.bin", numbered_bytes(8 * 7000 + 1))});
  for (const double fraction : {0.0, 0.01, 0.1, 0.5}) {
    config.data.validation_fraction = fraction;
    const Dataset dataset = opened(config);
    // Five standard deviations of a binomial count.
    EXPECT_NEAR(static_cast<double>(dataset.validation_sequences()), 7000 * fraction,
                5 * std::sqrt(7000 * fraction * (1 - fraction)));
  }
}

TEST(Dataset, ReadsSixteenBitTokensWithAndWithoutHeader) {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens(801);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{50000});
  std::vector<std::uint16_t> header(512);
  const std::int32_t fields[3] = {20240520, 1, 801};
  std::memcpy(header.data(), fields, sizeof fields);
  std::vector<std::uint16_t> with_header = header;
  with_header.insert(with_header.end(), tokens.begin(), tokens.end());

  Config plain = small_config({folder.write_u16("nanogpt.bin", tokens)});
  plain.data.format = DataFormat::tokens_u16;
  plain.model.vocab = 50801;
  Config headed = plain;
  headed.data.paths = {folder.write_u16("llmc.bin", with_header)};
  const Dataset a = opened(plain), b = opened(headed);
  EXPECT_EQ(a.tokens(), 801);
  EXPECT_EQ(b.tokens(), 801);
  EXPECT_EQ(a.scan().value(), b.scan().value()) << "the header is no data";
  for (std::int32_t index = 0; index < 3; ++index) {
    const Batch batch = batch_of(a, plain, Purpose::train, 1, index);
    EXPECT_EQ(batch, batch_of(b, headed, Purpose::train, 1, index));
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      EXPECT_EQ((batch.inputs[i] - 50000) % 8, static_cast<int>(i % 8));
    }
  }

  headed.model.vocab = 50800;
  EXPECT_EQ(problem_of(headed), "data.paths: " + (folder / "llmc.bin") +
                                    ": token 50800 at byte 2624 is not below model.vocab = 50800");
}

TEST(Dataset, ReadsThirtyTwoBitTokensWithAndWithoutHeader) {
  const DataFolder folder;
  std::vector<std::uint32_t> tokens(801), with_header = {20240801, 7, 801};
  std::iota(tokens.begin(), tokens.end(), 100000u);
  with_header.resize(256);
  with_header.insert(with_header.end(), tokens.begin(), tokens.end());

  Config plain = small_config({folder.write_u32("plain.bin", tokens)});
  plain.data.format = DataFormat::tokens_u32;
  plain.model.vocab = 100801;
  Config headed = plain;
  headed.data.paths = {folder.write_u32("llmc.bin", with_header)};
  const Dataset a = opened(plain), b = opened(headed);
  EXPECT_EQ(a.tokens(), 801);
  EXPECT_EQ(a.scan().value(), b.scan().value()) << "the header is no data";
  const Batch batch = batch_of(a, plain, Purpose::train, 1, 0);
  EXPECT_EQ(batch, batch_of(b, headed, Purpose::train, 1, 0));
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
    EXPECT_EQ((batch.inputs[i] - 100000) % 8, static_cast<int>(i % 8));
  }

  headed.model.vocab = 100800;
  EXPECT_EQ(problem_of(headed),
            "data.paths: " + (folder / "llmc.bin") +
                ": token 100800 at byte 4224 is not below model.vocab = 100800");
  tokens[5] = 0xFFFFFFFF;
  plain.data.paths = {folder.write_u32("huge.bin", tokens)};
  EXPECT_EQ(problem_of(plain),
            "data.paths: " + (folder / "huge.bin") +
                ": token 4294967295 at byte 20 is not below model.vocab = 100801");
}

TEST(Dataset, WarnsOfFilesThatLookLikeAnotherFormat) {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens(801);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(i * i % 900);
  }
  std::string text;
  while (text.size() < 2000) text += "plain words ";
  Config config =
      small_config({folder.write("text.bin", text), folder.write_u16("tokens.bin", tokens)});
  EXPECT_EQ(opened(config).warnings(),
            std::vector<std::string>{"data.paths: " + (folder / "tokens.bin") +
                                     " looks like 16-bit tokens, but is read as data.format = "
                                     "\"bytes\": if it is, set data.format = \"tokens_u16\""});
  config.data.format = DataFormat::tokens_u16;
  config.data.validation_paths = {folder.write("held_out.bin", text)};
  EXPECT_EQ(opened(config).warnings(),
            (std::vector<std::string>{
                "data.paths: " + (folder / "text.bin") +
                    " looks like text, but is read as data.format = \"tokens_u16\": if it is, set "
                    "data.format = \"bytes\"",
                "data.validation_paths: " + (folder / "held_out.bin") +
                    " looks like text, but is read as data.format = \"tokens_u16\": if it is, set "
                    "data.format = \"bytes\""}));
}

TEST(Dataset, WarnsOfValidationOnTrainingFiles) {
  const DataFolder folder;
  const std::string a = folder.write("a.bin", numbered_bytes(2000));
  const std::string b = folder.write("b.bin", numbered_bytes(2000));
  const std::string link = folder / "link.bin";
  std::filesystem::create_hard_link(b, link);
  Config config = small_config({a, b});
  config.data.validation_paths = {folder.write("held_out.bin", numbered_bytes(2000))};
  EXPECT_TRUE(opened(config).warnings().empty());
  config.data.validation_paths = {a, link};
  const std::string end = ": its loss is not that of held-out data";
  EXPECT_EQ(opened(config).warnings(),
            (std::vector<std::string>{
                "data.validation_paths: " + a + " is one of data.paths" + end,
                "data.validation_paths: " + link + " is one of data.paths, as " + b + end}));
}

TEST(Dataset, ReadsANumpyArrayAsItsTokensAlone) {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens(801);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{40});
  const std::string plain = folder.write_u16("plain.bin", tokens);
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (801,), }";
  header.resize(117, ' ');
  const std::string saved = folder.write(
      "saved.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + content_of(plain));
  Config config = small_config({plain}), of_array = small_config({saved});
  for (Config* const one : {&config, &of_array}) {
    one->data.format = DataFormat::tokens_u16;
    one->model.vocab = 1000;
  }
  const Dataset a = opened(config), b = opened(of_array);
  EXPECT_EQ(b.tokens(), 801);
  EXPECT_EQ(a.scan().value(), b.scan().value());
  EXPECT_EQ(batch_of(a, config, Purpose::train, 1, 0), batch_of(b, of_array, Purpose::train, 1, 0));
  EXPECT_TRUE(b.warnings().empty());
}

TEST(Dataset, NamesFilesOfOtherFormats) {
  const DataFolder folder;
  const std::string gzip = folder.write("text.gz", "\x1F\x8B\x08\xFF" + numbered_bytes(4000));
  Config config = small_config({gzip});
  EXPECT_EQ(opened(config).warnings(),
            std::vector<std::string>{"data.paths: " + gzip +
                                     " is compressed by gzip, but is read as data.format = "
                                     "\"bytes\": unpack it (gunzip -k)"});
  config.data.format = DataFormat::tokens_u16;
  config.model.vocab = 65536;
  EXPECT_EQ(problem_of(config),
            "data.paths: " + gzip +
                ": is compressed by gzip, not a file of 16-bit tokens: unpack it (gunzip -k)");
}

TEST(Dataset, DoubtsAFileWhoseTokensExceedTheVocabulary) {
  const DataFolder folder;
  std::vector<std::uint32_t> tokens(1001);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = __builtin_bswap32(static_cast<std::uint32_t>(i * i % 900));
  }
  Config config = small_config({folder.write_u32("swapped.bin", tokens)});
  config.data.format = DataFormat::tokens_u32;
  config.model.vocab = 1000;
  EXPECT_EQ(problem_of(config),
            "data.paths: " + config.data.paths[0] +
                ": token 16777216 at byte 4 is not below model.vocab = 1000; the file looks like "
                "big-endian 32-bit tokens, but is read as data.format = \"tokens_u32\": if it is, "
                "numpy.fromfile(\"OLD\", \">u4\").astype(\"<u4\").tofile(\"NEW\")");
}

TEST(Dataset, ValidatesOnFilesOfTheirOwn) {
  const DataFolder folder;
  const std::string train = numbered_bytes(8 * 500 + 1), held_out = later_bytes(8 * 9 + 3);
  Config config = small_config({folder.write("train.bin", train)});
  config.data.validation_paths = {folder.write("a.bin", held_out.substr(0, 30)),
                                  folder.write("b.bin", held_out.substr(30))};
  const Dataset dataset = opened(config);
  EXPECT_EQ(dataset.train_sequences(), 500) << "none of them is held out";
  EXPECT_EQ(dataset.validation_sequences(), 9);
  EXPECT_EQ(dataset.validation_tokens(), 72);
  ASSERT_EQ(dataset.validation_microbatches(), 3);
  std::vector<std::size_t> rows;
  for (std::int32_t i = 0; i < 3; ++i) {
    for (const std::size_t row :
         rows_of(batch_of(dataset, config, Purpose::validate, 1, i), held_out, 8)) {
      rows.push_back(row);
    }
  }
  EXPECT_EQ(rows, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8}))
      << "in order; rows beyond the last one have no targets";
  const std::set<std::size_t> order = [&] {
    const auto all = train_order(dataset, config, train, 42);  // 504 sequences
    return std::set<std::size_t>(all.begin(), all.end());
  }();
  EXPECT_EQ(order.size(), 500u);

  const Dataset alone =
      Dataset::open_held_out(config, config.data.validation_paths, "--data").value();
  EXPECT_EQ(alone.train_sequences(), 0);
  EXPECT_EQ(batch_of(alone, config, Purpose::validate, 1, 2),
            batch_of(dataset, config, Purpose::validate, 9, 2));
  EXPECT_EQ(alone.scan().value(), hash_bytes(held_out.data(), held_out.size()));
}

TEST(Dataset, TheHashIsOfTheValidationFilesToo) {
  const DataFolder folder;
  Config config = small_config({folder.write("train.bin", numbered_bytes(4001))});
  const std::string path = folder.write("held_out.bin", later_bytes(100));
  const Dataset without = opened(config);
  config.data.validation_paths = {path};
  const Dataset with = opened(config);
  const std::uint64_t hash = with.scan().value();
  EXPECT_NE(hash, without.scan().value());
  EXPECT_NE(with.identity(), without.identity());
  EXPECT_TRUE(with.can_be_read_anew());
  config.data.hash = hex(hash);
  EXPECT_EQ(problem_of(config), "accepted");
  folder.write("held_out.bin", later_bytes(99));
  EXPECT_EQ(problem_of(config).find("data.hash: the data has hash "), 0u);
}

TEST(Dataset, BadValidationFilesAreNamed) {
  const DataFolder folder;
  Config config = small_config({folder.write("train.bin", numbered_bytes(4001))});
  config.data.validation_paths = {folder / "missing.bin"};
  EXPECT_EQ(problem_of(config),
            "data.validation_paths: " + (folder / "missing.bin") + ": No such file or directory");
  config.data.validation_paths = {folder.write("short.bin", "12345678")};
  EXPECT_EQ(problem_of(config),
            "data.validation_paths: too short: 8 tokens; a sequence has model.context + 1 = 9");
  config.data.validation_paths = {folder.write("beyond.bin", later_bytes(100))};
  config.model.vocab = 36;
  EXPECT_EQ(problem_of(config), "data.validation_paths: " + (folder / "beyond.bin") +
                                    ": token 36 at byte 3 is not below model.vocab = 36");
  config.model.vocab = 256;
  config.data.paths = {folder.write("tiny.bin", numbered_bytes(24))};
  EXPECT_EQ(problem_of(config),
            "data.paths: too short: 24 tokens are 2 sequences of model.context + 1 = 9 tokens; "
            "training needs at least train.microbatch_size = 4");
}

TEST(Dataset, HeadersThatContradictTheFileAreRefused) {
  const DataFolder folder;
  Config config = small_config({});
  config.data.format = DataFormat::tokens_u16;
  config.model.vocab = 65536;
  const auto problem_with = [&](std::int32_t version, std::int32_t count) {
    std::vector<std::uint16_t> tokens(512 + 100);
    const std::int32_t fields[3] = {20240520, version, count};
    std::memcpy(tokens.data(), fields, sizeof fields);
    config.data.paths = {folder.write_u16("x.bin", tokens)};
    return problem_of(config);
  };
  const std::string start = "data.paths: " + (folder / "x.bin") + ": ";
  EXPECT_EQ(problem_with(1, 101), start + "its header says 101 tokens, but 100 are there");
  EXPECT_EQ(problem_with(1, 99), start + "its header says 99 tokens, but 100 are there");
  EXPECT_EQ(problem_with(1, -1), start + "its header says -1 tokens, but 100 are there");
  EXPECT_EQ(problem_with(2, 100), start + "has version 2 of llm.c's header, only 1 is known");
}

TEST(Dataset, BadFilesAreNamed) {
  const DataFolder folder;
  const auto problem_with = [&](const std::string& path, DataFormat format) {
    Config config = small_config({folder.write("good.bin", numbered_bytes(2000)), path});
    config.data.format = format;
    config.model.vocab = 65536;
    return problem_of(config);
  };
  const std::string missing = folder / "missing.bin";
  EXPECT_EQ(problem_with(missing, DataFormat::bytes),
            "data.paths: " + missing + ": No such file or directory");
  EXPECT_EQ(problem_with(folder.path(), DataFormat::bytes),
            "data.paths: " + folder.path() + ": it is a folder, not a file");
  EXPECT_EQ(problem_with("/dev/null", DataFormat::bytes),
            "data.paths: /dev/null: it is a device, not a file");
  const std::string empty = folder.write("empty.bin", "");
  EXPECT_EQ(problem_with(empty, DataFormat::bytes), "data.paths: " + empty + ": is empty");
  const std::string odd = folder.write("odd.bin", "abc");
  EXPECT_EQ(
      problem_with(odd, DataFormat::tokens_u16),
      "data.paths: " + odd + ": holds 3 bytes, an odd number, so it is not made of 16-bit tokens");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(problem_with(pipe, DataFormat::bytes),
            "data.paths: " + pipe + ": it is a pipe, not a file");
  const std::string secret = folder.write("secret.bin", "abc");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (geteuid() != 0) {  // root may read everything
    EXPECT_EQ(problem_with(secret, DataFormat::bytes),
              "data.paths: " + secret + ": Permission denied");
  }
  EXPECT_EQ(problem_of(small_config({})), "data.paths: no file is named");
}

TEST(Dataset, TooLittleDataIsRefusedWithTheNumbers) {
  const DataFolder folder;
  Config config = small_config({folder.write("a.bin", numbered_bytes(24))});
  EXPECT_EQ(problem_of(config),
            "data.paths: too short: 24 tokens are 2 sequences of model.context + 1 = 9 tokens, of "
            "which data.validation_fraction = 0.1 holds out 0; training needs at least "
            "train.microbatch_size = 4");
  config.data.paths = {folder.write("one.bin", "x")};
  EXPECT_NE(problem_of(config).find("too short"), std::string::npos);

  config.data.paths = {folder.write("b.bin", numbered_bytes(8 * 40 + 1))};
  config.data.validation_fraction = 0;
  EXPECT_EQ(problem_of(config), "accepted") << "nothing held out, and no validation asked for";
  config.output.validate_every = 10;
  EXPECT_EQ(problem_of(config),
            "data.validation_fraction: too small: 321 tokens are 40 sequences of model.context + 1 "
            "= 9 tokens, of which data.validation_fraction = 0 holds out 0; validation needs at "
            "least 1");
}

TEST(Dataset, TheVocabularyMustHoldEveryByte) {
  const DataFolder folder;
  std::string text(400, 'a');
  text[399] = 'z';
  Config config = small_config({folder.write("a.bin", text)});
  config.model.vocab = 'z' + 1;
  EXPECT_EQ(problem_of(config), "accepted");
  config.model.vocab = 'z';
  EXPECT_EQ(problem_of(config), "data.paths: " + (folder / "a.bin") +
                                    ": token 122 at byte 399 is not below model.vocab = 122");
}

TEST(Dataset, TheFirstTokenBeyondTheVocabularyIsFoundWhereverItIs) {
  const DataFolder folder;
  for (const std::size_t position : {0, 1, 4095, 4096, 9000, 9999}) {
    std::vector<std::uint16_t> tokens(10000, 7);
    tokens[position] = 300;
    tokens[9999] = 301;
    Config config = small_config({folder.write_u16("a.bin", tokens)});
    config.data.format = DataFormat::tokens_u16;
    config.model.vocab = 300;
    const std::string token = position == 9999 ? "301" : "300";
    EXPECT_EQ(problem_of(config), "data.paths: " + (folder / "a.bin") + ": token " + token +
                                      " at byte " + std::to_string(2 * position) +
                                      " is not below model.vocab = 300");
    config.model.vocab = 302;
    EXPECT_EQ(problem_of(config), "accepted");
  }
}

TEST(Dataset, AFileThatIsCutShorterWhileItIsReadIsAnError) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", numbered_bytes(100000));
  const Config config = small_config({path});
  const Dataset dataset = opened(config);
  std::vector<std::int32_t> inputs(32), targets(32);
  const MicrobatchId id{Step(1), Purpose::train, 0};
  ASSERT_TRUE(dataset.microbatch(id, inputs, targets).ok());
  folder.write("other.bin", "replaced by rename, which keeps the mapped file");
  std::filesystem::rename(folder / "other.bin", path);
  ASSERT_TRUE(dataset.microbatch(id, inputs, targets).ok());

  const std::string cut = folder.write("b.bin", numbered_bytes(100000));
  const Dataset other = opened(small_config({cut}));
  std::filesystem::resize_file(cut, 50000);
  const Status status = other.microbatch(id, inputs, targets);
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_EQ(status.message(),
            "data.paths: " + cut + " was changed since the run began: restore it, then resume");
}

// Such as by `cat other 1<> a.bin`: what is read then is not what was hashed.
TEST(Dataset, AFileThatIsWrittenToWhileItIsReadIsAnError) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", numbered_bytes(100000));
  const Dataset dataset = opened(small_config({path}));
  std::vector<std::int32_t> inputs(32), targets(32);
  const MicrobatchId id{Step(1), Purpose::train, 0};
  ASSERT_TRUE(dataset.microbatch(id, inputs, targets).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the clock of files is coarse
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "x";
  const Status status = dataset.microbatch(id, inputs, targets);
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_EQ(status.message(),
            "data.paths: " + path + " was changed since the run began: restore it, then resume");
}

// Such tokens would be looked up behind the end of the table.
TEST(Dataset, TokensBeyondTheVocabularyAreAnErrorAlsoWhereTheTimeOfTheFileDoesNotTell) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", std::string(100000, 'a'));
  Config config = small_config({path});
  config.model.vocab = 100;
  const Dataset dataset = opened(config);
  const auto written = std::filesystem::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << std::string(100000, '~');
  std::filesystem::last_write_time(path, written);
  std::vector<std::int32_t> inputs(32), targets(32);
  const Status status = dataset.microbatch({Step(1), Purpose::train, 0}, inputs, targets);
  EXPECT_EQ(status.code(), ExitStatus::stopped);
  EXPECT_EQ(status.message(),
            "data.paths: changed since the run began: token 126 is not below model.vocab = 100; "
            "restore the files, then resume");
}

// By it ranks of a host know that one of them has read what the others see.
TEST(Dataset, HasTheIdentityOfItsFiles) {
  const DataFolder folder;
  const std::string text = numbered_bytes(1000);
  const std::string path = folder.write("a.bin", text);
  const auto identity_of = [](const std::vector<std::string>& paths) {
    return opened(small_config(paths)).identity();
  };
  const std::string identity = identity_of({path});
  EXPECT_NE(identity, "");
  EXPECT_EQ(identity_of({path}), identity);
  EXPECT_NE(identity_of({folder.write("b.bin", text)}), identity) << "a copy";
  EXPECT_NE(identity_of({path, path}), identity);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(identity_of({path}), identity) << "it may have changed";
}

TEST(Dataset, OtherDataThanTheDeckAsksForIsRefused) {
  const DataFolder folder;
  Config config = small_config({folder.write("a.bin", numbered_bytes(1000))});
  const std::string hash = hex(opened(config).scan().value());
  config.data.hash = hash;
  EXPECT_EQ(problem_of(config), "accepted");
  folder.write("a.bin", numbered_bytes(999));
  EXPECT_EQ(problem_of(config), "data.hash: the data has hash " +
                                    hex(hash_bytes(numbered_bytes(999).data(), 999)) +
                                    ", but the deck asks for " + hash);
}

}  // namespace
}  // namespace swarmpi::dataset_test
