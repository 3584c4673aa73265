// TfBoosterTableMatchesIncrement: whether tables are where an increment ends, so that a chain of them may go on from
// there.
#include <cstring>
#include <string>
#include <vector>

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
class FieldComparison {
 public:
  FieldComparison(TableCall* call, const std::string& prefix, const std::string& name, const KeyPart& part,
                  uint32_t field)
      : call_(*call), checkpoint_(*call, prefix, name, part), field_(field) {}

  TfStatus Compare(bool* equal) {
    *equal = false;
    TF_RETURN_IF_ERROR(checkpoint_.Open());
    FieldMark now;
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().ReadMark(field_, &now)));
    if (!checkpoint_.increment() || checkpoint_.increment()->step != now.step) return tensorflow::OkStatus();
    int64_t changed = 0, alike = 0, rows = 0;
    TF_RETURN_IF_ERROR(CountChanged(now, &changed));
    TF_RETURN_IF_ERROR(checkpoint_.ForEachPiece(field_, [&](const ContentsIn& piece) {
      rows += piece.rows;
      return CountAlike(piece, &alike);
    }));
    *equal = rows == alike && rows == changed;
    return tensorflow::OkStatus();
  }

 private:
  // The rows that the table's own increment of the same steps would have.
  TfStatus CountChanged(FieldMark since, int64_t* changed) const {
    since.step = checkpoint_.increment()->since;
    const auto begin = [](const std::vector<FieldChanges>&) { return Status(); };
    const auto write = [&](const ContentsPiece& piece) {
      if (piece.array == ContentsArray::kKeys) *changed += piece.bytes / static_cast<int64_t>(sizeof(int64_t));
      return Status();
    };
    return call_.Convert(call_.table().ExportChanges({{field_, since}}, begin, write, call_.parallel_for()));
  }

  TfStatus CountAlike(const ContentsIn& piece, int64_t* alike) {
    const int64_t dim = call_.resource().dim();
    values_.resize(piece.rows * dim);
    found_.resize(piece.rows);
    const KeyBatch keys = {piece.keys, nullptr, piece.rows, field_};
    TF_RETURN_IF_ERROR(call_.Convert(call_.table().Find(keys, values_.data(), found_.data(), call_.parallel_for())));
    for (int64_t i = 0; i < piece.rows; ++i) {
      const bool same = std::memcmp(&values_[i * dim], piece.values + i * dim, dim * sizeof(float)) == 0;
      *alike += found_[i] != 0 && same ? 1 : 0;
    }
    return tensorflow::OkStatus();
  }

  TableCall& call_;
  TableCheckpoint checkpoint_;
  const uint32_t field_;
  std::vector<float> values_;
  std::vector<uint8_t> found_;
};

}  // namespace

class TableMatchesIncrementOp : public tensorflow::OpKernel {
 public:
  explicit TableMatchesIncrementOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadListedTables(ctx, &tables_));
    OP_REQUIRES_OK(ctx, ReadKeyPart(ctx, &part_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& prefix = ctx->input(ctx->num_inputs() - 1);
    bool matches = true;
    for (size_t i = 0; i < tables_.size() && matches; ++i) {
      TableCall call(ctx);
      OP_REQUIRES_OK(ctx, call.Open(static_cast<int>(i)));
      OP_REQUIRES_OK(ctx, call.CheckScalar(prefix, "prefix"));
      for (size_t f = 0; f < tables_[i].fields.size() && matches; ++f) {
        call.SetField(tables_[i].fields[f]);
        FieldComparison field(&call, prefix.scalar<tensorflow::tstring>()(), tables_[i].names[f], part_,
                              tables_[i].fields[f]);
        const TfStatus compared = field.Compare(&matches);
        if (!errors::IsNotFound(compared) && !errors::IsDataLoss(compared) && !errors::IsInvalidArgument(compared)) {
          OP_REQUIRES_OK(ctx, compared);
        }
      }
    }
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    output->scalar<bool>()() = matches;
  }

 private:
  std::vector<ListedTable> tables_;
  KeyPart part_;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableMatchesIncrement").Device(tensorflow::DEVICE_CPU), TableMatchesIncrementOp);
// On a GPU with all arrays in host memory: what is not part of each step of one process copies them itself.
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableMatchesIncrement")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("tables")
                            .HostMemory("prefix")
                            .HostMemory("matches"),
                        TableMatchesIncrementOp);

}  // namespace tf_booster
