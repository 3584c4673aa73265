#include "cc/tf/datasets/tf_record_example_dataset.h"

#include <string>
#include <utility>

#include "cc/tf/datasets/record_filter.h"
#include "tensorflow/core/graph/graph_def_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::DataTypeVector;
using tensorflow::Node;
using tensorflow::data::DatasetBase;
using tensorflow::data::SerializationContext;
using TfStatus = tensorflow::Status;

TFRecordExampleDataset::TFRecordExampleDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* files,
                                               RecordBatchOptions options, ElementParser::Config features,
                                               bool single_examples, std::shared_ptr<const ElementParser> parser)
    : RecordBatchDataset(ctx, "TfBoosterTFRecordExample", files, std::move(options)),
      features_(std::move(features)),
      single_examples_(single_examples),
      parser_(std::move(parser)) {}

TfStatus TFRecordExampleDataset::AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                                    Node** output) const {
  const RecordPipeline& pipeline = options().pipeline;
  std::vector<Node*> inputs;
  Attributes attributes;
  TF_RETURN_IF_ERROR(AddPipeline(ctx, b, &inputs, &attributes));
  inputs.resize(inputs.size() + 2);
  TF_RETURN_IF_ERROR(b->AddVector(std::vector<int64_t>{pipeline.batch.num_shards, pipeline.batch.shard}, &inputs[8]));
  TF_RETURN_IF_ERROR(b->AddScalar(options().num_parallel_calls, &inputs[9]));

  std::vector<std::string> dense_keys, sparse_keys, ragged_keys;
  std::vector<DataType> dense_types, sparse_types, ragged_types, split_types;
  std::vector<tensorflow::PartialTensorShape> dense_shapes;
  std::vector<Node*> defaults;
  for (const auto& dense : features_.dense) {
    dense_keys.emplace_back(dense.feature_name);
    dense_types.push_back(dense.dtype);
    dense_shapes.push_back(dense.shape);
    defaults.emplace_back();
    TF_RETURN_IF_ERROR(b->AddTensor(dense.default_value, &defaults.back()));
  }
  for (const auto& sparse : features_.sparse) {
    sparse_keys.emplace_back(sparse.feature_name);
    sparse_types.push_back(sparse.dtype);
  }
  for (const auto& ragged : features_.ragged) {
    ragged_keys.emplace_back(ragged.feature_name);
    ragged_types.push_back(ragged.dtype);
    split_types.push_back(ragged.splits_dtype);
  }
  std::vector<tensorflow::NameAttrList> filters;
  std::vector<std::string> filter_keys;
  std::vector<Node*> filter_arguments;
  DataTypeVector filter_types;
  for (const RecordStage& stage : pipeline.stages) {
    if (stage.filter == nullptr) continue;
    std::vector<Node*> captured;
    DataTypeVector types;
    TF_RETURN_IF_ERROR(stage.filter->predicate->AddToGraph(ctx, b, &captured, &types));
    filters.push_back(stage.filter->predicate->func());
    filter_keys.insert(filter_keys.end(), stage.filter->keys.begin(), stage.filter->keys.end());
    filter_arguments.insert(filter_arguments.end(), captured.begin(), captured.end());
    filter_types.insert(filter_types.end(), types.begin(), types.end());
  }
  std::vector<std::pair<size_t, Node*>> numbered;
  for (size_t i = 0; i < inputs.size(); ++i) numbered.emplace_back(i, inputs[i]);
  const Attributes own = {{"filters", b->BuildAttrValue(filters)},
                          {"filter_keys", b->BuildAttrValue(filter_keys)},
                          {"Tfilter_arguments", b->BuildAttrValue(filter_types)},
                          {"verify_crc", b->BuildAttrValue(pipeline.verify_crc)},
                          {"batch_errors_count", b->BuildAttrValue(pipeline.batch.errors_count)},
                          {"deterministic", b->BuildAttrValue(options().deterministic)},
                          {"single_examples", b->BuildAttrValue(single_examples_)},
                          {"sparse_keys", b->BuildAttrValue(sparse_keys)},
                          {"sparse_types", b->BuildAttrValue(sparse_types)},
                          {"dense_keys", b->BuildAttrValue(dense_keys)},
                          {"Tdense", b->BuildAttrValue(dense_types)},
                          {"dense_shapes", b->BuildAttrValue(dense_shapes)},
                          {"ragged_keys", b->BuildAttrValue(ragged_keys)},
                          {"ragged_value_types", b->BuildAttrValue(ragged_types)},
                          {"ragged_split_types", b->BuildAttrValue(split_types)}};
  attributes.insert(attributes.end(), own.begin(), own.end());
  return b->AddDataset(this, numbered, {{inputs.size(), defaults}, {inputs.size() + 1, filter_arguments}}, attributes,
                       output);
}

}  // namespace tf_booster
