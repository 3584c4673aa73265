// The attribute skip_missing of what takes ids: in which of them -1 stands for none, as in dense features.
#ifndef TF_BOOSTER_CC_TF_KERNELS_SKIP_MISSING_H_
#define TF_BOOSTER_CC_TF_KERNELS_SKIP_MISSING_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// An entry for each of `num_ids` inputs; an empty attribute: in none of them. op: for errors.
inline tensorflow::Status ReadSkipMissing(tensorflow::OpKernelConstruction* ctx, const char* op, int num_ids,
                                          std::vector<bool>* skips) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("skip_missing", skips));
  if (skips->empty()) skips->assign(num_ids, false);
  if (static_cast<int>(skips->size()) == num_ids) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(op, ": skip_missing has ", skips->size(), " entries, but there are ",
                                             num_ids, " ids; say of each whether -1 is none");
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_SKIP_MISSING_H_
