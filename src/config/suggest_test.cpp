#include "config/suggest.hpp"

#include <gtest/gtest.h>

namespace swarmpi::suggest_test {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("steps", "steps"), 0);
  EXPECT_EQ(edit_distance("STEPS", "steps"), 0);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1) << "a swap is one edit";
  EXPECT_EQ(edit_distance("lrr", "lr"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, OnlyWhatCanBeMeant) {
  EXPECT_EQ(nearest("cosin", {"cosine", "linear", "constant"}), "cosine");
  EXPECT_EQ(nearest("linaer", {"cosine", "linear", "constant"}), "linear");
  EXPECT_EQ(nearest("quadratic", {"cosine", "linear", "constant"}), "");
  EXPECT_EQ(nearest("fp23", {"fp32", "bf16"}), "fp32");
}

TEST(SuggestKey, SameNameElsewhereThenSimilarHereThenSimilarElsewhere) {
  EXPECT_EQ(suggest_key("train", "layers"), "; did you mean model.layers?");
  EXPECT_EQ(suggest_key("train", "Lr"), "; did you mean train.lr?");
  EXPECT_EQ(suggest_key("train", "batch_size"), "; did you mean train.microbatch_size?");
  EXPECT_EQ(suggest_key("train", "n_layers"), "; did you mean model.layers?");
  EXPECT_EQ(suggest_key("model", "qqqqqq"), "");
}

TEST(SuggestKey, NamesOfOtherProgramsAreKnown) {
  for (const char* name : {"learning_rate", "Learning_Rate"}) {
    EXPECT_EQ(suggest_key("train", name), "; did you mean train.lr?");
    EXPECT_EQ(suggest_key("", name), "; did you mean train.lr?");
  }
  EXPECT_EQ(suggest_key("model", "n_layer"), "; did you mean model.layers?");
  EXPECT_EQ(suggest_key("model", "n_embd"), "; did you mean model.width?");
  EXPECT_EQ(suggest_key("train", "block_size"), "; did you mean model.context?");
  EXPECT_EQ(suggest_key("train", "gradient_accumulation_steps"),
            "; did you mean train.microbatches?");
}

}  // namespace
}  // namespace swarmpi::suggest_test
