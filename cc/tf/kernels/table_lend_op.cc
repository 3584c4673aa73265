// TfBoosterTableLend: lets other sessions of this process read tables as they are now.
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/kernels/device_place.h"
#include "cc/tf/kernels/lent_tables.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

class TableLendOp : public tensorflow::OpKernel {
 public:
  explicit TableLendOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lender", &lender_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      OP_REQUIRES_OK(ctx, call.Open(i));
      std::vector<FieldMark> marks;
      OP_REQUIRES_OK(ctx, ReadMarks(call.table(), &marks));
      LentTables::Global().Lend(lender_, call.resource(), std::move(marks), DevicePlace(ctx));
    }
  }

 private:
  std::string lender_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableLend").Device(tensorflow::DEVICE_CPU), TableLendOp);
// On a GPU with handles in host memory: nothing of a table is moved.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableLend").Device(tensorflow::DEVICE_GPU).HostMemory("tables"), TableLendOp);

}  // namespace tf_booster
