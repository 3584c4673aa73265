// Resource Variables as a fused update needs them: looked up, locked in one order, and with buffers of their own.
// variable_reads.h is for who only reads them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_
#define TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_booster {

using Variables = std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>>;

// The mutexes of some Variables, each once and in the order of their addresses, in which TensorFlow's kernels lock
// several: so no two ops wait for each other.
std::vector<tensorflow::mutex*> MutexesOf(const Variables& variables);

// The Variables of some inputs of a kernel, locked exclusively until this is destroyed.
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

  Variables vars_;
  std::vector<tensorflow::mutex_lock> locks_;  // Behind vars_: released before the references are.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_VARIABLE_ACCESS_H_
