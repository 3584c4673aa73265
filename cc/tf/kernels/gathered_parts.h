// Which Variables a lookup of TfBoosterMultiGather or TfBoosterPartitionedGather reads: one, or the parts of one.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GATHERED_PARTS_H_
#define TF_BOOSTER_CC_TF_KERNELS_GATHERED_PARTS_H_

#include <vector>

#include "cc/core/base/row_parts.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class GatheredParts {
 public:
  // From attributes `parts` and `mod`; MultiGather has none, and one Variable for each of its N lookups.
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  int num_variables() const { return first_.back(); }
  // Of lookup i: how many Variables, and the first one's number.
  int parts(int i) const { return first_[i + 1] - first_[i]; }
  int first_variable(int i) const { return first_[i]; }

  // InvalidArgument: the values of lookup i's Variables are not the parts of one table. row: the shape of a row.
  tensorflow::Status Check(const tensorflow::OpKernel& op, int i, const std::vector<const tensorflow::Tensor*>& values,
                           RowParts* rule, tensorflow::TensorShape* row) const;

 private:
  std::vector<int> first_ = {0};  // And where those of the last lookup end.
  std::vector<bool> mod_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GATHERED_PARTS_H_
