// TfBoosterMultiSparseApplyAdam and its like on the CPU.
#include "cc/tf/kernels/multi_sparse_apply_op.h"

namespace tf_booster {

#define REGISTER_MULTI_SPARSE_APPLY_TYPES(name, T, Index)         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiSparseApply" #name) \
                              .Device(tensorflow::DEVICE_CPU)     \
                              .TypeConstraint<T>("T")             \
                              .TypeConstraint<Index>("Tindices"), \
                          MultiSparseApplyOp<T, Index, sparse::name>)

#define REGISTER_MULTI_SPARSE_APPLY(name)                   \
  REGISTER_MULTI_SPARSE_APPLY_TYPES(name, float, int32_t);  \
  REGISTER_MULTI_SPARSE_APPLY_TYPES(name, float, int64_t);  \
  REGISTER_MULTI_SPARSE_APPLY_TYPES(name, double, int32_t); \
  REGISTER_MULTI_SPARSE_APPLY_TYPES(name, double, int64_t)

REGISTER_MULTI_SPARSE_APPLY(GradientDescent);
REGISTER_MULTI_SPARSE_APPLY(Momentum);
REGISTER_MULTI_SPARSE_APPLY(KerasMomentum);
REGISTER_MULTI_SPARSE_APPLY(Adagrad);
REGISTER_MULTI_SPARSE_APPLY(AdagradV2);
REGISTER_MULTI_SPARSE_APPLY(Adadelta);
REGISTER_MULTI_SPARSE_APPLY(Ftrl);
REGISTER_MULTI_SPARSE_APPLY(FtrlV2);
REGISTER_MULTI_SPARSE_APPLY(RMSProp);
REGISTER_MULTI_SPARSE_APPLY(CenteredRMSProp);
REGISTER_MULTI_SPARSE_APPLY(Adam);
REGISTER_MULTI_SPARSE_APPLY(KerasRMSProp);
REGISTER_MULTI_SPARSE_APPLY(KerasCenteredRMSProp);

#undef REGISTER_MULTI_SPARSE_APPLY
#undef REGISTER_MULTI_SPARSE_APPLY_TYPES

}  // namespace tf_booster
