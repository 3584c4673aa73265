// The kernel: checks the op's arguments and makes the dataset.
#include <string>
#include <utility>

#include "cc/tf/datasets/record_batch_dataset_op.h"
#include "cc/tf/datasets/text_line_batch_dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::data::DatasetBase;

class TextLineBatchDatasetOp final : public RecordBatchDatasetOp {
 public:
  explicit TextLineBatchDatasetOp(OpKernelConstruction* ctx)
      : RecordBatchDatasetOp(ctx, "TextLineBatchDataset", FileFormat::kLines) {
    OP_REQUIRES(
        ctx,
        options_.output_types == tensorflow::DataTypeVector{tensorflow::DT_STRING} &&
            options_.output_shapes.size() == 1,
        tensorflow::errors::InvalidArgument("TextLineBatchDataset: an element is one string tensor; its types are ",
                                            tensorflow::DataTypeVectorString(options_.output_types)));
    std::string delimiter;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("csv_delimiter", &delimiter));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("csv_quotes", &options_.pipeline.csv.quotes));
    if (delimiter.empty()) return;
    OP_REQUIRES(ctx, delimiter.size() == 1,
                tensorflow::errors::InvalidArgument("TextLineBatchDataset: csv_delimiter is '", delimiter,
                                                    "'; wanted one character, or none for lines"));
    options_.pipeline.format = FileFormat::kCsv;
    options_.pipeline.csv.delimiter = delimiter[0];
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    RecordBatchOptions options = options_;
    DatasetBase* files = nullptr;
    OP_REQUIRES_OK(ctx, GetPipeline(ctx, &files, &options.pipeline));
    int64_t* const header = &options.pipeline.header_lines;
    OP_REQUIRES_OK(ctx, tensorflow::data::ParseScalarArgument<int64_t>(ctx, "header_lines", header));
    OP_REQUIRES(
        ctx, *header >= 0,
        tensorflow::errors::InvalidArgument("TextLineBatchDataset: header_lines is ", *header, ", less than 0"));
    OP_REQUIRES_OK(ctx, options.pipeline.Check());
    *output = new TextLineBatchDataset(ctx, files, std::move(options));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTextLineBatchDataset").Device(tensorflow::DEVICE_CPU), TextLineBatchDatasetOp);

}  // namespace
}  // namespace tf_booster
