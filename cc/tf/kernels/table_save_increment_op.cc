// TfBoosterTableMarks, TfBoosterTableSaveIncrement: what changed in tables since a mark of each, as a checkpoint.
#include <algorithm>
#include <string>
#include <vector>

#include "cc/tf/kernels/checkpoint_writer.h"
#include "cc/tf/kernels/listed_tables.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_INT64;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

constexpr int64_t kMarkSize = 4;  // step, edits, evicted, listed_from

FieldMark ReadMark(const Tensor& marks, int64_t i) {
  const int64_t* const mark = marks.flat<int64_t>().data() + i * kMarkSize;
  return {mark[0], mark[1], mark[2], mark[3]};
}

void WriteMark(const FieldMark& mark, int64_t i, Tensor* marks) {
  const int64_t values[] = {mark.step, mark.edits, mark.evicted, mark.listed_from};
  std::copy_n(values, kMarkSize, marks->flat<int64_t>().data() + i * kMarkSize);
}

// Some fields of one table, from ExportChanges to the writer.
class IncrementToCheckpoint {
 public:
  IncrementToCheckpoint(const TableCall& call, const ListedTable& table, int64_t number, CheckpointWriter* writer)
      : call_(call), table_(table), number_(number), writer_(writer) {}

  TfStatus Write(const std::vector<FieldChanges>& wanted, ParallelFor& pf) {
    // TensorFlow's own error must come back from the callback as it was, so it is kept here.
    TfStatus written;
    const auto begin = [&](const std::vector<FieldChanges>& settled) {
      settled_ = settled;
      return Status();
    };
    const auto write = [&](const ContentsPiece& piece) {
      written = BeginUntil(piece.place, piece.array);
      if (written.ok()) written = writer_->Append(piece.data, piece.bytes);
      return written.ok() ? Status() : Status(StatusCode::kInternal, "it was not written");
    };
    const Status exported = call_.table().ExportChanges(wanted, begin, write, pf);
    TF_RETURN_IF_ERROR(written);
    TF_RETURN_IF_ERROR(call_.Convert(exported));
    return BeginUntil(table_.fields.size(), ContentsArray::kKeys);
  }

 private:
  // Begins the arrays up to this one, in the order of ExportChanges, which gives nothing of those that are empty.
  TfStatus BeginUntil(size_t place, ContentsArray array) {
    while (place_ < table_.fields.size() && (place_ < place || (place_ == place && array_ <= array))) {
      TF_RETURN_IF_ERROR(BeginNext());
      GoOn();
    }
    return tensorflow::OkStatus();
  }

  void GoOn() {
    const FieldChanges& settled = settled_[place_];
    if (array_ == ContentsArray::kKeys) {
      array_ = ContentsArray::kValues;
    } else if (array_ == ContentsArray::kValues && (settled.all_keys || settled.left_keys)) {
      array_ = settled.all_keys ? ContentsArray::kAllKeys : ContentsArray::kLeftKeys;
    } else {
      ++place_;
      array_ = ContentsArray::kKeys;
    }
  }

  TfStatus BeginNext() {
    const std::string start = table_.names[place_] + "/";
    if (array_ == ContentsArray::kValues) return writer_->BeginRows(start + "values", DT_FLOAT, call_.resource().dim());
    if (array_ == ContentsArray::kAllKeys) return writer_->BeginRows(start + "all_keys", DT_INT64, 0);
    if (array_ == ContentsArray::kLeftKeys) return writer_->BeginRows(start + "left_keys", DT_INT64, 0);
    TF_RETURN_IF_ERROR(writer_->AddScalar(start + "increment", number_));
    TF_RETURN_IF_ERROR(writer_->AddScalar(start + "since_step", settled_[place_].since.step));
    TF_RETURN_IF_ERROR(writer_->AddScalar(start + "step", settled_[place_].now.step));
    return writer_->BeginRows(start + "keys", DT_INT64, 0);
  }

  const TableCall& call_;
  const ListedTable& table_;
  const int64_t number_;
  CheckpointWriter* const writer_;
  std::vector<FieldChanges> settled_;
  // The array that is to begin next.
  size_t place_ = 0;
  ContentsArray array_ = ContentsArray::kKeys;
};

}  // namespace

class TableMarksOp : public tensorflow::OpKernel {
 public:
  explicit TableMarksOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadListedTables(ctx, &tables_));
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    Tensor* marks = nullptr;
    const int64_t size = tables_.back().first + static_cast<int64_t>(tables_.back().fields.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {size, kMarkSize}, &marks));
    for (size_t i = 0; i < tables_.size(); ++i) {
      OP_REQUIRES_OK(ctx, call.Open(static_cast<int>(i)));
      for (size_t f = 0; f < tables_[i].fields.size(); ++f) {
        FieldMark mark;
        OP_REQUIRES_OK(ctx, call.Convert(call.table().ListLeaving(tables_[i].fields[f])));
        OP_REQUIRES_OK(ctx, call.Convert(call.table().ReadMark(tables_[i].fields[f], &mark)));
        WriteMark(mark, tables_[i].first + static_cast<int64_t>(f), marks);
      }
    }
  }

 private:
  std::vector<ListedTable> tables_;
};

class TableSaveIncrementOp : public tensorflow::OpKernel {
 public:
  explicit TableSaveIncrementOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadListedTables(ctx, &tables_));
    size_ = tables_.back().first + static_cast<int64_t>(tables_.back().fields.size());
  }

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    const int inputs = ctx->num_inputs();
    const Tensor &since = ctx->input(inputs - 4), &all_keys = ctx->input(inputs - 3);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckScalar(ctx->input(inputs - 2), "number"));
    OP_REQUIRES_OK(ctx, call.CheckScalar(ctx->input(inputs - 1), "prefix"));
    OP_REQUIRES_OK(ctx, call.CheckVector(all_keys, "all_keys", size_, "fields"));
    const tensorflow::TensorShape wanted({size_, kMarkSize});
    OP_REQUIRES(ctx, since.shape() == wanted,
                tensorflow::errors::InvalidArgument(call.Where(), "since has the shape ", since.shape().DebugString(),
                                                    ", but must be ", wanted.DebugString(),
                                                    "; give it what TableMarks gave of the same fields"));
    CheckpointWriter writer(ctx->input(inputs - 1).scalar<tensorflow::tstring>()());
    OP_REQUIRES_OK(ctx, writer.Open());
    for (size_t i = 0; i < tables_.size(); ++i) {
      OP_REQUIRES_OK(ctx, call.Open(static_cast<int>(i)));
      std::vector<FieldChanges> changes;
      for (size_t f = 0; f < tables_[i].fields.size(); ++f) {
        const int64_t place = tables_[i].first + static_cast<int64_t>(f);
        changes.push_back({tables_[i].fields[f], ReadMark(since, place), all_keys.flat<bool>()(place)});
      }
      IncrementToCheckpoint table(call, tables_[i], ctx->input(inputs - 2).scalar<int64_t>()(), &writer);
      OP_REQUIRES_OK(ctx, table.Write(changes, call.parallel_for()));
    }
    OP_REQUIRES_OK(ctx, writer.Finish());
  }

 private:
  std::vector<ListedTable> tables_;
  int64_t size_ = 0;  // Of all fields.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableMarks").Device(tensorflow::DEVICE_CPU), TableMarksOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSaveIncrement").Device(tensorflow::DEVICE_CPU), TableSaveIncrementOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterTableMarks").Device(tensorflow::DEVICE_GPU).HostMemory("tables").HostMemory("marks"), TableMarksOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableSaveIncrement")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("tables")
                            .HostMemory("since")
                            .HostMemory("all_keys")
                            .HostMemory("number")
                            .HostMemory("prefix"),
                        TableSaveIncrementOp);

}  // namespace tf_booster
