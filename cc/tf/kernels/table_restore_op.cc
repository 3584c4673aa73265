// TfBoosterTableRestore: replaces a table by what a checkpoint holds. All is read and checked before the table changes.
#include <string>

#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/table_checkpoint.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_booster {

class TableRestoreOp : public tensorflow::OpKernel {
 public:
  explicit TableRestoreOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("checkpoint_name", &checkpoint_name_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckScalar(ctx->input(1), "prefix"));
    const std::string prefix = ctx->input(1).scalar<tensorflow::tstring>()();
    TableCheckpoint checkpoint(ctx, call, prefix, checkpoint_name_);
    OP_REQUIRES_OK(ctx, checkpoint.Read());
    const Status imported = call.table().Import(checkpoint.Contents(), call.parallel_for());
    OP_REQUIRES_OK(ctx, call.Convert(imported, absl::StrCat("checkpoint '", prefix, "'")));
    if (call.resource().num_slots() > 0 && !checkpoint.has_slots()) {
      LOG(WARNING) << call.Where() << "checkpoint '" << prefix << "' has "
                   << (checkpoint.optimizer().empty() ? "no optimizer's slots"
                                                      : absl::StrCat("the slots of '", checkpoint.optimizer(), "'"))
                   << "; its rows are restored, and the slots of '" << call.resource().config().optimizer
                   << "' start anew";
    }
  }

 private:
  std::string checkpoint_name_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableRestore").Device(tensorflow::DEVICE_CPU), TableRestoreOp);

}  // namespace tf_booster
