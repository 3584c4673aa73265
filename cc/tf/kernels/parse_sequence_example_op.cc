// ParseSequenceExample and ParseSequenceExampleV2, TensorFlow's own ops. tf.io.parse_sequence_example and
// parse_single_sequence_example both make the second one.
//
// ParseSingleSequenceExample, which only graphs of TensorFlow 1.14 and before have, stays TensorFlow's: it reads
// records by Protocol Buffers, and its code can only be reached as a kernel, so nothing could be called while the
// switch is off.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/tf/example_parsing/parser_switch.h"
#include "cc/tf/example_parsing/sequence_batch_parser.h"
#include "cc/tf/kernels/parse_example_inputs.h"
#include "tensorflow/core/framework/metrics.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tf_booster {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::TensorShapeUtils;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using Config = SequenceBatchParser::Config;
using TfStatus = tensorflow::Status;

// What a dense list is filled up with.
Tensor Padding(DataType dtype) {
  if (dtype == tensorflow::DT_STRING) return Tensor(tstring());
  return dtype == tensorflow::DT_FLOAT ? Tensor(0.0f) : Tensor(int64_t{0});
}

// The inputs of one call.
struct SequenceInputs {
  const Tensor* serialized;
  const Tensor* names;
  ParseInputs context, lists;              // Lists have no defaults.
  std::vector<bool> dense_may_be_missing;  // By dense list.
};

class ParseSequenceExampleOp : public tensorflow::OpKernel {
 public:
  explicit ParseSequenceExampleOp(OpKernelConstruction* ctx)
      : OpKernel(ctx), version_(ctx->def().op() == "ParseSequenceExample" ? 1 : 2) {
    OP_REQUIRES_OK(ctx, attrs_.Init(ctx, version_));
    context_shapes_.assign(attrs_.context_dense_shapes.begin(), attrs_.context_dense_shapes.end());
    context_variable_.resize(context_shapes_.size());
    for (const TensorShape& shape : attrs_.context_dense_shapes) context_elements_.push_back(shape.num_elements());
  }

  void Compute(OpKernelContext* ctx) override {
    SequenceInputs inputs;
    OP_REQUIRES_OK(ctx, GetInputs(ctx, &inputs));
    OP_REQUIRES_OK(ctx, CheckInputs(inputs));
    std::call_once(counted_, [&] { Count(inputs); });
    const bool fast = FastParserEnabled();
    auto parser = fast ? Find(inputs) : nullptr;
    Config context, lists;
    if (parser == nullptr) {
      context = ContextConfig(inputs.context);
      lists = ListsConfig(inputs);
      if (fast) {
        OP_REQUIRES_OK(ctx, SequenceBatchParser::Make(context, lists, &parser));
        Keep(parser);
      }
    }
    const auto flat = inputs.serialized->flat<tstring>(), flat_names = inputs.names->flat<tstring>();
    const absl::Span<const tstring> records(flat.data(), flat.size()), names(flat_names.data(), flat_names.size());
    const bool batch = TensorShapeUtils::IsVector(inputs.serialized->shape());
    auto* workers = ctx->device()->tensorflow_cpu_worker_threads()->workers;
    SequenceResult result;
    OP_REQUIRES_OK(ctx, parser != nullptr
                            ? parser->Parse(records, names, batch, workers, &result)
                            : ParseSequencesAsTensorFlow(context, lists, records, names, batch, workers, &result));
    OP_REQUIRES_OK(ctx, SetOutputs(ctx, result));
  }

 private:
  static TfStatus TensorKeys(OpKernelContext* ctx, const char* name, int64_t count, const char* counted_by,
                             Keys* keys) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(ctx->input(name, &tensor));
    if (tensor->NumElements() != count) {
      return InvalidArgument("Expected len(", name, ") to match ", counted_by);
    }
    const auto flat = tensor->flat<tstring>();
    keys->assign(flat.data(), flat.data() + flat.size());
    return tensorflow::OkStatus();
  }

  TfStatus GetInputs(OpKernelContext* ctx, SequenceInputs* inputs) const {
    TF_RETURN_IF_ERROR(ctx->input("debug_name", &inputs->names));
    TF_RETURN_IF_ERROR(ctx->input("serialized", &inputs->serialized));
    TF_RETURN_IF_ERROR(ctx->input_list("context_dense_defaults", &inputs->context.dense_defaults));
    if (TensorShapeUtils::IsMatrixOrHigher(inputs->serialized->shape())) {
      return InvalidArgument("Expected serialized to be a scalar or vector, got shape: ",
                             inputs->serialized->shape().DebugString());
    }
    return version_ == 2 ? GetKeyInputs(ctx, inputs) : GetKeyAttributes(inputs);
  }

  TfStatus GetKeyAttributes(SequenceInputs* inputs) const {
    const auto assign = [](const std::vector<tstring>& from, Keys* to) { to->assign(from.begin(), from.end()); };
    assign(attrs_.context_dense_keys, &inputs->context.dense_keys);
    assign(attrs_.context_sparse_keys, &inputs->context.sparse_keys);
    assign(attrs_.feature_list_dense_keys, &inputs->lists.dense_keys);
    assign(attrs_.feature_list_sparse_keys, &inputs->lists.sparse_keys);
    for (const tstring& key : attrs_.feature_list_dense_keys) {
      inputs->dense_may_be_missing.push_back(attrs_.feature_list_dense_missing_assumed_empty.count(key) > 0);
    }
    return tensorflow::OkStatus();
  }

  TfStatus GetKeyInputs(OpKernelContext* ctx, SequenceInputs* inputs) const {
    ParseInputs &context = inputs->context, &lists = inputs->lists;
    TF_RETURN_IF_ERROR(
        TensorKeys(ctx, "context_dense_keys", attrs_.num_context_dense, "len(Tcontext_dense)", &context.dense_keys));
    TF_RETURN_IF_ERROR(
        TensorKeys(ctx, "context_sparse_keys", attrs_.num_context_sparse, "Ncontext_sparse", &context.sparse_keys));
    TF_RETURN_IF_ERROR(TensorKeys(ctx, "context_ragged_keys", attrs_.num_context_ragged,
                                  "len(context_ragged_value_types)", &context.ragged_keys));
    TF_RETURN_IF_ERROR(TensorKeys(ctx, "feature_list_dense_keys", attrs_.num_feature_list_dense, "Nfeature_list_dense",
                                  &lists.dense_keys));
    const Tensor* missing;
    TF_RETURN_IF_ERROR(ctx->input("feature_list_dense_missing_assumed_empty", &missing));
    if (missing->NumElements() != attrs_.num_feature_list_dense) {
      return InvalidArgument(
          "Expected len(feature_list_dense_missing_assumed_empty to match "
          "Nfeature_list_dense");
    }
    const auto flat = missing->flat<bool>();
    inputs->dense_may_be_missing.assign(flat.data(), flat.data() + flat.size());
    TF_RETURN_IF_ERROR(TensorKeys(ctx, "feature_list_sparse_keys", attrs_.num_feature_list_sparse,
                                  "Nfeature_list_sparse", &lists.sparse_keys));
    return TensorKeys(ctx, "feature_list_ragged_keys", attrs_.num_feature_list_ragged,
                      "len(feature_list_ragged_value_types)", &lists.ragged_keys);
  }

  TfStatus CheckInputs(const SequenceInputs& inputs) const {
    const OpInputList& defaults = inputs.context.dense_defaults;
    if (defaults.size() != attrs_.num_context_dense) {
      return InvalidArgument("Expected len(context_dense_defaults) == len(context_dense_keys) but got: ",
                             defaults.size(), " vs. ", attrs_.num_context_dense);
    }
    for (int d = 0; d < defaults.size(); ++d) {
      const Tensor& value = defaults[d];
      const TensorShape& shape = attrs_.context_dense_shapes[d];
      if (value.NumElements() == 0) continue;
      if (value.shape() != shape) {
        return InvalidArgument("default_value[", d, "].shape() == ", value.shape().DebugString(),
                               " != context_dense_shapes[", d, "] == ", shape.DebugString());
      }
      if (value.dtype() != attrs_.context_dense_types[d]) {
        return InvalidArgument("context_dense_defaults[", d, "].dtype() == ", DataTypeString(value.dtype()),
                               " != context_dense_types[", d, "] == ", DataTypeString(attrs_.context_dense_types[d]));
      }
    }
    return tensorflow::OkStatus();
  }

  static void Count(const SequenceInputs& inputs) {
    const ParseInputs &context = inputs.context, &lists = inputs.lists;
    tensorflow::metrics::RecordParseDenseFeature(context.dense_keys.size() + lists.dense_keys.size());
    tensorflow::metrics::RecordParseSparseFeature(context.sparse_keys.size() + lists.sparse_keys.size());
    tensorflow::metrics::RecordParseRaggedFeature(context.ragged_keys.size() + lists.ragged_keys.size());
  }

  Config ContextConfig(const ParseInputs& inputs) const {
    return MakeConfig(inputs, {attrs_.context_dense_types, context_shapes_, context_variable_, context_elements_},
                      attrs_.context_sparse_types, attrs_.context_ragged_value_types,
                      attrs_.context_ragged_split_types);
  }

  // As FastParseSequenceExample takes it: "variable length" is a list that may be missing.
  Config ListsConfig(const SequenceInputs& inputs) const {
    ParseInputs others = inputs.lists;
    others.dense_keys.clear();
    Config config = MakeConfig(others, {{}, {}, {}, {}}, attrs_.feature_list_sparse_types,
                               attrs_.feature_list_ragged_value_types, attrs_.feature_list_ragged_split_types);
    for (size_t d = 0; d < inputs.lists.dense_keys.size(); ++d) {
      const DataType dtype = attrs_.feature_list_dense_types[d];
      config.dense.emplace_back(inputs.lists.dense_keys[d], dtype, attrs_.feature_list_dense_shapes[d], Padding(dtype),
                                inputs.dense_may_be_missing[d], 0);
    }
    return config;
  }

  // The parser of the last call, if it was for the same keys, defaults and instructions.
  std::shared_ptr<const SequenceBatchParser> Find(const SequenceInputs& inputs) const {
    std::shared_ptr<const SequenceBatchParser> parser;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      parser = parser_;
    }
    if (parser == nullptr || parser->level() != ParserSimdLevel()) return nullptr;
    const Config &context = parser->context_config(), &lists = parser->lists_config();
    bool same = SameKeys(inputs.context, context) && SameDefaults(inputs.context.dense_defaults, context) &&
                SameKeys(inputs.lists, lists);
    for (size_t d = 0; same && d < lists.dense.size(); ++d) {
      same = lists.dense[d].variable_length == inputs.dense_may_be_missing[d];
    }
    return same ? parser : nullptr;
  }

  void Keep(std::shared_ptr<const SequenceBatchParser> parser) {
    std::lock_guard<std::mutex> lock(mutex_);
    parser_ = std::move(parser);
  }

  TfStatus SetOutputs(OpKernelContext* ctx, const SequenceResult& result) const {
    const auto &context = result.context, &lists = result.lists;
    TF_RETURN_IF_ERROR(SetList(ctx, "context_sparse_indices", context.sparse_indices));
    TF_RETURN_IF_ERROR(SetList(ctx, "context_sparse_values", context.sparse_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "context_sparse_shapes", context.sparse_shapes));
    TF_RETURN_IF_ERROR(SetList(ctx, "context_dense_values", context.dense_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_sparse_indices", lists.sparse_indices));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_sparse_values", lists.sparse_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_sparse_shapes", lists.sparse_shapes));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_dense_values", lists.dense_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_dense_lengths", result.dense_lengths));
    if (version_ == 1) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(SetList(ctx, "context_ragged_values", context.ragged_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "context_ragged_row_splits", context.ragged_splits));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_ragged_values", lists.ragged_values));
    TF_RETURN_IF_ERROR(SetList(ctx, "feature_list_ragged_outer_splits", lists.ragged_outer_splits));
    return SetList(ctx, "feature_list_ragged_inner_splits", lists.ragged_splits);
  }

  const int version_;
  tensorflow::ParseSequenceExampleAttrs attrs_;
  // Of the context's dense features, as MakeConfig wants them.
  std::vector<tensorflow::PartialTensorShape> context_shapes_;
  std::vector<bool> context_variable_;
  std::vector<size_t> context_elements_;
  std::once_flag counted_;
  mutable std::mutex mutex_;
  std::shared_ptr<const SequenceBatchParser> parser_;
};

REGISTER_KERNEL_BUILDER(Name("ParseSequenceExample").Device(tensorflow::DEVICE_CPU).Priority(1),
                        ParseSequenceExampleOp);
REGISTER_KERNEL_BUILDER(Name("ParseSequenceExampleV2").Device(tensorflow::DEVICE_CPU).Priority(1),
                        ParseSequenceExampleOp);

}  // namespace
}  // namespace tf_booster
