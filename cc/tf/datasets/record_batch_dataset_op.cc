#include "cc/tf/datasets/record_batch_dataset_op.h"

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::data::DatasetBase;
using tensorflow::data::ParseScalarArgument;
using tensorflow::data::ParseVectorArgument;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

namespace {

TfStatus GetFiles(OpKernelContext* ctx, const std::string& op, DatasetBase** files) {
  TF_RETURN_IF_ERROR(tensorflow::data::GetDatasetFromVariantTensor(ctx->input(0), files));
  if ((*files)->output_dtypes() != tensorflow::DataTypeVector{tensorflow::DT_STRING}) {
    return InvalidArgument(op, ": files must be a dataset of file names; its elements are ",
                           tensorflow::DataTypeVectorString((*files)->output_dtypes()));
  }
  if (!(*files)->output_shapes()[0].IsCompatibleWith(tensorflow::TensorShape())) {
    return InvalidArgument(op, ": files must be a dataset of scalars; its elements have shape ",
                           (*files)->output_shapes()[0].DebugString());
  }
  return tensorflow::OkStatus();
}

}  // namespace

RecordBatchDatasetOp::RecordBatchDatasetOp(OpKernelConstruction* ctx, const std::string& op, FileFormat format)
    : DatasetOpKernel(ctx) {
  options_.pipeline.op = op;
  options_.pipeline.format = format;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("stages", &stages_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("errors_count", &options_.pipeline.interleave.errors_count));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &options_.output_types));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &options_.output_shapes));
}

TfStatus RecordBatchDatasetOp::GetPipeline(OpKernelContext* ctx, DatasetBase** files, RecordPipeline* pipeline) const {
  TF_RETURN_IF_ERROR(GetFiles(ctx, pipeline->op, files));
  tensorflow::tstring compression;
  std::vector<int64_t> stage_arguments;
  TF_RETURN_IF_ERROR(ParseScalarArgument<tensorflow::tstring>(ctx, "compression", &compression));
  pipeline->compression = std::string(compression);
  TF_RETURN_IF_ERROR(ParseScalarArgument<int64_t>(ctx, "block_bytes", &pipeline->block_bytes));
  TF_RETURN_IF_ERROR(ParseScalarArgument<int64_t>(ctx, "cycle_length", &pipeline->interleave.cycle_length));
  TF_RETURN_IF_ERROR(ParseScalarArgument<int64_t>(ctx, "block_length", &pipeline->interleave.block_length));
  TF_RETURN_IF_ERROR(ParseVectorArgument<int64_t>(ctx, "stage_arguments", &stage_arguments));
  TF_RETURN_IF_ERROR(ParseScalarArgument<int64_t>(ctx, "batch_size", &pipeline->batch.batch_size));
  TF_RETURN_IF_ERROR(ParseScalarArgument<bool>(ctx, "drop_remainder", &pipeline->batch.drop_remainder));
  return pipeline->SetStages(stages_, stage_arguments);
}

}  // namespace tf_booster
