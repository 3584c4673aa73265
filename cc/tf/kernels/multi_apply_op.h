// The kernel of every TfBoosterMultiApply… op: checks the inputs, locks the Variables, and steps through their blocks.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_

#include <algorithm>
#include <vector>

#include "cc/tf/kernels/dense_formulas.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "cc/tf/kernels/variables_op.h"

namespace tf_booster {

// What does not depend on dtype and formula.
class MultiApplyOpBase : public VariablesOp {
 public:
  MultiApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots, dense::ScalarNames scalars, const char* flag);

 protected:
  // The step's tensors as ranges of blocks: Variable i has the blocks [first_block[i], first_block[i + 1]) and starts
  // at element first_element[i] of a packed gradient.
  struct Blocks {
    std::vector<int64_t> first_block, first_element;
  };

  tensorflow::Status CheckShapes(tensorflow::OpKernelContext* ctx, const LockedVariables& vars, Blocks* blocks) const;
  // Whether the gradients are one flat tensor.
  bool is_packed(tensorflow::OpKernelContext* ctx) const;

  int num_grads_ = 0;
};

template <class T, template <class> class Formula>
class MultiApplyOp final : public MultiApplyOpBase {
 public:
  explicit MultiApplyOp(tensorflow::OpKernelConstruction* ctx)
      : MultiApplyOpBase(ctx, Formula<T>::kSlots, Formula<T>::Names(), Formula<T>::kFlag) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    Blocks blocks;
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars, &blocks));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx));
    Apply(ctx, &vars, blocks, Formula<T>(ReadScalars<T>(ctx).data(), flag_));
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
      grads[i] = is_packed(ctx) ? ctx->input(first_tensor()).template flat<T>().data() + blocks.first_element[i]
                                : ctx->input(first_tensor() + i).template flat<T>().data();
    }
    auto step = [&](int64_t begin, int64_t end) {
      if (begin == end) return;
      const auto& first = blocks.first_block;
      int64_t i = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1;
      for (int64_t b = begin; b < end; ++b) {
        while (b >= first[i + 1]) ++i;
        const int64_t offset = (b - first[i]) * dense::kBlock;
        const int64_t size = blocks.first_element[i + 1] - blocks.first_element[i];
        T* block[kArrays];
        for (int k = 0; k < kArrays; ++k) block[k] = arrays[i * kArrays + k] + offset;
        formula.Step(block, grads[i] + offset, std::min(dense::kBlock, size - offset));
      }
    };
    if (vars->HasDuplicates(first_scalar())) {
      // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
      for (int i = 0; i < num_vars_; ++i) step(blocks.first_block[i], blocks.first_block[i + 1]);
      return;
    }
    const int64_t total = blocks.first_block.back();
    const int64_t bytes = blocks.first_element.back() * static_cast<int64_t>(sizeof(T)) * kArrays;
    const double bytes_a_block = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(total, 1));
    TfParallelFor(ctx).Run(total, 20 + static_cast<int64_t>(bytes_a_block * kNsPerByte), step);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_APPLY_OP_H_
