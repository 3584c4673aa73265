// TfBoosterTableProbe: deduplicates the ids of all features and finds their rows, once for lookup and update.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_PROBE_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_PROBE_OP_H_

#include <vector>

#include "cc/core/optimizer/sparse_apply.h"
#include "cc/tf/kernels/skip_missing.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// The attributes, and the outputs.
class TableProbeOpBase : public tensorflow::OpKernel {
 public:
  explicit TableProbeOpBase(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int64_t group = 0;
    int num_ids = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_ids));
    OP_REQUIRES_OK(ctx, ReadFields(ctx, "fields", &fields_));
    if (fields_.empty()) fields_.assign(num_ids, 0);
    OP_REQUIRES(ctx, static_cast<int>(fields_.size()) == num_ids,
                tensorflow::errors::InvalidArgument("TableProbe: fields has ", fields_.size(),
                                                    " entries, but there are ", num_ids, " ids; give each its field"));
    OP_REQUIRES_OK(ctx, ReadSkipMissing(ctx, "TableProbe", num_ids, &skip_missing_));
    constexpr int64_t kGroups = int64_t{1} << (63 - kCodePlaceBits);
    OP_REQUIRES(ctx, group >= 0 && group < kGroups,
                tensorflow::errors::InvalidArgument("TableProbe: group is ", group, ", but must be in [0, ", kGroups,
                                                    "); number the probes of one update from 0 on"));
    first_code_ = (group << kCodePlaceBits) + 1;
  }

 protected:
  static tensorflow::Status AllocateVector(tensorflow::OpKernelContext* ctx, int output, int64_t size, int64_t** data) {
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {size}, &tensor));
    *data = tensor->flat<int64_t>().data();
    return tensorflow::OkStatus();
  }

  static tensorflow::Status AllocateFields(tensorflow::OpKernelContext* ctx, int output, int64_t size,
                                           uint32_t** data) {
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, {size}, &tensor));
    *data = reinterpret_cast<uint32_t*>(tensor->flat<int32_t>().data());
    return tensorflow::OkStatus();
  }

  std::vector<uint32_t> fields_;    // Of each input of ids.
  std::vector<bool> skip_missing_;  // The same: whether -1 is none.
  int64_t first_code_ = 1;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_PROBE_OP_H_
