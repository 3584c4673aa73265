// The probe of a training step and the fused sparse update of a table, in the card's memory.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_GPU_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_GPU_H_

#include "cc/core/base/allocator.h"
#include "cc/core/base/status.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/optimizer/element_steps.h"
#include "cc/core/optimizer/multi_apply_gpu.h"
#include "cc/core/optimizer/sparse_apply.h"

namespace tf_booster {
namespace gpu {

// The steps of tables: those of element_steps.h, with the attributes that the tables' ops have.
namespace table_step {

using GradientDescent = element::GradientDescent<float>;
using Momentum = element::Momentum<float>;
using KerasMomentum = element::KerasMomentum<float>;
using Adagrad = element::Adagrad<float>;
using AdagradV2 = element::AdagradV2<float>;
using Adam = element::Adam<float>;

// With the host's order of terms for rows of one column.
template <bool kOneColumn>
struct FtrlOf {
  using Type = float;
  static constexpr int kSlots = 2;
  static constexpr int kScalars = 5;
  FtrlOptions options;
  TFB_HOST_DEVICE FtrlOf(const float* s, bool by_lr) : options{s[0], s[1], s[2], s[3], s[4], by_lr} {}

  TFB_HOST_DEVICE void Step(float grad, float* v) const {
    if (options.lr_power == -0.5f) {
      tf_booster::Ftrl<true, kOneColumn>{options}(grad, v[0], v[1], v[2]);
    } else {
      tf_booster::Ftrl<false, kOneColumn>{options}(grad, v[0], v[1], v[2]);
    }
  }
};
struct Ftrl : FtrlOf<false> {
  using OneColumn = FtrlOf<true>;
  using FtrlOf<false>::FtrlOf;
};

struct RMSProp : element::FormulaStep<float, BasicRMSProp<float>, 4> {
  TFB_HOST_DEVICE RMSProp(const float* s, bool outside)
      : element::FormulaStep<float, BasicRMSProp<float>, 4>{{{s[0], s[1], s[2], s[3], outside}}} {}
};
struct CenteredRMSProp : element::FormulaStep<float, BasicCenteredRMSProp<float>, 4> {
  TFB_HOST_DEVICE CenteredRMSProp(const float* s, bool outside)
      : element::FormulaStep<float, BasicCenteredRMSProp<float>, 4>{{{s[0], s[1], s[2], s[3], outside}}} {}
};

}  // namespace table_step

// clang-format off
#define TFB_TABLE_STEPS(X) \
  X(GradientDescent) X(Momentum) X(KerasMomentum) X(Adagrad) X(AdagradV2) X(Adam) X(Ftrl) X(RMSProp) X(CenteredRMSProp)
// clang-format on

// As SparseApply, but all arrays are in device memory, sums have the order of row_groups.h, which never depends on
// scheduling, and a code that names no key is passed over. Keys of field kNoField are none. `allocator`: of scratch
// memory, of which the stream's order takes care.
template <class Step>
Status TableApplyAsync(GpuTable& table, const SparseApplyBatch& batch, const StepInputs<float>& inputs,
                       Allocator* allocator, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_GPU_H_
