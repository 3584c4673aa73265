// TfBoosterTableSave: fields of tables as a checkpoint of their own, for savers, without room for them in memory. Whole
// tables are lent from then on to sessions that restore it.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/tf/kernels/checkpoint_writer.h"
#include "cc/tf/kernels/device_place.h"
#include "cc/tf/kernels/lent_tables.h"
#include "cc/tf/kernels/listed_tables.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_INT64;
using tensorflow::TensorShape;
using TfStatus = tensorflow::Status;

// Some fields of one table, from ExportPieces to the writer.
class TableToCheckpoint {
 public:
  TableToCheckpoint(const TableCall& call, const ListedTable& table, bool with_slots, CheckpointWriter* writer)
      : call_(call), fields_(table.fields), names_(table.names), with_slots_(with_slots), writer_(writer) {}

  TfStatus Write(ParallelFor& pf) {
    // TensorFlow's own error must come back from the callback as it was, so it is kept here.
    TfStatus written;
    const auto begin = [&](const std::vector<ContentsOut>& heads) {
      heads_ = heads;
      return Status();
    };
    const auto write = [&](const ContentsPiece& piece) {
      written = BeginUntil(piece);
      if (written.ok()) written = writer_->Append(piece.data, piece.bytes);
      return written.ok() ? Status() : Status(StatusCode::kInternal, "it was not written");
    };
    const Status exported = call_.table().ExportPieces(fields_, with_slots_, begin, write, pf);
    TF_RETURN_IF_ERROR(written);
    TF_RETURN_IF_ERROR(call_.Convert(exported));
    return BeginUntil({fields_.size(), ContentsArray::kKeys});
  }

 private:
  // Begins the arrays up to that of the piece, in the order of ExportPieces; it gives nothing of those that are empty.
  TfStatus BeginUntil(const ContentsPiece& piece) {
    const auto place = [](const ContentsPiece& p) { return std::make_tuple(p.place, p.array, p.slot); };
    for (; next_.place < fields_.size() && place(next_) <= place(piece); GoOn()) TF_RETURN_IF_ERROR(BeginNext());
    return tensorflow::OkStatus();
  }

  void GoOn() {
    const size_t slots = with_slots_ ? heads_[next_.place].slots.size() : 0;
    if (next_.array == ContentsArray::kPendingCounts) {
      next_ = {next_.place + 1, ContentsArray::kKeys};
    } else if (next_.array == ContentsArray::kSlot && next_.slot + 1 < slots) {
      ++next_.slot;
    } else {
      const bool no_slots = next_.array == ContentsArray::kValues && slots == 0;
      next_ = {next_.place, static_cast<ContentsArray>(static_cast<int>(next_.array) + (no_slots ? 2 : 1))};
    }
  }

  TfStatus BeginNext() {
    const ContentsOut& head = heads_[next_.place];
    const std::string start = names_[next_.place] + "/";
    const TensorShape rows({head.rows}), pending({head.pending}), matrix({head.rows, call_.resource().dim()});
    switch (next_.array) {
      case ContentsArray::kKeys:
        TF_RETURN_IF_ERROR(writer_->AddScalar(start + "step", head.step));
        TF_RETURN_IF_ERROR(writer_->AddScalar(start + "seed", static_cast<int64_t>(*head.seed)));
        TF_RETURN_IF_ERROR(writer_->AddScalar(start + "optimizer", call_.resource().config().optimizer));
        return writer_->Begin(start + "keys", DT_INT64, rows);
      case ContentsArray::kValues:
        return writer_->Begin(start + "values", DT_FLOAT, matrix);
      case ContentsArray::kSlot:
        return writer_->Begin(start + "slots/" + call_.resource().config().slot_names[next_.slot], DT_FLOAT, matrix);
      case ContentsArray::kFrequencies:
        return writer_->Begin(start + "frequencies", DT_INT64, rows);
      case ContentsArray::kLastSteps:
        return writer_->Begin(start + "last_use_steps", DT_INT64, rows);
      case ContentsArray::kPendingKeys:
        return writer_->Begin(start + "pending_keys", DT_INT64, pending);
      case ContentsArray::kPendingCounts:
        return writer_->Begin(start + "pending_counts", DT_INT64, pending);
      case ContentsArray::kAllKeys:
      case ContentsArray::kLeftKeys:
        break;  // ExportChanges gives them alone.
    }
    return tensorflow::OkStatus();
  }

  const TableCall& call_;
  const std::vector<uint32_t>& fields_;
  const std::vector<std::string>& names_;
  const bool with_slots_;
  CheckpointWriter* const writer_;
  std::vector<ContentsOut> heads_;
  ContentsPiece next_;  // The array that is to begin next.
};

}  // namespace

class TableSaveOp : public tensorflow::OpKernel {
 public:
  explicit TableSaveOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadListedTables(ctx, &tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("with_slots", &with_slots_));
    OP_REQUIRES(
        ctx, with_slots_.size() == tables_.size(),
        tensorflow::errors::InvalidArgument("TableSave: with_slots has ", with_slots_.size(),
                                            " entries, but there are ", tables_.size(), " tables; give each its own"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckScalar(ctx->input(ctx->num_inputs() - 1), "prefix"));
    const std::string prefix = ctx->input(ctx->num_inputs() - 1).scalar<tensorflow::tstring>()();
    CheckpointWriter writer(prefix);
    OP_REQUIRES_OK(ctx, writer.Open());
    const DevicePlace place(ctx);
    for (size_t i = 0; i < tables_.size(); ++i) {
      OP_REQUIRES_OK(ctx, call.Open(static_cast<int>(i)));
      std::vector<FieldMark> before, after;
      OP_REQUIRES_OK(ctx, ReadMarks(call.table(), &before));
      TableToCheckpoint table(call, tables_[i], with_slots_[i], &writer);
      OP_REQUIRES_OK(ctx, table.Write(call.parallel_for()));
      OP_REQUIRES_OK(ctx, ReadMarks(call.table(), &after));
      if (IsWhole(tables_[i], call.resource()) && before == after) {
        LentTables::Global().Lend(prefix, call.resource(), std::move(after), place);
      }
    }
    OP_REQUIRES_OK(ctx, writer.Finish());
  }

 private:
  // Whether all fields are listed, under their own names.
  static bool IsWhole(const ListedTable& listed, const TableResource& resource) {
    const std::vector<FieldOptions>& fields = resource.config().options.fields;
    for (size_t i = 0; i < listed.fields.size(); ++i) {
      if (listed.fields[i] >= fields.size() || listed.names[i] != fields[listed.fields[i]].name) return false;
    }
    return listed.fields.size() == fields.size();  // No field is listed twice.
  }

  std::vector<ListedTable> tables_;
  std::vector<bool> with_slots_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSave").Device(tensorflow::DEVICE_CPU), TableSaveOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableSave").Device(tensorflow::DEVICE_GPU).HostMemory("tables").HostMemory("prefix"), TableSaveOp);

}  // namespace tf_booster
