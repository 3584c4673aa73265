// TfBoosterTableGather: embeddings of a probe's codes, of all features at once.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_GATHER_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_GATHER_OP_H_

#include <vector>

#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class TableGatherOpBase : public tensorflow::OpKernel {
 public:
  explicit TableGatherOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_codes_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckDim(dim_));
    const tensorflow::Tensor& keys = ctx->input(1 + num_codes_);
    const tensorflow::Tensor& fields = ctx->input(2 + num_codes_);
    const tensorflow::Tensor& handles = ctx->input(3 + num_codes_);
    OP_REQUIRES_OK(ctx, call.CheckVector(keys, "keys"));
    OP_REQUIRES_OK(ctx, call.CheckVector(fields, "key_fields", keys.NumElements(), "keys"));
    OP_REQUIRES_OK(ctx, call.CheckVector(handles, "handles", keys.NumElements(), "keys"));
    std::vector<GatherPart> parts;
    for (int i = 0; i < num_codes_; ++i) {
      const tensorflow::Tensor& codes = ctx->input(1 + i);
      tensorflow::TensorShape shape = codes.shape();
      OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(dim_));
      tensorflow::Tensor* values = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &values));
      parts.push_back({codes.flat<int64_t>().data(), codes.NumElements(), values->flat<float>().data()});
    }
    const KeyBatch batch = {keys.flat<int64_t>().data(), FieldsOf(fields), keys.NumElements()};
    OP_REQUIRES_OK(ctx, call.Convert(Gather(call, batch, handles.flat<int64_t>().data(), parts)));
  }

 protected:
  virtual Status Gather(TableCall& call, const KeyBatch& keys, const RowHandle* handles,
                        const std::vector<GatherPart>& parts) const = 0;

 private:
  int64_t dim_ = 0;
  int num_codes_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_GATHER_OP_H_
