// TfBoosterTableApplyIncrement: brings tables that are served up to where TableSaveIncrement found those in training.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/hash_table/missing_from.h"
#include "cc/tf/kernels/listed_tables.h"
#include "cc/tf/kernels/table_checkpoint.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using TfStatus = tensorflow::Status;

// One field and its part of an increment.
class FieldIncrement {
 public:
  FieldIncrement(TableCall* call, std::string prefix, std::string name, uint32_t field)
      : call_(*call), prefix_(std::move(prefix)), name_(std::move(name)), field_(field) {}

  // Finds it, and whether the table is where it goes on from.
  TfStatus Open() {
    call_.SetField(field_);
    TableCheckpoint checkpoint(call_, prefix_, name_, {});
    TF_RETURN_IF_ERROR(checkpoint.Open());
    if (!checkpoint.increment()) {
      return errors::InvalidArgument(call_.Where(), "'", prefix_,
                                     "' is no increment; give it what tf_booster.IncrementHook wrote");
    }
    increment_ = *checkpoint.increment();
    TableStats stats;
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().FieldStats(field_, &stats)));
    const int64_t last = call_.resource().increments().Get(field_), number = increment_.number;
    if (number <= last) {
      is_done_ = true;
    } else if (increment_.since < 0) {
      is_done_ = false;
    } else if (last > 0 && number != last + 1) {
      return errors::FailedPrecondition(call_.Where(), "increment ", number, " in '", prefix_, "' follows ", number - 1,
                                        ", but the table has increment ", last,
                                        "; apply those between them first, or load a newer export");
    } else if (last == 0 && increment_.since > stats.step) {
      return errors::FailedPrecondition(
          call_.Where(), "increment ", number, " in '", prefix_, "' goes on from step ", increment_.since,
          ", but the table is at step ", stats.step,
          ", where the export was made; apply the increments before it first, or load a newer export");
    } else {
      is_done_ = last == 0 && increment_.step <= stats.step;
    }
    return tensorflow::OkStatus();
  }

  // Whether the table had it before.
  bool is_done() const { return is_done_; }

  // Reads all of it, so that what is corrupt is found before anything changes.
  TfStatus Verify() const {
    const auto look = [](const ContentsIn&) { return tensorflow::OkStatus(); };
    return Read(look, [](const std::vector<int64_t>&) { return tensorflow::OkStatus(); });
  }

  TfStatus Apply(int64_t* rows, int64_t* removed) const {
    std::vector<int64_t> assigned;
    const auto assign = [&](const ContentsIn& piece) {
      if (increment_.has_left_keys) assigned.insert(assigned.end(), piece.keys, piece.keys + piece.rows);
      const KeyBatch keys = {piece.keys, nullptr, piece.rows, field_};
      *rows += piece.rows;
      return call_.Convert(call_.table().InsertOrAssign(keys, piece.values, call_.parallel_for()), prefix_);
    };
    return Read(assign, [&](const std::vector<int64_t>& keys) {
      if (increment_.has_all_keys) return Keep(keys, removed);
      return Remove(MissingFrom(assigned, keys, call_.parallel_for()), removed);  // Of those that left, some are back.
    });
  }

  void SetDone() const { call_.resource().increments().Raise(field_, increment_.number); }

 private:
  // Calls visit(piece) with the rows, and then clear(keys) with the keys that say which other rows left, if any.
  template <class Visit, class Clear>
  TfStatus Read(Visit visit, Clear clear) const {
    call_.SetField(field_);
    TableCheckpoint checkpoint(call_, prefix_, name_, {});
    TF_RETURN_IF_ERROR(checkpoint.Open());
    TF_RETURN_IF_ERROR(checkpoint.ForEachPiece(field_, visit));
    if (!increment_.has_all_keys && !increment_.has_left_keys) return tensorflow::OkStatus();
    std::vector<int64_t> keys;
    TF_RETURN_IF_ERROR(checkpoint.ReadIncrementKeys(&keys));
    return clear(keys);
  }

  TfStatus Remove(const std::vector<int64_t>& keys, int64_t* removed) const {
    int64_t erased = 0;
    const KeyBatch gone = {keys.data(), nullptr, static_cast<int64_t>(keys.size()), field_};
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().Erase(gone, &erased, call_.parallel_for())));
    *removed += erased;
    return tensorflow::OkStatus();
  }

  // Removes the rows of other keys.
  TfStatus Keep(const std::vector<int64_t>& keys, int64_t* removed) const {
    std::vector<int64_t> present;
    present.reserve(call_.table().FieldSize(field_));
    FieldMark now;
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().ReadMark(field_, &now)));
    const auto begin = [](const std::vector<FieldChanges>&) { return Status(); };
    const auto write = [&](const ContentsPiece& piece) {
      const int64_t* const data = static_cast<const int64_t*>(piece.data);
      if (piece.array == ContentsArray::kAllKeys) present.insert(present.end(), data, data + piece.bytes / 8);
      return Status();
    };
    // The keys alone: nothing changed since now.
    ParallelFor& pf = call_.parallel_for();
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().ExportChanges({{field_, now, true, {}}}, begin, write, pf)));
    return Remove(MissingFrom(keys, present, pf), removed);
  }

  TableCall& call_;
  const std::string prefix_, name_;
  const uint32_t field_;
  TableCheckpoint::Increment increment_;
  bool is_done_ = false;
};

}  // namespace

class TableApplyIncrementOp : public tensorflow::OpKernel {
 public:
  explicit TableApplyIncrementOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadListedTables(ctx, &tables_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const tensorflow::Tensor& prefix = ctx->input(ctx->num_inputs() - 1);
    std::vector<std::unique_ptr<TableCall>> calls;
    std::vector<FieldIncrement> fields;
    for (size_t i = 0; i < tables_.size(); ++i) {
      calls.push_back(std::make_unique<TableCall>(ctx));
      OP_REQUIRES_OK(ctx, calls[i]->Open(static_cast<int>(i)));
      OP_REQUIRES_OK(ctx, calls[i]->CheckOwned());
      OP_REQUIRES_OK(ctx, calls[i]->CheckScalar(prefix, "prefix"));
      for (size_t f = 0; f < tables_[i].fields.size(); ++f) {
        fields.emplace_back(calls[i].get(), prefix.scalar<tensorflow::tstring>()(), tables_[i].names[f],
                            tables_[i].fields[f]);
      }
    }
    bool all_done = true;
    for (FieldIncrement& field : fields) {
      OP_REQUIRES_OK(ctx, field.Open());
      all_done = all_done && field.is_done();
    }
    if (all_done) {
      ctx->SetStatus(errors::AlreadyExists(calls[0]->Where(), "increment '", prefix.scalar<tensorflow::tstring>()(),
                                           "' is in the tables already; nothing is to be done"));
      return;
    }
    for (const FieldIncrement& field : fields) OP_REQUIRES_OK(ctx, field.Verify());
    int64_t rows = 0, removed = 0;
    for (const FieldIncrement& field : fields) {
      if (!field.is_done()) OP_REQUIRES_OK(ctx, field.Apply(&rows, &removed));
      field.SetDone();
    }
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    output->scalar<int64_t>()() = rows;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {}, &output));
    output->scalar<int64_t>()() = removed;
  }

 private:
  std::vector<ListedTable> tables_;
  std::mutex mutex_;  // One at a time.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableApplyIncrement").Device(tensorflow::DEVICE_CPU), TableApplyIncrementOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableApplyIncrement")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("tables")
                            .HostMemory("prefix")
                            .HostMemory("rows")
                            .HostMemory("removed"),
                        TableApplyIncrementOp);

}  // namespace tf_booster
