// What TfBoosterPoolLookups, its gradient and its kin share, on the CPU and on the GPU: their inputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_POOLING_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_POOLING_OP_H_

#include <string>
#include <vector>

#include "cc/core/pooling/segment_pooling.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/variable_reads.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class PoolingOp : public tensorflow::OpKernel {
 public:
  explicit PoolingOp(tensorflow::OpKernelConstruction* ctx);

 protected:
  // The inputs, lookup by lookup. ids: how many places each has.
  struct Lookups {
    VariableReads variables;  // Those that `rows` are values of.
    std::vector<const tensorflow::Tensor*> grads, rows;
    std::vector<PoolingSegments> segments;
    std::vector<const int64_t*> wide_idx;  // In place of the segments' idx, or null.
    std::vector<int64_t> ids;
  };

  // InvalidArgument: lengths that do not fit together. Values are not looked at.
  tensorflow::Status ReadLookups(tensorflow::OpKernelContext* ctx, Lookups* lookups) const;
  tensorflow::Status ReadGradients(tensorflow::OpKernelContext* ctx, Lookups* lookups) const;

  // InvalidArgument: values of idx or row_splits that would be read outside of the inputs. For inputs in host memory.
  tensorflow::Status CheckPlaces(const Lookups& lookups) const;

  tensorflow::Status Invalid(int i, const std::string& what) const;

  int n() const { return n_; }

  // Whether places have ids of Variables in place of numbers of distinct rows.
  bool of_variables() const { return of_variables_; }

  // Where the gradient of lookup i begins in its matrix.
  int64_t grad_column(int i) const { return grad_columns_.empty() ? 0 : grad_columns_[i]; }

 private:
  // Sets `rows`: the input of this name, unless the op has them from elsewhere.
  virtual tensorflow::Status ReadRows(tensorflow::OpKernelContext* ctx, Lookups* lookups) const;
  tensorflow::Status ReadSegments(tensorflow::OpKernelContext* ctx, Lookups* lookups) const;

  int n_ = 0;
  bool of_variables_ = false;
  std::vector<Combiner> combiners_;
  std::vector<int64_t> grad_columns_;  // Empty: gradients are whole matrices.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_POOLING_OP_H_
