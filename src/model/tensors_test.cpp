#include "model/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace swarmpi::tensors_test {
namespace {

ModelConfig deck() {
  ModelConfig model;
  model.layers = 6;
  model.width = 32;
  model.heads = 4;
  model.ffn = 80;
  model.context = 20;
  model.vocab = 100;
  return model;
}

TEST(Tensors, AreNumberedAndPlacedWithoutGaps) {
  const auto tensors = model_tensors(deck());
  ASSERT_EQ(tensors.size(), 2u + 6 * 12 + 3);
  std::int64_t next = 0;
  std::set<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].id, static_cast<std::int32_t>(i));
    EXPECT_EQ(tensors[i].first_index, next);
    next += tensors[i].count();
    names.insert(tensors[i].name);
  }
  EXPECT_EQ(names.size(), tensors.size());
  EXPECT_EQ(parameter_count(deck()), next);
  EXPECT_EQ(tensors[0].name, "embedding.tokens");
  EXPECT_EQ(tensors[1].name, "embedding.positions");
  EXPECT_EQ(tensors[2 + 3 * 12 + 2].name, "layer.3.qkv.weight");
  EXPECT_EQ(tensors[2 + 3 * 12 + 2].rows, 96);
  EXPECT_EQ(tensors.back().name, "head.weight");
}

TEST(Tensors, CountWhatGpt2Has) {
  ModelConfig gpt2;
  gpt2.layers = 12;
  gpt2.width = 768;
  gpt2.heads = 12;
  gpt2.context = 1024;
  gpt2.vocab = 50257;
  EXPECT_EQ(parameter_count(gpt2), 124439808 + 50257 * 768);  // GPT-2 and its head, untied
}

TEST(Tensors, SharedGroupsHaveOneSetEach) {
  ModelConfig model = deck();
  model.shared_groups = 2;
  const auto tensors = model_tensors(model);
  EXPECT_EQ(tensors.size(), 2u + 2 * 12 + 3);
  EXPECT_EQ(tensors[2 + 12].name, "layer.1.norm1.weight");
}

TEST(Partition, StagesTogetherHoldEveryTensorAndLayerOnce) {
  for (const std::int64_t groups : {0, 3}) {
    ModelConfig model = deck();
    model.shared_groups = groups;
    for (std::int64_t stages = 1; stages <= model.layer_sets(); ++stages) {
      const auto specs = partition_model(model, stages);
      ASSERT_EQ(specs.size(), static_cast<std::size_t>(stages));
      std::int64_t layer = 0;
      std::int32_t id = -1;
      std::size_t tensors = 0;
      double flops = 0;
      for (const StageSpec& spec : specs) {
        EXPECT_EQ(spec.first_layer, layer);
        EXPECT_GT(spec.end_layer, spec.first_layer);
        if (groups > 0) {
          EXPECT_EQ(spec.end_layer % 2, 0);
        }
        layer = spec.end_layer;
        tensors += spec.tensors.size();
        flops += spec.flops_per_token;
        for (const TensorInfo& tensor : spec.tensors) {
          EXPECT_GT(tensor.id, id);
          id = tensor.id;
        }
      }
      EXPECT_EQ(layer, model.layers);
      EXPECT_EQ(tensors, model_tensors(model).size());
      EXPECT_TRUE(specs.front().has_embedding);
      EXPECT_TRUE(specs.back().has_head);
      EXPECT_DOUBLE_EQ(flops, partition_model(model, 1).front().flops_per_token);
    }
  }
}

TEST(Partition, AStageHoldsTheTensorsOfItsLayers) {
  for (const std::int64_t groups : {0, 3}) {
    ModelConfig model = deck();
    model.shared_groups = groups;
    const std::int64_t layers_per_set = model.layers / model.layer_sets();
    for (const StageSpec& spec : partition_model(model, 3)) {
      for (const TensorInfo& tensor : spec.tensors) {
        if (tensor.layer_set >= 0) {
          EXPECT_GE(tensor.layer_set * layers_per_set, spec.first_layer) << tensor.name;
          EXPECT_LT(tensor.layer_set * layers_per_set, spec.end_layer) << tensor.name;
        } else if (tensor.name.starts_with("embedding.")) {
          EXPECT_TRUE(spec.has_embedding) << tensor.name;
        } else {
          EXPECT_TRUE(spec.has_head) << tensor.name;
        }
      }
    }
  }
}

TEST(Partition, ALargeVocabularyLeavesTheLastStageFewerLayers) {
  ModelConfig model = deck();
  EXPECT_EQ(partition_model(model, 2).back().first_layer, 3);
  model.vocab = 1000;
  EXPECT_EQ(partition_model(model, 2).back().first_layer, 5);
}

TEST(Tensors, OfLearnedBoundariesComeLastAndBelongToBothSidesOfACut) {
  Config config;
  config.model = deck();
  config.model.shared_groups = 0;
  config.swarm.stages = 3;
  const auto plain = model_tensors(config);
  config.swarm.boundary = Boundary::bottleneck;
  config.swarm.boundary_factor = 4;
  const auto tensors = model_tensors(config);
  ASSERT_EQ(tensors.size(), plain.size() + 2 * 6);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(tensors[i].name, plain[i].name);
    EXPECT_EQ(tensors[i].first_index, plain[i].first_index);
  }
  const TensorInfo& first = tensors[plain.size()];
  EXPECT_EQ(first.name, "boundary.0.narrowing.weight");
  EXPECT_EQ(first.first_index, plain.back().first_index + plain.back().count());
  EXPECT_EQ(first.rows, config.model.width / 4);
  const std::int64_t weights = config.model.width * config.model.width / 4;
  EXPECT_EQ(parameter_count(config) - parameter_count(config.model),
            2 * (2 * weights + 3 * config.model.width / 4 + config.model.width));

  const auto specs = partition_model(config);
  const auto last_name = [&](std::size_t stage) { return specs[stage].tensors.back().name; };
  EXPECT_EQ(last_name(0), "boundary.0.norm.bias");
  EXPECT_EQ(last_name(1), "boundary.1.norm.bias");
  EXPECT_EQ(last_name(2), "boundary.1.widening.bias");
  std::set<std::int32_t> ids;
  double flops = 0;
  for (const StageSpec& spec : specs) {
    EXPECT_TRUE(std::is_sorted(spec.tensors.begin(), spec.tensors.end(),
                               [](const auto& a, const auto& b) { return a.id < b.id; }));
    for (const TensorInfo& tensor : spec.tensors) ids.insert(tensor.id);
    flops += spec.flops_per_token;
  }
  EXPECT_EQ(ids.size(), tensors.size());
  EXPECT_DOUBLE_EQ(flops, partition_model(config.model, 1).front().flops_per_token +
                              6.0 * 4 * static_cast<double>(weights));
  config.swarm.boundary = Boundary::maxout;
  EXPECT_EQ(model_tensors(config).size(), plain.size() + 2 * 2);
  config.swarm.stages = 1;
  EXPECT_EQ(model_tensors(config).size(), plain.size());
}

TEST(Partition, TheDecksCutsComeBeforeTheDeal) {
  Config config;
  config.model = deck();
  config.model.shared_groups = 0;
  config.model.layers = 6;
  config.swarm.stages = 3;
  const auto dealt = partition_model(config);
  EXPECT_EQ(cuts_of(dealt), (std::vector<std::int64_t>{2, 4}));
  config.swarm.cuts = {1, 2};
  const auto specs = partition_model(config);
  EXPECT_EQ(cuts_of(specs), config.swarm.cuts);
  EXPECT_EQ(specs[1].first_layer, 1);
  EXPECT_EQ(specs[1].end_layer, 2);
  double flops = 0;
  std::size_t tensors = 0;
  for (const StageSpec& spec : specs) {
    flops += spec.flops_per_token;
    tensors += spec.tensors.size();
  }
  EXPECT_DOUBLE_EQ(flops, partition_model(config.model, 1).front().flops_per_token);
  EXPECT_EQ(tensors, model_tensors(config.model).size());
  config.model.shared_groups = 3;
  config.swarm.cuts = {2, 4};
  EXPECT_EQ(cuts_of(partition_model(config)), config.swarm.cuts);
}

}  // namespace
}  // namespace swarmpi::tensors_test
