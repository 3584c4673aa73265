// TfBoosterHashTable on the host, and TfBoosterTableField: one of the tables that it consists of.
#include <string>

#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/table_handle_op.h"
#include "cc/tf/kernels/table_kernel.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class TableFieldOp : public tensorflow::OpKernel {
 public:
  explicit TableFieldOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("field", &field_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    const TableResource& fused = call.resource();
    const int64_t fields = static_cast<int64_t>(fused.config().options.fields.size());
    OP_REQUIRES(ctx, fused.field() < 0 && field_ < fields,
                tensorflow::errors::InvalidArgument(call.Where(), "field is ", field_, ", but the table has ", fields,
                                                    " fields; give the op a fused table and one of its fields"));
    const tensorflow::ResourceHandle& whole = tensorflow::HandleFromInput(ctx, 0);
    const std::string name = absl::StrCat(whole.name(), "/field/", field_);
    tensorflow::ResourceMgr* manager = ctx->resource_manager();
    tensorflow::core::RefCountPtr<TableResource> resource;
    // A second turn, for where the whole table was deleted by name and made anew.
    for (int turn = 0; turn < 2 && (resource == nullptr || !resource->IsPartOf(fused)); ++turn) {
      if (turn > 0) manager->Delete<TableResource>(whole.container(), name).IgnoreError();
      TableResource* found = nullptr;
      const auto make = [&](TableResource** made) {
        *made = new TableResource(fused, field_);
        return tensorflow::OkStatus();
      };
      OP_REQUIRES_OK(ctx, manager->LookupOrCreate<TableResource>(whole.container(), name, &found, make));
      resource.reset(found);
    }
    tensorflow::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::MakeResourceHandle<TableResource>(ctx, whole.container(), name);
  }

  bool IsExpensive() override { return false; }

 private:
  int64_t field_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableField").Device(tensorflow::DEVICE_CPU), TableFieldOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterHashTable").Device(tensorflow::DEVICE_CPU), TableHandleOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableField").Device(tensorflow::DEVICE_GPU).HostMemory("fused").HostMemory("table"), TableFieldOp);

}  // namespace tf_booster
