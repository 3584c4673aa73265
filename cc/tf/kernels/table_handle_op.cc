// TfBoosterHashTable: makes the table at its first use in a session, and finds it afterwards. TfBoosterTableField: one
// of the tables that it consists of.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/core/hash_table/cpu_table.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_config.h"
#include "cc/tf/kernels/table_kernel.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

class TableHandleOp : public tensorflow::OpKernel {
 public:
  explicit TableHandleOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadTableConfig(ctx, &config_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("container", &container_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shared_name", &name_));
    if (name_.empty()) name_ = config_.options.name;
  }

  // Looks the table up at every run, not at the first alone: containers can be cleared, and then it must be made anew.
  void Compute(tensorflow::OpKernelContext* ctx) override {
    tensorflow::ResourceMgr* manager = ctx->resource_manager();
    const std::string& container = container_.empty() ? manager->default_container() : container_;
    tensorflow::core::RefCountPtr<TableResource> resource;
    TableResource* found = nullptr;
    OP_REQUIRES_OK(ctx, manager->LookupOrCreate<TableResource>(container, name_, &found,
                                                               [this](TableResource** made) { return Make(made); }));
    resource.reset(found);
    const std::string difference = Difference(resource->config(), config_);
    OP_REQUIRES(ctx, difference.empty(),
                tensorflow::errors::InvalidArgument("HashTable '", config_.options.name,
                                                    "': a table of this name exists and differs in ", difference,
                                                    "; give both the same options, or the tables different names"));
    tensorflow::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::MakeResourceHandle<TableResource>(ctx, container, name_);
  }

  bool IsExpensive() override { return false; }

 private:
  tensorflow::Status Make(TableResource** resource) const {
    std::unique_ptr<HashTable> table;
    TF_RETURN_IF_ERROR(ToTensorFlow(NewCpuTable(config_.options, &table), "HashTable"));
    *resource = new TableResource(config_, std::move(table));
    return tensorflow::OkStatus();
  }

  TableConfig config_;
  std::string container_;
  std::string name_;
};

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

}  // namespace tf_booster
