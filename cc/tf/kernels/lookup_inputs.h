// Reads the list inputs of the lookup ops: PrepareLookups, PoolLookups, MultiGather.
#ifndef TF_BOOSTER_CC_TF_KERNELS_LOOKUP_INPUTS_H_
#define TF_BOOSTER_CC_TF_KERNELS_LOOKUP_INPUTS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// The tensors of the list input `name`; with a rank other than -1, each must have it.
inline tensorflow::Status TensorsOf(tensorflow::OpKernelContext* ctx, const char* name, int rank,
                                    std::vector<const tensorflow::Tensor*>* tensors) {
  tensorflow::OpInputList list;
  TF_RETURN_IF_ERROR(ctx->input_list(name, &list));
  tensors->clear();
  for (int i = 0; i < list.size(); ++i) {
    const tensorflow::Tensor& tensor = list[i];
    if (rank >= 0 && tensor.dims() != rank) {
      return tensorflow::errors::InvalidArgument(ctx->op_kernel().type_string(), " '", ctx->op_kernel().name(),
                                                 "': ", name, "[", i, "] has shape ", tensor.shape().DebugString(),
                                                 ", wanted rank ", rank);
    }
    tensors->push_back(&tensor);
  }
  return tensorflow::OkStatus();
}

// A list that may be left out has `n` entries or none.
inline tensorflow::Status CheckListSize(tensorflow::OpKernelConstruction* ctx, const char* name, int64_t size,
                                        int64_t n, bool may_be_empty) {
  if (size == n || (may_be_empty && size == 0)) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': ", name, " has ", size,
                                             " entries, wanted ", n, may_be_empty ? " or none" : "");
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_LOOKUP_INPUTS_H_
