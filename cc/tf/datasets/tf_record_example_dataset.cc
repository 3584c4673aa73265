#include "cc/tf/datasets/tf_record_example_dataset.h"

#include <utility>

#include "cc/tf/datasets/record_filter.h"
#include "cc/tf/datasets/tf_record_example_iterator.h"
#include "tensorflow/core/data/name_utils.h"
#include "tensorflow/core/graph/graph_def_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::DataTypeVector;
using tensorflow::Node;
using tensorflow::Tensor;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::SerializationContext;
using TfStatus = tensorflow::Status;

TFRecordExampleDataset::TFRecordExampleDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* files,
                                               TFRecordExampleOptions options,
                                               std::shared_ptr<const ElementParser> parser)
    : DatasetBase(tensorflow::data::DatasetContext(ctx)),
      files_(files),
      options_(std::move(options)),
      parser_(std::move(parser)) {
  files_->Ref();
}

TFRecordExampleDataset::~TFRecordExampleDataset() { files_->Unref(); }

std::unique_ptr<IteratorBase> TFRecordExampleDataset::MakeIteratorInternal(const std::string& prefix) const {
  return MakeTFRecordExampleIterator(this, tensorflow::data::name_utils::IteratorPrefix(kType, prefix));
}

int64_t TFRecordExampleDataset::CardinalityInternal(tensorflow::data::CardinalityOptions options) const {
  return options_.pipeline.Cardinality(/*no_files=*/files_->Cardinality(options) == 0);
}

TfStatus TFRecordExampleDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->push_back(files_);
  return tensorflow::OkStatus();
}

TfStatus TFRecordExampleDataset::CheckExternalState() const {
  for (const RecordStage& stage : options_.pipeline.stages) {
    if (stage.filter != nullptr) TF_RETURN_IF_ERROR(stage.filter->predicate->CheckExternalState());
  }
  return files_->CheckExternalState();
}

TfStatus TFRecordExampleDataset::AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                                    Node** output) const {
  const RecordPipeline& pipeline = options_.pipeline;
  std::vector<std::string> stages;
  std::vector<int64_t> stage_arguments;
  pipeline.GetStages(/*for_copy=*/ctx->is_graph_rewrite(), &stages, &stage_arguments);
  std::vector<Node*> inputs(10);
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, files_, &inputs[0]));
  TF_RETURN_IF_ERROR(b->AddScalar(tensorflow::tstring(pipeline.compression), &inputs[1]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.block_bytes, &inputs[2]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.interleave.cycle_length, &inputs[3]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.interleave.block_length, &inputs[4]));
  TF_RETURN_IF_ERROR(b->AddVector(stage_arguments, &inputs[5]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.batch.batch_size, &inputs[6]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.batch.drop_remainder, &inputs[7]));
  TF_RETURN_IF_ERROR(b->AddVector(std::vector<int64_t>{pipeline.batch.num_shards, pipeline.batch.shard}, &inputs[8]));
  TF_RETURN_IF_ERROR(b->AddScalar(options_.num_parallel_calls, &inputs[9]));

  std::vector<std::string> dense_keys, sparse_keys, ragged_keys;
  std::vector<DataType> dense_types, sparse_types, ragged_types, split_types;
  std::vector<tensorflow::PartialTensorShape> dense_shapes;
  std::vector<Node*> defaults;
  for (const auto& dense : options_.features.dense) {
    dense_keys.emplace_back(dense.feature_name);
    dense_types.push_back(dense.dtype);
    dense_shapes.push_back(dense.shape);
    defaults.emplace_back();
    TF_RETURN_IF_ERROR(b->AddTensor(dense.default_value, &defaults.back()));
  }
  for (const auto& sparse : options_.features.sparse) {
    sparse_keys.emplace_back(sparse.feature_name);
    sparse_types.push_back(sparse.dtype);
  }
  for (const auto& ragged : options_.features.ragged) {
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
  return b->AddDataset(this, numbered, {{inputs.size(), defaults}, {inputs.size() + 1, filter_arguments}},
                       {{"stages", b->BuildAttrValue(stages)},
                        {"filters", b->BuildAttrValue(filters)},
                        {"filter_keys", b->BuildAttrValue(filter_keys)},
                        {"Tfilter_arguments", b->BuildAttrValue(filter_types)},
                        {"verify_crc", b->BuildAttrValue(pipeline.verify_crc)},
                        {"errors_count", b->BuildAttrValue(pipeline.interleave.errors_count)},
                        {"batch_errors_count", b->BuildAttrValue(pipeline.batch.errors_count)},
                        {"deterministic", b->BuildAttrValue(options_.deterministic)},
                        {"single_examples", b->BuildAttrValue(options_.single_examples)},
                        {"sparse_keys", b->BuildAttrValue(sparse_keys)},
                        {"sparse_types", b->BuildAttrValue(sparse_types)},
                        {"dense_keys", b->BuildAttrValue(dense_keys)},
                        {"Tdense", b->BuildAttrValue(dense_types)},
                        {"dense_shapes", b->BuildAttrValue(dense_shapes)},
                        {"ragged_keys", b->BuildAttrValue(ragged_keys)},
                        {"ragged_value_types", b->BuildAttrValue(ragged_types)},
                        {"ragged_split_types", b->BuildAttrValue(split_types)}},
                       output);
}

}  // namespace tf_booster
