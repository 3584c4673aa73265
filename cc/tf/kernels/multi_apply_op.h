// The kernel of every TfBoosterMultiApply… op: checks the inputs, locks the Variables, and steps through their blocks.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_

#include <algorithm>
#include <vector>

#include "cc/tf/kernels/dense_formulas.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "cc/tf/kernels/variable_access.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// What does not depend on dtype and formula.
class MultiApplyOpBase : public tensorflow::OpKernel {
 public:
  MultiApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots, int scalars, const char* flag);

 protected:
  // The step's tensors as ranges of blocks: Variable i has the blocks [first_block[i], first_block[i + 1]) and starts
  // at element first_element[i] of a flat gradient.
  struct Blocks {
    std::vector<int64_t> first_block, first_element;
  };

  // The error's start: "TfBoosterMultiApplyAdam 'name': ".
  std::string Where() const;
  tensorflow::Status CheckShapes(tensorflow::OpKernelContext* ctx, const LockedVariables& vars, Blocks* blocks) const;
  tensorflow::Status CheckScalars(tensorflow::OpKernelContext* ctx, const dense::ScalarNames& names) const;
  // Whether the gradients are one flat tensor.
  bool is_packed(tensorflow::OpKernelContext* ctx) const;

  int first_scalar() const { return (1 + slots_) * num_vars_; }
  int first_grad() const { return first_scalar() + scalars_; }

  const int slots_, scalars_;
  int num_vars_ = 0;
  int num_grads_ = 0;
  bool flag_ = false;
};

template <class T, template <class> class Formula>
class MultiApplyOp final : public MultiApplyOpBase {
 public:
  explicit MultiApplyOp(tensorflow::OpKernelConstruction* ctx)
      : MultiApplyOpBase(ctx, Formula<T>::kSlots, static_cast<int>(Formula<T>::Names().size()), Formula<T>::kFlag) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const dense::ScalarNames names = Formula<T>::Names();
    OP_REQUIRES_OK(ctx, CheckScalars(ctx, names));
    std::vector<T> scalars;
    for (int i = 0; i < scalars_; ++i) scalars.push_back(ctx->input(first_scalar() + i).template scalar<T>()());
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    Blocks blocks;
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars, &blocks));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx));
    Apply(ctx, &vars, blocks, Formula<T>(scalars.data(), flag_));
  }

 private:
  static constexpr int kArrays = 1 + Formula<T>::kSlots;
  // A read, a write and a few operations an array: from the second-level cache 0.3 ns for a float.
  static constexpr double kNsPerByte = 0.08;

  void Apply(tensorflow::OpKernelContext* ctx, LockedVariables* vars, const Blocks& blocks, const Formula<T>& formula) {
    std::vector<T*> arrays(kArrays * num_vars_);
    std::vector<const T*> grads(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k < kArrays; ++k) arrays[i * kArrays + k] = vars->data<T>(k * num_vars_ + i);
      grads[i] = is_packed(ctx) ? ctx->input(first_grad()).template flat<T>().data() + blocks.first_element[i]
                                : ctx->input(first_grad() + i).template flat<T>().data();
    }
    const int64_t total = blocks.first_block.back();
    const double elements = static_cast<double>(blocks.first_element.back());
    const int64_t cost_ns =
        20 + static_cast<int64_t>(elements / std::max<int64_t>(total, 1) * sizeof(T) * kArrays * kNsPerByte);
    auto step = [&](int64_t begin, int64_t end) {
      int i = static_cast<int>(std::upper_bound(blocks.first_block.begin(), blocks.first_block.end(), begin) -
                               blocks.first_block.begin()) -
              1;
      for (int64_t b = begin; b < end; ++b) {
        while (b >= blocks.first_block[i + 1]) ++i;
        const int64_t offset = (b - blocks.first_block[i]) * dense::kBlock;
        const int64_t size = blocks.first_element[i + 1] - blocks.first_element[i];
        T* block[kArrays];
        for (int k = 0; k < kArrays; ++k) block[k] = arrays[i * kArrays + k] + offset;
        formula.Step(block, grads[i] + offset, std::min(dense::kBlock, size - offset));
      }
    };
    TfParallelFor pf(ctx);
    if (!vars->HasDuplicates(first_scalar())) return pf.Run(total, cost_ns, step);
    // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
    for (int i = 0; i < num_vars_; ++i) step(blocks.first_block[i], blocks.first_block[i + 1]);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_
