// LentVariables; TfBoosterLendVariable and TfBoosterBorrowVariable.
#include "cc/tf/kernels/lent_variables.h"

#include <cstdint>

#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::HandleFromInput;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;
using VarPtr = tensorflow::core::RefCountPtr<Var>;

LentVariables& LentVariables::Global() {
  static auto& variables = *new LentVariables();
  return variables;
}

void LentVariables::Lend(const std::string& lender, const std::string& name, Tensor value, DevicePlace place) {
  std::lock_guard<std::mutex> lock(mutex_);
  lent_.insert_or_assign({lender, name}, Lent{std::move(value), std::move(place)});
}

bool LentVariables::Borrow(const std::string& lender, const std::string& name, const DevicePlace& place, bool gathered,
                           VarPtr variable) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = lent_.find({lender, name});
  if (found == lent_.end() || !(found->second.place == place)) return false;
  {
    tensorflow::mutex_lock var_lock(*variable->mu());
    *variable->tensor() = found->second.value;
    variable->is_initialized = true;
    variable->copy_on_read_mode.store(gathered);
  }
  borrowers_[lender].push_back(std::move(variable));
  return true;
}

void LentVariables::Return(const std::string& lender) {
  std::vector<Borrower> borrowers;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lent_.erase(lent_.lower_bound({lender, ""}), lent_.lower_bound({lender + '\0', ""}));
    std::swap(borrowers, borrowers_[lender]);
    borrowers_.erase(lender);
  }
  for (const Borrower& variable : borrowers) {
    tensorflow::mutex_lock lock(*variable->mu());
    variable->is_initialized = false;
    *variable->tensor() = Tensor();
  }
}

namespace {

// What both ops are told.
class NamedKernel : public tensorflow::OpKernel {
 public:
  explicit NamedKernel(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lender", &lender_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("variable_name", &name_));
  }

 protected:
  std::string lender_, name_;
};

class LendVariableOp final : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* ctx) override {
    VarPtr variable;
    OP_REQUIRES_OK(ctx, tensorflow::LookupResource(ctx, HandleFromInput(ctx, 0), &variable));
    Tensor value;
    {
      tensorflow::mutex_lock lock(*variable->mu());
      OP_REQUIRES(ctx, variable->is_initialized,
                  tensorflow::errors::FailedPrecondition("LendVariable '", name_,
                                                         "': it is not initialized; run its initializer first"));
      value = *variable->tensor();
      // Updates of single rows take it for granted in this mode that nobody shares the value. The next one will look.
      variable->copy_on_read_mode.store(false);
    }
    LentVariables::Global().Lend(lender_, name_, std::move(value), DevicePlace(ctx));
  }
};

class BorrowVariableOp final : public NamedKernel {
 public:
  explicit BorrowVariableOp(tensorflow::OpKernelConstruction* ctx) : NamedKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("gathered", &gathered_));
  }

  void Compute(OpKernelContext* ctx) override {
    VarPtr variable;
    OP_REQUIRES_OK(ctx,
                   tensorflow::LookupOrCreateResource<Var>(ctx, HandleFromInput(ctx, 0), &variable, [&](Var** made) {
                     *made = new Var(dtype_);
                     return tensorflow::OkStatus();
                   }));
    Tensor* borrowed = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &borrowed));
    borrowed->scalar<bool>()() =
        LentVariables::Global().Borrow(lender_, name_, DevicePlace(ctx), gathered_, std::move(variable));
  }

 private:
  tensorflow::DataType dtype_;
  bool gathered_ = false;
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterLendVariable").Device(tensorflow::DEVICE_CPU), LendVariableOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterBorrowVariable").Device(tensorflow::DEVICE_CPU), BorrowVariableOp);
// On a GPU with handle and answer in host memory: the value stays where it is.
REGISTER_KERNEL_BUILDER(Name("TfBoosterLendVariable").Device(tensorflow::DEVICE_GPU).HostMemory("resource"),
                        LendVariableOp);
REGISTER_KERNEL_BUILDER(
    Name("TfBoosterBorrowVariable").Device(tensorflow::DEVICE_GPU).HostMemory("resource").HostMemory("borrowed"),
    BorrowVariableOp);

}  // namespace
}  // namespace tf_booster

extern "C" __attribute__((visibility("default"))) void tf_booster_return_variables(const char* lender) {
  tf_booster::LentVariables::Global().Return(lender);
}
