// TfBoosterConcatColumns and TfBoosterSplitColumns.
#include "cc/tf/kernels/column_ops.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class ConcatColumnsOp final : public ConcatColumnsOpBase {
 public:
  using ConcatColumnsOpBase::ConcatColumnsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const std::vector<Columns<const char>>& parts, int64_t rows,
                         char* wide) const override {
    TfParallelFor pf(ctx);
    JoinColumns(parts, rows, wide, pf);
    return tensorflow::OkStatus();
  }
};

class SplitColumnsOp final : public SplitColumnsOpBase {
 public:
  using SplitColumnsOpBase::SplitColumnsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const char* wide, int64_t rows,
                         const std::vector<Columns<char>>& parts) const override {
    TfParallelFor pf(ctx);
    SplitColumns(wide, rows, parts, pf);
    return tensorflow::OkStatus();
  }
};

#define REGISTER_COLUMNS(T)                                                                                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterConcatColumns").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          ConcatColumnsOp);                                                                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterSplitColumns").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),  \
                          SplitColumnsOp)
REGISTER_COLUMNS(float);
REGISTER_COLUMNS(double);
REGISTER_COLUMNS(Eigen::half);
REGISTER_COLUMNS(tensorflow::bfloat16);
REGISTER_COLUMNS(int32_t);
REGISTER_COLUMNS(int64_t);
REGISTER_COLUMNS(bool);
#undef REGISTER_COLUMNS

}  // namespace
}  // namespace tf_booster
