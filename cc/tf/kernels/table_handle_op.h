// TfBoosterHashTable: makes the table at its first use in a session, and finds it afterwards.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_HANDLE_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_HANDLE_OP_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/hash_table/cpu_table.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/tf/kernels/device_place.h"
#include "cc/tf/kernels/lent_tables.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_config.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_booster {

class TableHandleOp : public tensorflow::OpKernel {
 public:
  explicit TableHandleOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadTableConfig(ctx, &config_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("container", &container_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shared_name", &name_));
    if (name_.empty()) name_ = config_.options.name;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lenders", &lenders_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lent_checkpoint", &lent_checkpoint_));
  }

  // Looks the table up at every run, not at the first alone: containers can be cleared, and then it must be made anew.
  void Compute(tensorflow::OpKernelContext* ctx) override {
    tensorflow::ResourceMgr* manager = ctx->resource_manager();
    const std::string& container = container_.empty() ? manager->default_container() : container_;
    tensorflow::core::RefCountPtr<TableResource> resource;
    TableResource* found = nullptr;
    OP_REQUIRES_OK(ctx, manager->LookupOrCreate<TableResource>(
                            container, name_, &found, [this, ctx](TableResource** made) { return Make(ctx, made); }));
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

 protected:
  // The table itself, where there is none yet.
  virtual Status NewTable(tensorflow::OpKernelContext* ctx, const TableConfig& config,
                          std::unique_ptr<HashTable>* table) const {
    CpuTableConfig memory;
    memory.disk_folder = config.directory;
    memory.row_memory = RowMemory(config);
    return NewCpuTable(config.options, table, memory);
  }
  // Of the host, for rows that may go to a disk: index and counts need memory, too.
  static MemoryProbe* RowMemory(const TableConfig& config) {
    return MachineMemory(std::max(1.0 - config.memory_fraction, 2 * kKeptBack));
  }

 private:
  tensorflow::Status Make(tensorflow::OpKernelContext* ctx, TableResource** resource) const {
    if (!lenders_.empty()) {
      std::string why;
      std::shared_ptr<HashTable> lent = LentTables::Global().Borrow(lenders_, config_, DevicePlace(ctx), &why);
      if (lent != nullptr) {
        *resource = new TableResource(config_, std::move(lent), lent_checkpoint_);
        return tensorflow::OkStatus();
      }
      if (lent_checkpoint_.empty()) {
        return tensorflow::errors::FailedPrecondition("HashTable '", config_.options.name, "': the training in this ",
                                                      "process, whose tables are read, lends none: ", why);
      }
      LOG(INFO) << "HashTable '" << config_.options.name << "': it is restored from '" << lent_checkpoint_
                << "', in place of being read where the training in this process has it: " << why;
    }
    std::unique_ptr<HashTable> table;
    TF_RETURN_IF_ERROR(ToTensorFlow(NewTable(ctx, config_, &table), "HashTable"));
    *resource = new TableResource(config_, std::move(table));
    return tensorflow::OkStatus();
  }

  TableConfig config_;
  std::string container_;
  std::string name_;
  std::vector<std::string> lenders_;  // Of LentTables; empty: the table is the session's own.
  std::string lent_checkpoint_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_HANDLE_OP_H_
