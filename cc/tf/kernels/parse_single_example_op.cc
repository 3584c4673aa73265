// ParseSingleExample, TensorFlow's own op: one record, keys as attributes, no ragged features.
#include <memory>

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

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;

class ParseSingleExampleOp : public tensorflow::OpKernel {
 public:
  explicit ParseSingleExampleOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Init(ctx));
    tensorflow::metrics::RecordParseDenseFeature(attrs_.dense_keys.size());
    tensorflow::metrics::RecordParseSparseFeature(attrs_.sparse_keys.size());
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor* serialized;
    ParseInputs inputs;
    OP_REQUIRES_OK(ctx, ctx->input("serialized", &serialized));
    OP_REQUIRES_OK(ctx, ctx->input_list("dense_defaults", &inputs.dense_defaults));
    OP_REQUIRES(ctx, TensorShapeUtils::IsScalar(serialized->shape()),
                InvalidArgument("Expected serialized to be a scalar, got shape: ", serialized->shape().DebugString()));
    OP_REQUIRES(ctx, inputs.dense_defaults.size() == static_cast<int>(attrs_.dense_keys.size()),
                InvalidArgument("Expected len(dense_defaults) == len(dense_keys) but got: ",
                                inputs.dense_defaults.size(), " vs. ", attrs_.dense_keys.size()));
    inputs.dense_keys.assign(attrs_.dense_keys.begin(), attrs_.dense_keys.end());
    inputs.sparse_keys.assign(attrs_.sparse_keys.begin(), attrs_.sparse_keys.end());
    const tstring& record = serialized->flat<tstring>()(0);

    tensorflow::example::Result result;
    auto parser = FastParserEnabled() ? cache_.Find(inputs) : nullptr;
    if (parser == nullptr) {
      const DenseAttrs dense{attrs_.dense_types, attrs_.dense_shapes, attrs_.variable_length,
                             attrs_.elements_per_stride};
      OP_REQUIRES_OK(ctx, CheckDefaults(inputs.dense_defaults, dense));
      const auto config = MakeConfig(inputs, dense, attrs_.sparse_types, {}, {});
      if (FastParserEnabled()) {
        OP_REQUIRES_OK(ctx, ExampleBatchParser::Make(config, ExampleBatchParser::Semantics::kSingle, &parser));
        cache_.Keep(parser);
      }
      if (parser == nullptr) {
        OP_REQUIRES_OK(ctx, tensorflow::example::FastParseSingleExample(config, record, &result));
      }
    }
    if (parser != nullptr) OP_REQUIRES_OK(ctx, parser->ParseSingle({record.data(), record.size()}, &result));
    OP_REQUIRES_OK(ctx, SetOutputs(ctx, result, /*has_ragged=*/false));
  }

 private:
  tensorflow::ParseSingleExampleAttrs attrs_;
  ParserCache cache_;
};

REGISTER_KERNEL_BUILDER(Name("ParseSingleExample").Device(tensorflow::DEVICE_CPU).Priority(1), ParseSingleExampleOp);

}  // namespace
}  // namespace tf_booster
