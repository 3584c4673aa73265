// What TfBoosterPrepareLookups reads and checks alike on the CPU and on the GPU: attributes, and shapes of inputs.
#ifndef TF_BOOSTER_CC_TF_KERNELS_PREPARE_LOOKUPS_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_PREPARE_LOOKUPS_OP_H_

#include <string>
#include <vector>

#include "cc/core/pooling/lookup_input.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class PrepareLookupsBase : public tensorflow::OpKernel {
 public:
  explicit PrepareLookupsBase(tensorflow::OpKernelConstruction* ctx);

 protected:
  // Lists that the op goes without are empty.
  struct Tensors {
    std::vector<const tensorflow::Tensor*> values, indices, dense_shapes, weights;
  };
  // n: ids; rank: of sparse ones' indices; rows and width: of dense ones.
  struct Shape {
    int64_t n = 0, rank = 2, rows = 0, width = 0;
  };

  tensorflow::Status Invalid(const std::string& what) const;

  // InvalidArgument: shapes that do not fit together.
  tensorflow::Status ReadTensors(tensorflow::OpKernelContext* ctx, Tensors* tensors, std::vector<Shape>* shapes) const;

  // The first of the op's weight outputs.
  int first_weight() const { return rules_.fill_rows ? 4 * n_ : 3 * n_; }

  int n_ = 0;
  bool sparse_ = false;
  bool distinct_ = true;  // Else `ids` has the id of each place, and `idx` is empty.
  LookupRules rules_;
  std::vector<int64_t> default_ids_, leading_dims_, hash_buckets_;

 private:
  tensorflow::Status SparseShape(const tensorflow::Tensor& indices, const tensorflow::Tensor* dense_shape,
                                 int64_t leading_dims, Shape* shape) const;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_PREPARE_LOOKUPS_OP_H_
