#include <algorithm>
#include <memory>
#include <vector>

#include "cc/tf/example_parsing/message_fields.h"
#include "cc/tf/kernels/parse_example_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

// What a batch of messages holds: of each field the values of all messages one after another, and how many of each.
struct Messages {
  std::vector<MessageFields::Values> values;  // By field.
  std::vector<std::vector<int32_t>> counts;   // By field, by message.

  // As many columns as DecodeProtoV2 gives a field.
  int64_t Columns(size_t field) const {
    return std::max<int64_t>(1, *std::max_element(counts[field].begin(), counts[field].end()));
  }
};

class ParseExampleListsOp : public ParseExampleKernel {
 public:
  explicit ParseExampleListsOp(OpKernelConstruction* ctx) : ParseExampleKernel(ctx, 2) {
    std::vector<int32_t> numbers;
    std::vector<bool> repeated;
    int examples, num_values;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("field_numbers", &numbers));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("repeated", &repeated));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("examples", &examples));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_values", &num_values));
    const auto count = static_cast<int>(numbers.size());
    OP_REQUIRES(ctx, static_cast<int>(repeated.size()) == count && num_values == count - 1 && examples < count,
                InvalidArgument("TfBoosterParseExampleLists: ", count, " field_numbers, ", repeated.size(),
                                " repeated, examples ", examples, " and num_values ", num_values,
                                "; wanted as many repeated, examples one of them, and one value less"));
    std::vector<MessageField> fields;
    for (int i = 0; i < count; ++i) fields.push_back({numbers[i], repeated[i]});
    fields_.reset(new MessageFields(std::move(fields)));
    examples_ = static_cast<size_t>(examples);
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& serialized = ctx->input(0);
    const int64_t list_size = ctx->input(1).scalar<int64_t>()();
    ParseInputs inputs;
    OP_REQUIRES_OK(ctx, GetInputs(ctx, &inputs));
    OP_REQUIRES_OK(ctx, CheckKeys(inputs));
    OP_REQUIRES(ctx, serialized.dims() == 1,
                InvalidArgument("TfBoosterParseExampleLists: serialized has shape ", serialized.shape().DebugString(),
                                "; wanted a vector"));
    OP_REQUIRES(ctx, list_size >= -1,
                InvalidArgument("TfBoosterParseExampleLists: list_size is ", list_size, "; wanted -1 or more"));
    OP_REQUIRES(ctx, serialized.NumElements() >= 1, InvalidArgument("Bufs argument must contain at least one value"));
    Messages messages;
    OP_REQUIRES_OK(ctx, Read(serialized, &messages));
    OP_REQUIRES_OK(ctx, SetFields(ctx, messages));
    const int64_t length = list_size < 0 ? messages.Columns(examples_) : list_size;
    Result result;
    OP_REQUIRES_OK(ctx, Parse(ctx, inputs, ListsOf(messages, length), &result));
    OP_REQUIRES_OK(ctx, SetFeatures(ctx, result));
  }

 private:
  using Records = std::vector<ExampleBatchParser::Record>;

  TfStatus Read(const Tensor& serialized, Messages* messages) const {
    const auto flat = serialized.flat<tstring>();
    messages->values.resize(fields_->size());
    messages->counts.resize(fields_->size());
    std::vector<size_t> before(fields_->size());
    for (int64_t i = 0; i < flat.size(); ++i) {
      TF_RETURN_IF_ERROR(fields_->Read({flat(i).data(), flat(i).size()}, &messages->values));
      for (size_t f = 0; f < fields_->size(); ++f) {
        messages->counts[f].push_back(static_cast<int32_t>(messages->values[f].size() - before[f]));
        before[f] = messages->values[f].size();
      }
    }
    return tensorflow::OkStatus();
  }

  TfStatus SetFields(OpKernelContext* ctx, const Messages& messages) const {
    const auto n = static_cast<int64_t>(messages.counts[0].size());
    Tensor *sizes, *shape;
    TF_RETURN_IF_ERROR(ctx->allocate_output("sizes", {n, static_cast<int64_t>(fields_->size())}, &sizes));
    TF_RETURN_IF_ERROR(ctx->allocate_output("examples_shape", {2}, &shape));
    tensorflow::OpOutputList values;
    TF_RETURN_IF_ERROR(ctx->output_list("values", &values));
    auto counts = sizes->matrix<int32_t>();
    int output = 0;
    for (size_t f = 0; f < fields_->size(); ++f) {
      for (int64_t i = 0; i < n; ++i) counts(i, f) = messages.counts[f][i];
      if (f == examples_) continue;
      Tensor* strings;
      TF_RETURN_IF_ERROR(values.allocate(output++, {n, messages.Columns(f)}, &strings));
      auto to = strings->matrix<tstring>();
      auto from = messages.values[f].begin();
      for (int64_t i = 0; i < n; ++i) {
        for (int32_t k = 0; k < messages.counts[f][i]; ++k, ++from) to(i, k).assign(from->data, from->size);
      }
    }
    shape->vec<int32_t>()(0) = static_cast<int32_t>(n);
    shape->vec<int32_t>()(1) = static_cast<int32_t>(messages.Columns(examples_));
    return tensorflow::OkStatus();
  }

  // `length` Examples of each list.
  Records ListsOf(const Messages& messages, int64_t length) const {
    const auto& counts = messages.counts[examples_];
    Records records(counts.size() * static_cast<size_t>(length), {"", 0});
    auto from = messages.values[examples_].begin();
    for (size_t i = 0; i < counts.size(); ++i) {
      std::copy_n(from, std::min<int64_t>(counts[i], length), records.begin() + i * length);
      from += counts[i];
    }
    return records;
  }

  TfStatus Parse(OpKernelContext* ctx, const ParseInputs& inputs, const Records& records, Result* result) {
    std::shared_ptr<const ExampleBatchParser> parser;
    TF_RETURN_IF_ERROR(FindParser(inputs, true, &parser));
    if (parser != nullptr) return parser->Parse(records, {}, Workers(ctx), result);
    tensorflow::example::FastParseExampleConfig config;
    TF_RETURN_IF_ERROR(Config(inputs, &config));
    std::vector<tstring> strings(records.size());
    for (size_t i = 0; i < records.size(); ++i) strings[i].assign_as_view(records[i].data, records[i].size);
    return tensorflow::example::FastParseExample(config, strings, {}, Workers(ctx), result);
  }

  std::unique_ptr<const MessageFields> fields_;
  size_t examples_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterParseExampleLists").Device(tensorflow::DEVICE_CPU), ParseExampleListsOp);

}  // namespace
}  // namespace tf_booster
