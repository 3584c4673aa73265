#include "cc/tf/kernels/parse_example_kernel.h"

#include "tensorflow/core/framework/metrics.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

TfStatus TensorKeys(OpKernelContext* ctx, const char* name, Keys* keys) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(ctx->input(name, &tensor));
  const auto flat = tensor->flat<tstring>();
  keys->reserve(flat.size());
  for (int64_t i = 0; i < flat.size(); ++i) keys->emplace_back(flat(i));
  return tensorflow::OkStatus();
}

TfStatus ListKeys(OpKernelContext* ctx, const char* name, Keys* keys) {
  OpInputList list;
  TF_RETURN_IF_ERROR(ctx->input_list(name, &list));
  keys->reserve(list.size());
  for (int i = 0; i < list.size(); ++i) {
    if (list[i].NumElements() != 1) {
      return InvalidArgument("Expected ", name, "[", i, "] to be a scalar, got shape: ", list[i].shape().DebugString());
    }
    keys->emplace_back(list[i].flat<tstring>()(0));
  }
  return tensorflow::OkStatus();
}

}  // namespace

ParseExampleKernel::ParseExampleKernel(tensorflow::OpKernelConstruction* ctx, int version)
    : OpKernel(ctx), version_(version) {
  OP_REQUIRES_OK(ctx, attrs_.Init(ctx, version_));
}

TfStatus ParseExampleKernel::GetInputs(OpKernelContext* ctx, ParseInputs* inputs) const {
  const auto keys = version_ == 2 ? TensorKeys : ListKeys;
  TF_RETURN_IF_ERROR(keys(ctx, "dense_keys", &inputs->dense_keys));
  TF_RETURN_IF_ERROR(keys(ctx, "sparse_keys", &inputs->sparse_keys));
  if (version_ == 2) TF_RETURN_IF_ERROR(keys(ctx, "ragged_keys", &inputs->ragged_keys));
  return ctx->input_list("dense_defaults", &inputs->dense_defaults);
}

TfStatus ParseExampleKernel::CheckKeys(const ParseInputs& inputs) {
  if (static_cast<int64_t>(inputs.dense_keys.size()) != attrs_.num_dense) {
    return InvalidArgument("Expected len(dense_keys) == len(dense_types) but got: ", inputs.dense_keys.size(), " vs. ",
                           attrs_.num_dense);
  }
  if (static_cast<int64_t>(inputs.sparse_keys.size()) != attrs_.num_sparse) {
    return InvalidArgument("Expected len(sparse_keys) == num_sparse but got: ", inputs.sparse_keys.size(), " vs. ",
                           attrs_.num_sparse);
  }
  if (version_ == 2 && static_cast<int64_t>(inputs.ragged_keys.size()) != attrs_.num_ragged) {
    return InvalidArgument("Expected len(ragged_keys) == len(ragged_value_types) but got: ", inputs.ragged_keys.size(),
                           " vs. ", attrs_.num_ragged);
  }
  if (inputs.dense_defaults.size() != attrs_.num_dense) {
    return InvalidArgument("Expected len(dense_defaults) == len(dense_keys) but got: ", inputs.dense_defaults.size(),
                           " vs. ", attrs_.num_dense);
  }
  std::call_once(counted_, [&] {
    tensorflow::metrics::RecordParseDenseFeature(inputs.dense_keys.size());
    tensorflow::metrics::RecordParseSparseFeature(inputs.sparse_keys.size());
    tensorflow::metrics::RecordParseRaggedFeature(inputs.ragged_keys.size());
  });
  return tensorflow::OkStatus();
}

DenseAttrs ParseExampleKernel::dense() const {
  return {attrs_.dense_types, attrs_.dense_shapes, attrs_.variable_length, attrs_.elements_per_stride};
}

TfStatus ParseExampleKernel::Config(const ParseInputs& inputs,
                                    tensorflow::example::FastParseExampleConfig* config) const {
  TF_RETURN_IF_ERROR(CheckDefaults(inputs.dense_defaults, dense()));
  *config = MakeConfig(inputs, dense(), attrs_.sparse_types, attrs_.ragged_value_types, attrs_.ragged_split_types);
  return tensorflow::OkStatus();
}

TfStatus ParseExampleKernel::FindParser(const ParseInputs& inputs, bool batch,
                                        std::shared_ptr<const ExampleBatchParser>* parser) {
  ParserCache& cache = batch ? batch_ : single_;
  *parser = cache.Find(inputs);
  if (*parser != nullptr) return tensorflow::OkStatus();
  tensorflow::example::FastParseExampleConfig config;
  TF_RETURN_IF_ERROR(Config(inputs, &config));
  TF_RETURN_IF_ERROR(ExampleBatchParser::Make(
      config, batch ? ExampleBatchParser::Semantics::kBatch : ExampleBatchParser::Semantics::kSingle, parser));
  cache.Keep(*parser);
  return tensorflow::OkStatus();
}

TfStatus ParseExampleKernel::SetFeatures(OpKernelContext* ctx, const Result& result) const {
  return SetOutputs(ctx, result, version_ == 2);
}

tensorflow::thread::ThreadPool* ParseExampleKernel::Workers(OpKernelContext* ctx) {
  return ctx->device()->tensorflow_cpu_worker_threads()->workers;
}

}  // namespace tf_booster
