#include "cc/tf/datasets/record_batch_dataset.h"

#include "cc/tf/datasets/record_batch_iterator.h"
#include "cc/tf/datasets/record_filter.h"
#include "tensorflow/core/data/name_utils.h"
#include "tensorflow/core/graph/graph_def_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::Node;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::SerializationContext;
using TfStatus = tensorflow::Status;

RecordBatchDataset::RecordBatchDataset(tensorflow::OpKernelContext* ctx, std::string type, const DatasetBase* files,
                                       RecordBatchOptions options)
    : DatasetBase(tensorflow::data::DatasetContext(ctx)),
      type_(std::move(type)),
      files_(files),
      options_(std::move(options)) {
  files_->Ref();
}

RecordBatchDataset::~RecordBatchDataset() { files_->Unref(); }

std::unique_ptr<IteratorBase> RecordBatchDataset::MakeIteratorInternal(const std::string& prefix) const {
  return MakeRecordBatchIterator(this, tensorflow::data::name_utils::IteratorPrefix(type_, prefix));
}

int64_t RecordBatchDataset::CardinalityInternal(tensorflow::data::CardinalityOptions options) const {
  return options_.pipeline.Cardinality(/*no_files=*/files_->Cardinality(options) == 0);
}

TfStatus RecordBatchDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->push_back(files_);
  return tensorflow::OkStatus();
}

TfStatus RecordBatchDataset::CheckExternalState() const {
  for (const RecordStage& stage : options_.pipeline.stages) {
    if (stage.filter != nullptr) TF_RETURN_IF_ERROR(stage.filter->predicate->CheckExternalState());
  }
  return files_->CheckExternalState();
}

TfStatus RecordBatchDataset::AddPipeline(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                         std::vector<Node*>* inputs, Attributes* attributes) const {
  const RecordPipeline& pipeline = options_.pipeline;
  std::vector<std::string> stages;
  std::vector<int64_t> stage_arguments;
  pipeline.GetStages(/*for_copy=*/ctx->is_graph_rewrite(), &stages, &stage_arguments);
  inputs->resize(8);
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, files_, &(*inputs)[0]));
  TF_RETURN_IF_ERROR(b->AddScalar(tensorflow::tstring(pipeline.compression), &(*inputs)[1]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.block_bytes, &(*inputs)[2]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.interleave.cycle_length, &(*inputs)[3]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.interleave.block_length, &(*inputs)[4]));
  TF_RETURN_IF_ERROR(b->AddVector(stage_arguments, &(*inputs)[5]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.batch.batch_size, &(*inputs)[6]));
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.batch.drop_remainder, &(*inputs)[7]));
  attributes->emplace_back("stages", b->BuildAttrValue(stages));
  attributes->emplace_back("errors_count", b->BuildAttrValue(pipeline.interleave.errors_count));
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
