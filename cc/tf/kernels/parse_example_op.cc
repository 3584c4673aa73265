// ParseExample and ParseExampleV2, TensorFlow's own ops, and TfBoosterParseExample, which is ParseExampleV2 with our
// parser whatever the switch says.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/tf/example_parsing/example_batch_parser.h"
#include "cc/tf/example_parsing/parser_switch.h"
#include "cc/tf/kernels/parse_example_inputs.h"
#include "tensorflow/core/framework/metrics.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tf_booster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class ParseExampleOp : public tensorflow::OpKernel {
 public:
  explicit ParseExampleOp(OpKernelConstruction* ctx)
      : OpKernel(ctx),
        version_(ctx->def().op() == "ParseExample" ? 1 : 2),
        always_(ctx->def().op() == "TfBoosterParseExample") {
    OP_REQUIRES_OK(ctx, attrs_.Init(ctx, version_));
  }

  void Compute(OpKernelContext* ctx) override {
    ParseInputs inputs;
    const Tensor *serialized, *names;
    OP_REQUIRES_OK(ctx, GetInputs(ctx, &serialized, &names, &inputs));
    OP_REQUIRES_OK(ctx, CheckInputs(*serialized, *names, inputs));
    std::call_once(counted_, [&] {
      tensorflow::metrics::RecordParseDenseFeature(inputs.dense_keys.size());
      tensorflow::metrics::RecordParseSparseFeature(inputs.sparse_keys.size());
      tensorflow::metrics::RecordParseRaggedFeature(inputs.ragged_keys.size());
    });
    tensorflow::example::Result result;
    bool parsed = false;
    if (always_ || FastParserEnabled()) {
      OP_REQUIRES_OK(ctx, Parse(ctx, *serialized, *names, inputs, &result, &parsed));
    }
    if (!parsed) OP_REQUIRES_OK(ctx, ParseAsTensorFlow(ctx, *serialized, *names, inputs, &result));
    OP_REQUIRES_OK(ctx, SetOutputs(ctx, result, version_ == 2));
  }

 private:
  static TfStatus TensorKeys(OpKernelContext* ctx, const char* name, Keys* keys) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(ctx->input(name, &tensor));
    const auto flat = tensor->flat<tstring>();
    keys->reserve(flat.size());
    for (int64_t i = 0; i < flat.size(); ++i) keys->emplace_back(flat(i));
    return tensorflow::OkStatus();
  }

  static TfStatus ListKeys(OpKernelContext* ctx, const char* name, Keys* keys) {
    OpInputList list;
    TF_RETURN_IF_ERROR(ctx->input_list(name, &list));
    keys->reserve(list.size());
    for (int i = 0; i < list.size(); ++i) {
      if (list[i].NumElements() != 1) {
        return InvalidArgument("Expected ", name, "[", i,
                               "] to be a scalar, got shape: ", list[i].shape().DebugString());
      }
      keys->emplace_back(list[i].flat<tstring>()(0));
    }
    return tensorflow::OkStatus();
  }

  TfStatus GetInputs(OpKernelContext* ctx, const Tensor** serialized, const Tensor** names, ParseInputs* inputs) const {
    TF_RETURN_IF_ERROR(ctx->input("serialized", serialized));
    TF_RETURN_IF_ERROR(ctx->input("names", names));
    const auto keys = version_ == 2 ? TensorKeys : ListKeys;
    TF_RETURN_IF_ERROR(keys(ctx, "dense_keys", &inputs->dense_keys));
    TF_RETURN_IF_ERROR(keys(ctx, "sparse_keys", &inputs->sparse_keys));
    if (version_ == 2) TF_RETURN_IF_ERROR(keys(ctx, "ragged_keys", &inputs->ragged_keys));
    return ctx->input_list("dense_defaults", &inputs->dense_defaults);
  }

  TfStatus CheckInputs(const Tensor& serialized, const Tensor& names, const ParseInputs& inputs) const {
    if (version_ == 2 && TensorShapeUtils::IsMatrixOrHigher(serialized.shape())) {
      return InvalidArgument("Expected serialized to be a scalar or vector, got shape: ",
                             serialized.shape().DebugString());
    }
    if (version_ == 1 && !TensorShapeUtils::IsVector(serialized.shape())) {
      return InvalidArgument("Expected serialized to be a vector, got shape: ", serialized.shape().DebugString());
    }
    if (names.NumElements() > 0 && names.shape() != serialized.shape()) {
      return InvalidArgument("Expected names have the same shape as serialized: name.shape=",
                             names.shape().DebugString(), ", serialized.shape=", serialized.shape().DebugString());
    }
    if (static_cast<int64_t>(inputs.dense_keys.size()) != attrs_.num_dense) {
      return InvalidArgument("Expected len(dense_keys) == len(dense_types) but got: ", inputs.dense_keys.size(),
                             " vs. ", attrs_.num_dense);
    }
    if (static_cast<int64_t>(inputs.sparse_keys.size()) != attrs_.num_sparse) {
      return InvalidArgument("Expected len(sparse_keys) == num_sparse but got: ", inputs.sparse_keys.size(), " vs. ",
                             attrs_.num_sparse);
    }
    if (version_ == 2 && static_cast<int64_t>(inputs.ragged_keys.size()) != attrs_.num_ragged) {
      return InvalidArgument("Expected len(ragged_keys) == len(ragged_value_types) but got: ",
                             inputs.ragged_keys.size(), " vs. ", attrs_.num_ragged);
    }
    if (inputs.dense_defaults.size() != attrs_.num_dense) {
      return InvalidArgument("Expected len(dense_defaults) == len(dense_keys) but got: ", inputs.dense_defaults.size(),
                             " vs. ", attrs_.num_dense);
    }
    return tensorflow::OkStatus();
  }

  DenseAttrs dense() const {
    return {attrs_.dense_types, attrs_.dense_shapes, attrs_.variable_length, attrs_.elements_per_stride};
  }

  TfStatus Config(const ParseInputs& inputs, tensorflow::example::FastParseExampleConfig* config) const {
    TF_RETURN_IF_ERROR(CheckDefaults(inputs.dense_defaults, dense()));
    *config = MakeConfig(inputs, dense(), attrs_.sparse_types, attrs_.ragged_value_types, attrs_.ragged_split_types);
    return tensorflow::OkStatus();
  }

  // `parsed` stays false for a spec that TensorFlow must answer.
  TfStatus Parse(OpKernelContext* ctx, const Tensor& serialized, const Tensor& names, const ParseInputs& inputs,
                 tensorflow::example::Result* result, bool* parsed) {
    const bool batch = TensorShapeUtils::IsVector(serialized.shape());
    ParserCache& cache = batch ? batch_ : single_;
    auto parser = cache.Find(inputs);
    if (parser == nullptr) {
      tensorflow::example::FastParseExampleConfig config;
      TF_RETURN_IF_ERROR(Config(inputs, &config));
      TF_RETURN_IF_ERROR(ExampleBatchParser::Make(
          config, batch ? ExampleBatchParser::Semantics::kBatch : ExampleBatchParser::Semantics::kSingle, &parser));
      cache.Keep(parser);
      if (parser == nullptr) return tensorflow::OkStatus();
    }
    *parsed = true;
    const auto flat = serialized.flat<tstring>();
    if (!batch) return parser->ParseSingle({flat(0).data(), flat(0).size()}, result);
    std::vector<ExampleBatchParser::Record> records(flat.size());
    for (int64_t i = 0; i < flat.size(); ++i) records[i] = {flat(i).data(), flat(i).size()};
    return parser->Parse(records, NamesOf(names), Workers(ctx), result);
  }

  TfStatus ParseAsTensorFlow(OpKernelContext* ctx, const Tensor& serialized, const Tensor& names,
                             const ParseInputs& inputs, tensorflow::example::Result* result) const {
    tensorflow::example::FastParseExampleConfig config;
    TF_RETURN_IF_ERROR(Config(inputs, &config));
    const auto flat = serialized.flat<tstring>();
    if (TensorShapeUtils::IsScalar(serialized.shape())) {
      return tensorflow::example::FastParseSingleExample(config, flat(0), result);
    }
    return tensorflow::example::FastParseExample(config, {flat.data(), static_cast<size_t>(flat.size())},
                                                 NamesOf(names), Workers(ctx), result);
  }

  static absl::Span<const tstring> NamesOf(const Tensor& names) {
    const auto flat = names.flat<tstring>();
    return {flat.data(), static_cast<size_t>(flat.size())};
  }

  static tensorflow::thread::ThreadPool* Workers(OpKernelContext* ctx) {
    return ctx->device()->tensorflow_cpu_worker_threads()->workers;
  }

  const int version_;
  const bool always_;
  tensorflow::ParseExampleAttrs attrs_;
  std::once_flag counted_;
  ParserCache batch_, single_;
};

REGISTER_KERNEL_BUILDER(Name("ParseExample").Device(tensorflow::DEVICE_CPU).Priority(1), ParseExampleOp);
REGISTER_KERNEL_BUILDER(Name("ParseExampleV2").Device(tensorflow::DEVICE_CPU).Priority(1), ParseExampleOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterParseExample").Device(tensorflow::DEVICE_CPU), ParseExampleOp);

}  // namespace
}  // namespace tf_booster
