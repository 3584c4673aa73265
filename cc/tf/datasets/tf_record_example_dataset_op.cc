// The kernel: checks the op's arguments and makes the dataset.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/datasets/record_batch_dataset_op.h"
#include "cc/tf/datasets/record_filter.h"
#include "cc/tf/datasets/tf_record_example_dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::data::CapturedFunction;
using tensorflow::data::DatasetBase;
using tensorflow::data::FunctionMetadata;
using tensorflow::data::ParseScalarArgument;
using tensorflow::data::ParseVectorArgument;
using tensorflow::errors::InvalidArgument;

class TFRecordExampleDatasetOp final : public RecordBatchDatasetOp {
 public:
  explicit TFRecordExampleDatasetOp(OpKernelConstruction* ctx)
      : RecordBatchDatasetOp(ctx, "TFRecordExampleDataset", FileFormat::kTFRecord) {
    options_.pipeline.parses = true;
    OP_REQUIRES_OK(ctx, GetPredicates(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("verify_crc", &options_.pipeline.verify_crc));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("batch_errors_count", &options_.pipeline.batch.errors_count));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("deterministic", &options_.deterministic));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("single_examples", &single_examples_));
    OP_REQUIRES_OK(ctx, GetFeatures(ctx));
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    RecordBatchOptions options = options_;
    ElementParser::Config features = features_;
    DatasetBase* files = nullptr;
    OP_REQUIRES_OK(ctx, GetPipeline(ctx, &files, &options.pipeline));
    OP_REQUIRES_OK(ctx, GetBatchShards(ctx, &options.pipeline));
    OP_REQUIRES_OK(ctx, options.pipeline.Check());
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "num_parallel_calls", &options.num_parallel_calls));
    OP_REQUIRES(ctx, options.num_parallel_calls > 0 || options.num_parallel_calls == tensorflow::data::model::kAutotune,
                InvalidArgument("TFRecordExampleDataset: num_parallel_calls is ", options.num_parallel_calls,
                                "; wanted at least 1, or tf.data.AUTOTUNE"));
    OP_REQUIRES_OK(ctx, GetDefaults(ctx, &features));
    std::unique_ptr<const ElementParser> made;
    using Semantics = ExampleBatchParser::Semantics;
    OP_REQUIRES_OK(ctx,
                   ElementParser::Make(features, single_examples_ ? Semantics::kSingle : Semantics::kBatch, &made));
    const std::shared_ptr<const ElementParser> parser(std::move(made));
    OP_REQUIRES_OK(ctx, AddFilters(ctx, features, parser, &options.pipeline));
    *output = new TFRecordExampleDataset(ctx, files, std::move(options), std::move(features), single_examples_, parser);
  }

 private:
  Status GetFeatures(OpKernelConstruction* ctx) {
    std::vector<std::string> dense_keys, sparse_keys, ragged_keys;
    tensorflow::DataTypeVector dense_types, sparse_types, ragged_types, split_types;
    std::vector<tensorflow::PartialTensorShape> dense_shapes;
    std::vector<bool> variable_length;
    std::vector<std::size_t> strides;
    TF_RETURN_IF_ERROR(ctx->GetAttr("dense_keys", &dense_keys));
    TF_RETURN_IF_ERROR(ctx->GetAttr("Tdense", &dense_types));
    TF_RETURN_IF_ERROR(ctx->GetAttr("dense_shapes", &dense_shapes));
    TF_RETURN_IF_ERROR(ctx->GetAttr("sparse_keys", &sparse_keys));
    TF_RETURN_IF_ERROR(ctx->GetAttr("sparse_types", &sparse_types));
    TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_keys", &ragged_keys));
    TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_value_types", &ragged_types));
    TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_split_types", &split_types));
    if (dense_types.size() != dense_keys.size() || dense_shapes.size() != dense_keys.size() ||
        sparse_types.size() != sparse_keys.size() || ragged_types.size() != ragged_keys.size() ||
        split_types.size() != ragged_keys.size()) {
      return InvalidArgument("TFRecordExampleDataset: each feature needs a name, a type and, if dense, a shape");
    }
    TF_RETURN_IF_ERROR(tensorflow::GetDenseShapes(dense_shapes, &variable_length, &strides));
    auto& features = features_;
    for (size_t i = 0; i < dense_keys.size(); ++i) {
      features.dense.emplace_back(dense_keys[i], dense_types[i], dense_shapes[i], tensorflow::Tensor(),
                                  variable_length[i], strides[i]);
    }
    for (size_t i = 0; i < sparse_keys.size(); ++i) features.sparse.emplace_back(sparse_keys[i], sparse_types[i]);
    for (size_t i = 0; i < ragged_keys.size(); ++i) {
      features.ragged.emplace_back(ragged_keys[i], ragged_types[i], split_types[i]);
    }
    const size_t outputs = dense_keys.size() + sparse_keys.size() + ragged_keys.size();
    if (options_.output_types.size() != outputs || options_.output_shapes.size() != outputs) {
      return InvalidArgument("TFRecordExampleDataset: there are ", outputs, " features but ",
                             options_.output_types.size(), " output types and ", options_.output_shapes.size(),
                             " output shapes");
    }
    return OkStatus();
  }

  Status GetPredicates(OpKernelConstruction* ctx) {
    std::vector<tensorflow::NameAttrList> functions;
    TF_RETURN_IF_ERROR(ctx->GetAttr("filters", &functions));
    TF_RETURN_IF_ERROR(ctx->GetAttr("filter_keys", &filter_keys_));
    for (auto& function : functions) {
      predicates_.emplace_back();
      TF_RETURN_IF_ERROR(FunctionMetadata::Create(ctx, std::move(function), /*params=*/{}, &predicates_.back()));
    }
    return OkStatus();
  }

  // Gives the stages that are filters what they ask.
  Status AddFilters(OpKernelContext* ctx, const ElementParser::Config& features,
                    const std::shared_ptr<const ElementParser>& parser, RecordPipeline* pipeline) const {
    OpInputList captured;
    TF_RETURN_IF_ERROR(ctx->input_list("filter_arguments", &captured));
    size_t filter = 0, key = 0;
    int argument = 0;
    for (RecordStage& stage : pipeline->stages) {
      if (stage.name != "filter") continue;
      const auto keys = static_cast<size_t>(stage.arguments[0]);
      const auto arguments = static_cast<int>(stage.arguments[1]);
      if (filter == predicates_.size() || keys > filter_keys_.size() - key || arguments > captured.size() - argument) {
        return InvalidArgument("TFRecordExampleDataset: its filters have ", predicates_.size(), " functions, ",
                               filter_keys_.size(), " keys and ", captured.size(),
                               " captured tensors; its stages want more");
      }
      if (!single_examples_) {
        return InvalidArgument("TFRecordExampleDataset: a filter wants records parsed one by one, single_examples");
      }
      auto made = std::make_shared<RecordFilter>();
      made->keys.assign(filter_keys_.begin() + key, filter_keys_.begin() + key + keys);
      made->by_row = stage.arguments[2] != 0;
      std::vector<tensorflow::Tensor> tensors;
      for (int i = 0; i < arguments; ++i) tensors.push_back(captured[argument + i]);
      TF_RETURN_IF_ERROR(CapturedFunction::Create(ctx, predicates_[filter], std::move(tensors), &made->predicate));
      TF_RETURN_IF_ERROR(made->SetFeatures(features, parser));
      stage.filter = std::move(made);
      ++filter;
      key += keys;
      argument += arguments;
    }
    return OkStatus();
  }

  static Status GetBatchShards(OpKernelContext* ctx, RecordPipeline* pipeline) {
    std::vector<int64_t> batch_shards;
    TF_RETURN_IF_ERROR(ParseVectorArgument<int64_t>(ctx, "batch_shards", &batch_shards));
    if (batch_shards.size() != 2) {
      return InvalidArgument("TFRecordExampleDataset: batch_shards has ", batch_shards.size(),
                             " numbers; wanted 2: the number of shards and the index");
    }
    pipeline->batch.num_shards = batch_shards[0];
    pipeline->batch.shard = batch_shards[1];
    return OkStatus();
  }

  // As ParseExample checks them: none, or one value for rows of variable length, or a whole row.
  Status GetDefaults(OpKernelContext* ctx, ElementParser::Config* features) const {
    OpInputList defaults;
    TF_RETURN_IF_ERROR(ctx->input_list("dense_defaults", &defaults));
    for (int i = 0; i < defaults.size(); ++i) {
      auto& dense = features->dense[i];
      const auto& shape = defaults[i].shape();
      if (dense.variable_length) {
        if (shape.num_elements() != 1) {
          return InvalidArgument("TFRecordExampleDataset: feature '", dense.feature_name,
                                 "' has variable length, its default value must be one element to pad with; it has ",
                                 shape.num_elements());
        }
      } else if (shape.num_elements() > 0 && !dense.shape.IsCompatibleWith(shape)) {
        return InvalidArgument("TFRecordExampleDataset: feature '", dense.feature_name, "' has shape ",
                               dense.shape.DebugString(), " but a default value of shape ", shape.DebugString());
      }
      dense.default_value = defaults[i];
    }
    return OkStatus();
  }

  std::vector<std::string> filter_keys_;
  std::vector<std::shared_ptr<FunctionMetadata>> predicates_;
  ElementParser::Config features_;
  bool single_examples_ = false;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTFRecordExampleDataset").Device(tensorflow::DEVICE_CPU),
                        TFRecordExampleDatasetOp);

}  // namespace
}  // namespace tf_booster
