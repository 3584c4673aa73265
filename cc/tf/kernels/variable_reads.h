// Variables that an op reads where they are, or takes rows of, while nobody writes to them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_VARIABLE_READS_H_
#define TF_BOOSTER_CC_TF_KERNELS_VARIABLE_READS_H_

#include <deque>

#include "cc/tf/kernels/variable_access.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class VariableReads {
 public:
  // The Variables of the first `n` inputs. An error, as of ResourceGather, if one is not initialized.
  tensorflow::Status LookUp(tensorflow::OpKernelContext* ctx, int n) {
    variables_.resize(n);
    for (int i = 0; i < n; ++i) {
      TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, i), &variables_[i]));
    }
    return tensorflow::OkStatus();
  }

  // Until this is gone there are readers only.
  void Lock() TF_NO_THREAD_SAFETY_ANALYSIS {
    for (tensorflow::mutex* mutex : MutexesOf(variables_)) locks_.emplace_back(*mutex);
  }

  tensorflow::Var* variable(int i) const { return variables_[i].get(); }

  // The value of Variable i. InvalidArgument: another dtype.
  tensorflow::Status Value(const tensorflow::OpKernel& op, int i, tensorflow::DataType dtype,
                           const tensorflow::Tensor** value) const {
    *value = variables_[i]->tensor();
    if ((*value)->dtype() == dtype) return tensorflow::OkStatus();
    return tensorflow::errors::InvalidArgument(op.type_string(), " '", op.name(), "': resources[", i, "] has dtype ",
                                               tensorflow::DataTypeString((*value)->dtype()), ", wanted ",
                                               tensorflow::DataTypeString(dtype));
  }

 private:
  Variables variables_;
  std::deque<tensorflow::tf_shared_lock> locks_;  // Of `variables_`, which outlive them.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_VARIABLE_READS_H_
