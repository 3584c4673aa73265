// ParseExample and ParseExampleV2, TensorFlow's own ops, and TfBoosterParseExample, which is ParseExampleV2 with our
// parser whatever the switch says.
#include <memory>
#include <vector>

#include "cc/tf/example_parsing/parser_switch.h"
#include "cc/tf/kernels/parse_example_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class ParseExampleOp : public ParseExampleKernel {
 public:
  explicit ParseExampleOp(OpKernelConstruction* ctx)
      : ParseExampleKernel(ctx, ctx->def().op() == "ParseExample" ? 1 : 2),
        always_(ctx->def().op() == "TfBoosterParseExample") {
    if (always_) OP_REQUIRES_OK(ctx, ctx->GetAttr("single", &each_alone_));
  }

  void Compute(OpKernelContext* ctx) override {
    ParseInputs inputs;
    const Tensor *serialized, *names;
    OP_REQUIRES_OK(ctx, ctx->input("serialized", &serialized));
    OP_REQUIRES_OK(ctx, ctx->input("names", &names));
    OP_REQUIRES_OK(ctx, GetInputs(ctx, &inputs));
    OP_REQUIRES_OK(ctx, CheckShapes(*serialized, *names));
    OP_REQUIRES_OK(ctx, CheckKeys(inputs));
    OP_REQUIRES(ctx, !each_alone_ || inputs.ragged_keys.empty(),
                InvalidArgument(name(), ": parses each record by itself, and has ragged features; wanted none"));
    Result result;
    bool parsed = false;
    if (always_ || FastParserEnabled()) {
      OP_REQUIRES_OK(ctx, Parse(ctx, *serialized, *names, inputs, &result, &parsed));
    }
    if (!parsed) OP_REQUIRES_OK(ctx, ParseAsTensorFlow(ctx, *serialized, *names, inputs, &result));
    OP_REQUIRES_OK(ctx, SetFeatures(ctx, result));
  }

 private:
  TfStatus CheckShapes(const Tensor& serialized, const Tensor& names) const {
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
    return tensorflow::OkStatus();
  }

  // `parsed` stays false for a spec that TensorFlow must answer.
  TfStatus Parse(OpKernelContext* ctx, const Tensor& serialized, const Tensor& names, const ParseInputs& inputs,
                 Result* result, bool* parsed) {
    const bool batch = TensorShapeUtils::IsVector(serialized.shape());
    std::shared_ptr<const ExampleBatchParser> parser;
    TF_RETURN_IF_ERROR(FindParser(inputs, batch && !each_alone_, &parser));
    if (parser == nullptr) return tensorflow::OkStatus();
    *parsed = true;
    const auto flat = serialized.flat<tstring>();
    if (!batch) return parser->ParseSingle({flat(0).data(), flat(0).size()}, result);
    std::vector<ExampleBatchParser::Record> records(flat.size());
    for (int64_t i = 0; i < flat.size(); ++i) records[i] = {flat(i).data(), flat(i).size()};
    return parser->Parse(records, NamesOf(names), Workers(ctx), result);
  }

  TfStatus ParseAsTensorFlow(OpKernelContext* ctx, const Tensor& serialized, const Tensor& names,
                             const ParseInputs& inputs, Result* result) const {
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

  const bool always_;
  bool each_alone_ = false;  // Of a vector, too.
};

REGISTER_KERNEL_BUILDER(Name("ParseExample").Device(tensorflow::DEVICE_CPU).Priority(1), ParseExampleOp);
REGISTER_KERNEL_BUILDER(Name("ParseExampleV2").Device(tensorflow::DEVICE_CPU).Priority(1), ParseExampleOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterParseExample").Device(tensorflow::DEVICE_CPU), ParseExampleOp);

}  // namespace
}  // namespace tf_booster
