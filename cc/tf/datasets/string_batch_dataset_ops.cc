// The kernels: they check the ops' arguments and make the dataset.
#include <string>
#include <utility>

#include "cc/tf/datasets/record_batch_dataset_op.h"
#include "cc/tf/datasets/string_batch_dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::data::DatasetBase;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

class StringBatchDatasetOp : public RecordBatchDatasetOp {
 protected:
  StringBatchDatasetOp(OpKernelConstruction* ctx, const std::string& op, FileFormat format)
      : RecordBatchDatasetOp(ctx, op, format) {
    OP_REQUIRES(ctx,
                options_.output_types == tensorflow::DataTypeVector{tensorflow::DT_STRING} &&
                    options_.output_shapes.size() == 1,
                InvalidArgument(op, ": an element is one string tensor; its types are ",
                                tensorflow::DataTypeVectorString(options_.output_types)));
  }

  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    RecordBatchOptions options = options_;
    DatasetBase* files = nullptr;
    OP_REQUIRES_OK(ctx, GetPipeline(ctx, &files, &options.pipeline));
    OP_REQUIRES_OK(ctx, GetMore(ctx, &options.pipeline));
    OP_REQUIRES_OK(ctx, options.pipeline.Check());
    *output = new StringBatchDataset(ctx, files, std::move(options));
  }

 private:
  // The inputs that only this op has.
  virtual TfStatus GetMore(OpKernelContext* ctx, RecordPipeline* pipeline) const { return OkStatus(); }
};

class TFRecordBatchDatasetOp final : public StringBatchDatasetOp {
 public:
  explicit TFRecordBatchDatasetOp(OpKernelConstruction* ctx)
      : StringBatchDatasetOp(ctx, "TFRecordBatchDataset", FileFormat::kTFRecord) {}
};

class TextLineBatchDatasetOp final : public StringBatchDatasetOp {
 public:
  explicit TextLineBatchDatasetOp(OpKernelConstruction* ctx)
      : StringBatchDatasetOp(ctx, "TextLineBatchDataset", FileFormat::kLines) {
    std::string delimiter;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("csv_delimiter", &delimiter));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("csv_quotes", &options_.pipeline.csv.quotes));
    if (delimiter.empty()) return;
    OP_REQUIRES(ctx, delimiter.size() == 1,
                InvalidArgument("TextLineBatchDataset: csv_delimiter is '", delimiter,
                                "'; wanted one character, or none for lines"));
    options_.pipeline.format = FileFormat::kCsv;
    options_.pipeline.csv.delimiter = delimiter[0];
  }

 private:
  TfStatus GetMore(OpKernelContext* ctx, RecordPipeline* pipeline) const override {
    int64_t* const header = &pipeline->header_lines;
    TF_RETURN_IF_ERROR(tensorflow::data::ParseScalarArgument<int64_t>(ctx, "header_lines", header));
    return *header >= 0 ? OkStatus()
                        : InvalidArgument("TextLineBatchDataset: header_lines is ", *header, ", less than 0");
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTextLineBatchDataset").Device(tensorflow::DEVICE_CPU), TextLineBatchDatasetOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTFRecordBatchDataset").Device(tensorflow::DEVICE_CPU), TFRecordBatchDatasetOp);

}  // namespace
}  // namespace tf_booster
