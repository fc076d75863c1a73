#include "core/archive.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/opaque_variant_members.hpp"

namespace swarmpi {

struct Leaf {
  bool flag = false;
  double number = 0;
};
SWARMPI_FIELDS(Leaf, flag, number);

enum class Colour : std::uint8_t { red, green };
constexpr auto names_of(Colour) { return names({"red", "green"}); }

struct Paint {
  Colour colour = Colour::red;
};
SWARMPI_FIELDS(Paint, colour);

struct Label {
  std::string text;
};
SWARMPI_FIELDS(Label, text);

struct Peers {
  std::vector<PeerId> ids;
};
SWARMPI_FIELDS(Peers, ids);

struct LeafOrMicrobatch : KindTable<KindRow<0, Leaf>, KindRow<4, MicrobatchId>> {
  static constexpr std::size_t kBytes = 24;
};
template class OpaqueVariant<LeafOrMicrobatch>;

struct Tree {
  std::string name;
  std::vector<Leaf> leaves;
  std::map<StageId, std::int16_t> by_stage;
  std::optional<Purpose> purpose;
  std::shared_ptr<const Leaf> shared;
  OpaqueVariant<LeafOrMicrobatch> kind;
};
SWARMPI_FIELDS(Tree, name, leaves, by_stage, purpose, shared, kind);

}  // namespace swarmpi

namespace swarmpi::archive_test {
namespace {

Tree odd_tree() {
  Tree tree;
  tree.name = std::string("a\0b", 3);
  tree.leaves = {{true, -0.0}, {false, std::numeric_limits<double>::infinity()}};
  tree.by_stage = {{StageId(-1), std::int16_t{-2}}, {StageId(3), std::int16_t{32767}}};
  tree.purpose = Purpose::validate;
  tree.shared = std::make_shared<const Leaf>(Leaf{true, 0.5});
  tree.kind = MicrobatchId{Step(1), Purpose::train, 2};
  return tree;
}

TEST(Archive, PeersInOrderTakeAByteEach) {
  Peers peers;
  for (int id = 3; id < 1003; id += 8) peers.ids.emplace_back(id);
  EXPECT_EQ(to_bytes(peers).size(), sizeof(std::uint64_t) + 125);
  EXPECT_EQ(from_bytes<Peers>(to_bytes(peers)).value().ids, peers.ids);
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  peers.ids = {PeerId(kMost), PeerId(kLeast), PeerId(kMost), PeerId(-1), PeerId(0), PeerId(64)};
  EXPECT_EQ(from_bytes<Peers>(to_bytes(peers)).value().ids, peers.ids);
}

TEST(Archive, APeerThatDoesNotFitIsRefused) {
  const auto read = [](std::vector<std::uint8_t> groups) {
    std::string bytes(sizeof(std::uint64_t), '\0');
    bytes[0] = 1;
    for (const std::uint8_t group : groups) bytes += static_cast<char>(group);
    return from_bytes<Peers>(bytes).status();
  };
  EXPECT_TRUE(read({6}).ok());
  EXPECT_FALSE(read({0x80}).ok()) << "truncated";
  EXPECT_EQ(read({0x80, 0x80, 0x80, 0x80, 0x10}).message(),
            "invalid difference of ids (4294967296) in Peers");
  EXPECT_FALSE(read(std::vector<std::uint8_t>(10, 0xff)).ok());
}

TEST(Archive, WhatIsWrittenIsRead) {
  const std::string bytes = to_bytes(odd_tree());
  const Result<Tree> tree = from_bytes<Tree>(bytes);
  ASSERT_TRUE(tree.ok()) << tree.status().message();
  EXPECT_EQ(to_bytes(tree.value()), bytes);
  EXPECT_EQ(tree.value().name, odd_tree().name);
  EXPECT_EQ(tree.value().by_stage, odd_tree().by_stage);
  EXPECT_EQ(tree.value().purpose, Purpose::validate);
  EXPECT_EQ(tree.value().shared->number, 0.5);
  EXPECT_EQ(get<MicrobatchId>(tree.value().kind), get<MicrobatchId>(odd_tree().kind));
}

TEST(Archive, BytesAreLittleEndianAndFieldAfterField) {
  EXPECT_EQ(to_bytes(MicrobatchId{Step(0x0102), Purpose::validate, 3}),
            std::string("\2\1\0\0\0\0\0\0"
                        "\1"
                        "\3\0\0\0",
                        13));
}

TEST(Archive, AnEnumeratorWithANameTravelsAsItsName) {
  const std::string bytes = to_bytes(Paint{Colour::green});
  EXPECT_EQ(bytes, to_bytes(Label{"green"}));
  EXPECT_EQ(from_bytes<Paint>(bytes).value().colour, Colour::green);
  EXPECT_EQ(from_bytes<Paint>(to_bytes(Label{"blue"})).status().message(),
            "invalid name (`blue`) in Paint");
}

TEST(Archive, AnErrorNamesTheStructThatIsRead) {
  const std::string bytes = to_bytes(Tree());
  EXPECT_EQ(from_bytes<Tree>(std::string_view()).status().message(), "truncated data in Tree");
  EXPECT_EQ(from_bytes<Tree>(std::string(8, '\xff')).status().message(),
            "invalid list length (18446744073709551615) in Tree");
  EXPECT_EQ(from_bytes<Tree>(bytes + "x").status().message(), "1 bytes after the end in Leaf")
      << "the variant is read last";
  std::string damaged = bytes;
  damaged[bytes.size() - sizeof(double) - 2] = 7;  // the variant's kind
  EXPECT_EQ(from_bytes<Tree>(damaged).status().message(), "invalid kind (7) in Tree");
}

TEST(Archive, APayloadTravelsBesideTheBytes) {
  const PayloadRef payload = std::make_shared<const Payload>(3);
  ArchiveWriter writer;
  writer(payload);
  const std::vector<std::byte> bytes = writer.take_bytes();
  EXPECT_EQ(bytes.size(), 1U);
  EXPECT_EQ(writer.take_payload(), payload);
  PayloadRef read;
  ArchiveReader reader(bytes, payload);
  reader(read);
  EXPECT_EQ(read, payload);
  EXPECT_EQ(reader.error(), "");
}

}  // namespace
}  // namespace swarmpi::archive_test
