// The kernel of every TfBoosterTableApply… op: checks the inputs, reads the hyperparameters and calls SparseApply.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_

#include <memory>
#include <vector>

#include "cc/core/optimizer/row_optimizer.h"
#include "cc/core/optimizer/sparse_apply.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// All but the hyperparameters, which are the inputs behind `grads`.
class TableApplyOpBase : public tensorflow::OpKernel {
 public:
  explicit TableApplyOpBase(tensorflow::OpKernelConstruction* ctx);
  void Compute(tensorflow::OpKernelContext* ctx) override;

 protected:
  // The table's `optimizer` attribute that the op needs.
  virtual const char* optimizer_name() const = 0;
  // Reads the inputs from `first` on.
  virtual tensorflow::Status MakeOptimizer(tensorflow::OpKernelContext* ctx, const TableCall& call, int first,
                                           std::unique_ptr<RowOptimizer>* optimizer) const = 0;

 private:
  tensorflow::Status CheckTable(const TableCall& call) const;
  tensorflow::Status ReadBatch(tensorflow::OpKernelContext* ctx, const TableCall& call, SparseApplyBatch* batch) const;

  int num_probes_ = 0;
  int num_gradients_ = 0;
  std::vector<uint32_t> fields_;  // Those that step; empty: all.
  bool check_numerics_ = false;
};

// `Op` gives Options, the optimizer's name, and Visit(options, visitor), which shows each field by name: floats are
// inputs, in this order; bools are attributes.
template <class Op>
class TableApplyOp final : public TableApplyOpBase {
 public:
  explicit TableApplyOp(tensorflow::OpKernelConstruction* ctx) : TableApplyOpBase(ctx) {
    Op::Visit(attributes_, AttributeReader{ctx});
  }

 private:
  using Options = typename Op::Options;

  struct AttributeReader {
    tensorflow::OpKernelConstruction* ctx;
    void operator()(const char*, float&) const {}
    void operator()(const char* name, bool& value) const { OP_REQUIRES_OK(ctx, ctx->GetAttr(name, &value)); }
  };

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

  tensorflow::Status MakeOptimizer(tensorflow::OpKernelContext* ctx, const TableCall& call, int first,
                                   std::unique_ptr<RowOptimizer>* optimizer) const override {
    Options options = attributes_;
    InputReader reader{ctx, call, first, tensorflow::OkStatus()};
    Op::Visit(options, reader);
    if (reader.status.ok()) *optimizer = MakeRowOptimizer(options);
    return reader.status;
  }

  Options attributes_;  // The bools are set, the floats are not.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_APPLY_OP_H_
