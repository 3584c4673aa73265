// Resource Variables as a fused update needs them: looked up, locked in one order, and with buffers of their own.
#ifndef TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_
#define TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_booster {

// The Variables of some inputs of a kernel, locked exclusively until this is destroyed.
//
// Locks are taken in the order of their addresses, as TensorFlow's kernels do, so that no two updates wait for each
// other.
class LockedVariables {
 public:
  LockedVariables() = default;
  LockedVariables(const LockedVariables&) = delete;

  // The Variables of inputs [first, first + count). FailedPrecondition: a Variable is not initialized. InvalidArgument:
  // one has another dtype.
  tensorflow::Status Lock(tensorflow::OpKernelContext* ctx, int first, int count, tensorflow::DataType dtype);

  const tensorflow::TensorShape& shape(int i) const { return vars_[i]->tensor()->shape(); }
  const tensorflow::Tensor& value(int i) const { return *vars_[i]->tensor(); }

  // Copies the bytes of a tensor into another as large.
  using CopyBytes = tensorflow::Status (*)(tensorflow::OpKernelContext*, const tensorflow::Tensor& from,
                                           tensorflow::Tensor* to);
  static tensorflow::Status CopyOnHost(tensorflow::OpKernelContext*, const tensorflow::Tensor& from,
                                       tensorflow::Tensor* to);

  // Gives every Variable a buffer that nobody else reads, by copying those that a read still holds. Call it when all is
  // checked.
  tensorflow::Status PrepareToUpdate(tensorflow::OpKernelContext* ctx, CopyBytes copy_bytes = CopyOnHost);

  // Gives every Variable whose dense reads still share its buffer one of its own, and lets reads copy from now on: what
  // ResourceGather does before it reads rows.
  tensorflow::Status PrepareToGather(tensorflow::OpKernelContext* ctx, CopyBytes copy_bytes);

  // From now on reads copy, in place of every update: for Variables that are updated row by row.
  void CopyOnRead();

  template <class T>
  T* data(int i) {
    return vars_[i]->tensor()->flat<T>().data();
  }

  // Whether two of the first `count` are one Variable.
  bool HasDuplicates(int count) const;

 private:
  static tensorflow::Status OwnBuffer(tensorflow::OpKernelContext* ctx, tensorflow::Var* var, CopyBytes copy_bytes);

  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> vars_;
  std::vector<tensorflow::mutex_lock> locks_;  // Behind vars_: released before the references are.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_
