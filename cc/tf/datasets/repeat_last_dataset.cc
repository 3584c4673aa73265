#include "cc/tf/datasets/repeat_last_dataset.h"

#include <utility>

#include "cc/tf/datasets/repeat_last_iterator.h"
#include "tensorflow/core/data/name_utils.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/graph/graph_def_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;

RepeatLastDataset::RepeatLastDataset(OpKernelContext* ctx, const DatasetBase* input, const DatasetBase* fallback,
                                     tensorflow::DataTypeVector output_types,
                                     std::vector<tensorflow::PartialTensorShape> output_shapes)
    : DatasetBase(tensorflow::data::DatasetContext(ctx)),
      input_(input),
      fallback_(fallback),
      output_types_(std::move(output_types)),
      output_shapes_(std::move(output_shapes)) {
  input_->Ref();
  fallback_->Ref();
}

RepeatLastDataset::~RepeatLastDataset() {
  input_->Unref();
  fallback_->Unref();
}

std::unique_ptr<IteratorBase> RepeatLastDataset::MakeIteratorInternal(const std::string& prefix) const {
  return MakeRepeatLastIterator(this, tensorflow::data::name_utils::IteratorPrefix(kType, prefix));
}

int64_t RepeatLastDataset::CardinalityInternal(tensorflow::data::CardinalityOptions options) const {
  const int64_t input = input_->Cardinality(options);
  if (input > 0 || input == tensorflow::data::kInfiniteCardinality) return tensorflow::data::kInfiniteCardinality;
  const int64_t fallback = fallback_->Cardinality(options);
  if (fallback > 0 || fallback == tensorflow::data::kInfiniteCardinality) return tensorflow::data::kInfiniteCardinality;
  return input == 0 && fallback == 0 ? 0 : tensorflow::data::kUnknownCardinality;
}

Status RepeatLastDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->push_back(input_);
  inputs->push_back(fallback_);
  return tensorflow::OkStatus();
}

Status RepeatLastDataset::CheckExternalState() const {
  TF_RETURN_IF_ERROR(input_->CheckExternalState());
  return fallback_->CheckExternalState();
}

Status RepeatLastDataset::AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                             tensorflow::Node** output) const {
  tensorflow::Node* input = nullptr;
  tensorflow::Node* fallback = nullptr;
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input_, &input));
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, fallback_, &fallback));
  return b->AddDataset(this, {input, fallback}, output);
}

namespace {

class RepeatLastDatasetOp : public tensorflow::data::DatasetOpKernel {
 public:
  explicit RepeatLastDatasetOp(OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &output_types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &output_shapes_));
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    DatasetBase* input = nullptr;
    DatasetBase* fallback = nullptr;
    OP_REQUIRES_OK(ctx, tensorflow::data::GetDatasetFromVariantTensor(ctx->input(0), &input));
    OP_REQUIRES_OK(ctx, tensorflow::data::GetDatasetFromVariantTensor(ctx->input(1), &fallback));
    tensorflow::DataTypeVector wanted = input->output_dtypes();
    OP_REQUIRES(ctx, fallback->output_dtypes() == wanted,
                tensorflow::errors::InvalidArgument("RepeatLastDataset: fallback has elements of ",
                                                    tensorflow::DataTypeVectorString(fallback->output_dtypes()),
                                                    "; wanted those of input_dataset, ",
                                                    tensorflow::DataTypeVectorString(wanted)));
    wanted.insert(wanted.end(), 2, tensorflow::DT_FLOAT);
    OP_REQUIRES(ctx, output_types_ == wanted && output_shapes_.size() == wanted.size(),
                tensorflow::errors::InvalidArgument(
                    "RepeatLastDataset: output_types is ", tensorflow::DataTypeVectorString(output_types_), " with ",
                    output_shapes_.size(), " output_shapes; wanted input_dataset's and two float32, ",
                    tensorflow::DataTypeVectorString(wanted)));
    *output = new RepeatLastDataset(ctx, input, fallback, output_types_, output_shapes_);
  }

 private:
  tensorflow::DataTypeVector output_types_;
  std::vector<tensorflow::PartialTensorShape> output_shapes_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterRepeatLastDataset").Device(tensorflow::DEVICE_CPU), RepeatLastDatasetOp);

}  // namespace
}  // namespace tf_booster
