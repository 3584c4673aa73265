// TfBoosterCollectiveMark: counts when a collective is entered and left. A few nanoseconds; the tensor is passed on.
#include <algorithm>
#include <cstring>
#include <string>

#include "cc/core/progress/collective_progress.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class CollectiveMarkOp : public tensorflow::OpKernel {
 public:
  explicit CollectiveMarkOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string collective;
    bool entering;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("collective", &collective));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("entering", &entering));
    CollectiveProgress* const progress = ProgressOf(collective);
    count_ = entering ? &progress->entered : &progress->left;
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    count_->fetch_add(1, std::memory_order_relaxed);
    ctx->set_output(0, ctx->input(0));
  }
  bool IsExpensive() override { return false; }

 private:
  std::atomic<int64_t>* count_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterCollectiveMark").Device(tensorflow::DEVICE_CPU), CollectiveMarkOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterCollectiveMark").Device(tensorflow::DEVICE_GPU), CollectiveMarkOp);

}  // namespace tf_booster

// For Python's watchdog thread, by ctypes: a session's threads may all be waiting. Writes at most `size` bytes of
// ProgressText() to `out`, and returns how many there are.
extern "C" __attribute__((visibility("default"))) int64_t tf_booster_collective_progress(char* out, int64_t size) {
  const std::string text = tf_booster::ProgressText();
  std::memcpy(out, text.data(), std::min<int64_t>(size, text.size()));
  return text.size();
}
