// The kernel of every TfBoosterTableApply… op: checks the inputs, reads the hyperparameters and calls SparseApply.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_

#include <type_traits>
#include <vector>

#include "cc/core/optimizer/row_optimizer.h"
#include "cc/core/optimizer/sparse_apply.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// All but the hyperparameters, which are the inputs behind `grads`.
class TableApplyOpBase : public tensorflow::OpKernel {
 public:
  explicit TableApplyOpBase(tensorflow::OpKernelConstruction* ctx);
  void Compute(tensorflow::OpKernelContext* ctx) override;

 protected:
  // The table's `optimizer` attribute that the op needs.
  virtual const char* optimizer_name() const = 0;
  // The step, with the hyperparameters that are the inputs from `first` on.
  virtual tensorflow::Status Apply(tensorflow::OpKernelContext* ctx, TableCall& call, const SparseApplyBatch& batch,
                                   int first) const = 0;

 private:
  tensorflow::Status CheckTable(const TableCall& call) const;
  tensorflow::Status ReadBatch(tensorflow::OpKernelContext* ctx, const TableCall& call, SparseApplyBatch* batch) const;

  int num_probes_ = 0;
  int num_gradients_ = 0;
  std::vector<uint32_t> fields_;  // Those that step; empty: all.
  bool check_numerics_ = false;
};

// Reads the attributes among an optimizer's options.
struct TableApplyAttributes {
  tensorflow::OpKernelConstruction* ctx;
  void operator()(const char*, float&) const {}
  void operator()(const char* name, bool& value) const { OP_REQUIRES_OK(ctx, ctx->GetAttr(name, &value)); }
};

// `Op` gives Options, the optimizer's name, and Visit(options, visitor), which shows each field by name: floats are
// inputs, in this order; bools are attributes.
template <class Op>
class TableApplyOp final : public TableApplyOpBase {
 public:
  explicit TableApplyOp(tensorflow::OpKernelConstruction* ctx) : TableApplyOpBase(ctx) {
    Op::Visit(attributes_, TableApplyAttributes{ctx});
  }

 private:
  using Options = typename Op::Options;

  struct InputReader {
    tensorflow::OpKernelContext* ctx;
    const TableCall& call;
    int next;
    tensorflow::Status status;
    void operator()(const char* name, float& value) {
      const tensorflow::Tensor& tensor = ctx->input(next++);
      status.Update(call.CheckScalar(tensor, name));
      if (status.ok()) value = tensor.scalar<float>()();
    }
    void operator()(const char*, bool&) const {}
  };

  const char* optimizer_name() const override { return Op::kOptimizer; }

  tensorflow::Status Apply(tensorflow::OpKernelContext* ctx, TableCall& call, const SparseApplyBatch& batch,
                           int first) const override {
    Options options = attributes_;
    InputReader reader{ctx, call, first, tensorflow::OkStatus()};
    Op::Visit(options, reader);
    TF_RETURN_IF_ERROR(reader.status);
    if constexpr (std::is_same_v<Options, FtrlOptions>) {
      const char* wrong = WrongFtrlOptions(options);
      if (wrong != nullptr) return tensorflow::errors::InvalidArgument(call.Where(), wrong);
    }
    return call.Convert(SparseApply(call.table(), batch, *MakeRowOptimizer(options), call.parallel_for()));
  }

  Options attributes_;  // The bools are set, the floats are not.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_
