// TfBoosterPoolVariables: pooled lookups that read rows of Variables where they lie.
#include <string>
#include <vector>

#include "cc/core/pooling/segment_pooling.h"
#include "cc/tf/kernels/joined_lookups_op.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using TfStatus = tensorflow::Status;

template <class T>
class PoolVariablesOp final : public JoinedPoolLookupsOpBase<T> {
 public:
  using JoinedPoolLookupsOpBase<T>::JoinedPoolLookupsOpBase;

 private:
  using Base = JoinedPoolLookupsOpBase<T>;
  using Lookups = typename Base::Lookups;
  using Target = typename Base::Target;

  TfStatus ReadRows(OpKernelContext* ctx, Lookups* lookups) const override {
    const int n = this->n();
    TF_RETURN_IF_ERROR(lookups->variables.LookUp(ctx, n));
    lookups->variables.Lock();
    lookups->rows.resize(n);
    for (int i = 0; i < n; ++i) {
      TF_RETURN_IF_ERROR(lookups->variables.Value(*this, i, tensorflow::DataTypeToEnum<T>::v(), &lookups->rows[i]));
      const tensorflow::TensorShape& shape = lookups->rows[i]->shape();
      if (shape.dims() != 2)
        return this->Invalid(i, "its Variable has shape " + shape.DebugString() + ", wanted rank 2");
    }
    return tensorflow::OkStatus();
  }

  TfStatus Run(OpKernelContext* ctx, const Lookups& lookups, const std::vector<Target>& beside,
               const std::vector<Target>& apart, const typename Base::Copies& copied, int64_t,
               int64_t columns) const override {
    for (int i = 0; i < this->n(); ++i) TF_RETURN_IF_ERROR(CheckIds(lookups, i));
    return this->RunOnCpu(ctx, lookups, beside, apart, copied, columns, /*far_apart=*/true);
  }

  TfStatus CheckIds(const Lookups& lookups, int i) const {
    const PoolingSegments& s = lookups.segments[i];
    if (!CheckSplits(s, lookups.ids[i])) return this->Invalid(i, "row_splits are not those of these ids");
    const int64_t place = PlaceOutside(s, lookups.wide_idx[i], lookups.ids[i]);
    if (place < 0) return tensorflow::OkStatus();
    const int64_t id = lookups.wide_idx[i] != nullptr ? lookups.wide_idx[i][place] : s.idx[place];
    return this->Invalid(i, "id " + std::to_string(id) + ", the one at place " + std::to_string(place) +
                                ", is not in [0, " + std::to_string(s.distinct) + ")");
  }
};

#define REGISTER_POOL_VARIABLES(T)                                                                              \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolVariables").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          PoolVariablesOp<T>)

REGISTER_POOL_VARIABLES(float);
REGISTER_POOL_VARIABLES(double);

#undef REGISTER_POOL_VARIABLES

}  // namespace tf_booster
