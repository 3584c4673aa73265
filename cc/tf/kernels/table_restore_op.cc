// TfBoosterTableRestore: replaces fields of a table by what a checkpoint holds, which is read a piece at a time. The
// table changes when all is read and checked.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/table_checkpoint.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_booster {

class TableRestoreOp : public tensorflow::OpKernel {
 public:
  explicit TableRestoreOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("checkpoint_names", &checkpoint_names_));
    OP_REQUIRES_OK(ctx, ReadFields(ctx, "fields", &fields_));
    OP_REQUIRES_OK(ctx, ReadKeyPart(ctx, &part_));
    OP_REQUIRES(
        ctx, fields_.size() == checkpoint_names_.size() || (fields_.empty() && checkpoint_names_.size() == 1),
        tensorflow::errors::InvalidArgument("TableRestore: fields has ", fields_.size(), " entries, but there are ",
                                            checkpoint_names_.size(), " checkpoint_names; give each its field"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, fields_.empty() ? call.OpenField() : call.Open());
    const std::vector<uint32_t> fields = fields_.empty() ? std::vector<uint32_t>{call.field()} : fields_;
    OP_REQUIRES_OK(ctx, CheckFields(call, fields));
    OP_REQUIRES_OK(ctx, call.CheckScalar(ctx->input(1), "prefix"));
    const std::string prefix = ctx->input(1).scalar<tensorflow::tstring>()();
    if (call.resource().borrowed_checkpoint()) {
      OP_REQUIRES_OK(ctx, CheckBorrowed(call, fields, prefix));
      return;
    }
    std::vector<std::unique_ptr<TableCheckpoint>> checkpoints;
    std::vector<ContentsSource> sources;
    for (size_t i = 0; i < fields.size(); ++i) {
      call.SetField(fields[i]);
      checkpoints.push_back(std::make_unique<TableCheckpoint>(call, prefix, checkpoint_names_[i], part_));
      OP_REQUIRES_OK(ctx, checkpoints[i]->Open());
      OP_REQUIRES(ctx, !checkpoints[i]->increment(),
                  tensorflow::errors::InvalidArgument(
                      call.Where(), "'", prefix, "' is an increment, with the rows alone that changed in some steps; ",
                      "restore a checkpoint, or apply it to a served model by tf_booster.apply_increments"));
      sources.push_back(checkpoints[i]->Source(fields[i]));
    }
    if (fields.size() > 1) call.SetField(-1);
    const Status imported = call.table().ImportPieces(sources, call.parallel_for());
    for (const auto& checkpoint : checkpoints) OP_REQUIRES_OK(ctx, checkpoint->status());
    OP_REQUIRES_OK(ctx, call.Convert(imported, absl::StrCat("checkpoint '", prefix, "'")));
    for (const uint32_t field : fields) call.resource().increments().Forget(field);
    for (size_t i = 0; i < fields.size() && call.resource().num_slots() > 0; ++i) {
      const TableCheckpoint& checkpoint = *checkpoints[i];
      if (checkpoint.has_slots()) continue;
      call.SetField(fields[i]);
      LOG(WARNING) << call.Where() << "checkpoint '" << prefix << "' has "
                   << (checkpoint.optimizer().empty() ? "no optimizer's slots"
                                                      : absl::StrCat("the slots of '", checkpoint.optimizer(), "'"))
                   << "; its rows are restored, and the slots of '" << call.resource().config().optimizer
                   << "' start anew";
    }
  }

 private:
  // That it is what a borrowed table is already.
  tensorflow::Status CheckBorrowed(const TableCall& call, const std::vector<uint32_t>& fields,
                                   const std::string& prefix) const {
    const std::string& borrowed = *call.resource().borrowed_checkpoint();
    if (borrowed.empty()) return tensorflow::OkStatus();  // What the training has comes in place of any checkpoint.
    bool is_own = prefix == borrowed;
    for (size_t i = 0; i < fields.size(); ++i) {
      is_own &= checkpoint_names_[i] == call.resource().config().options.fields[fields[i]].name;
    }
    return is_own ? tensorflow::OkStatus() : call.CheckOwned();
  }

  static tensorflow::Status CheckFields(const TableCall& call, const std::vector<uint32_t>& fields) {
    const size_t known = call.resource().config().options.fields.size();
    for (const uint32_t field : fields) {
      if (field >= known) {
        return tensorflow::errors::InvalidArgument(call.Where(), "fields has the entry ", field, ", but the table has ",
                                                   known, " fields; give the op fields of this table");
      }
    }
    return tensorflow::OkStatus();
  }

  std::vector<std::string> checkpoint_names_;
  KeyPart part_;
  std::vector<uint32_t> fields_;  // Empty: the one that the handle is of.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableRestore").Device(tensorflow::DEVICE_CPU), TableRestoreOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableRestore").Device(tensorflow::DEVICE_GPU).HostMemory("table").HostMemory("prefix"),
    TableRestoreOp);

}  // namespace tf_booster
