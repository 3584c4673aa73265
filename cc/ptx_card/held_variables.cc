#include "cc/ptx_card/held_variables.h"

#include <algorithm>
#include <utility>

#include "cc/ptx_card/card_tensors.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tf_booster::card {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;
using TfStatus = tensorflow::Status;

TfStatus HeldVariables::Lock(OpKernelContext* ctx) {
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    if (!ctx->has_input(i) || ctx->input_dtype(i) != tensorflow::DT_RESOURCE) continue;
    tensorflow::core::RefCountPtr<Var> var;
    if (!tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, i), &var).ok()) continue;
    const auto known =
        std::find_if(held_.begin(), held_.end(), [&](const Held& other) { return other.var.get() == var.get(); });
    if (known != held_.end()) {
      known->inputs.push_back(i);
      continue;
    }
    held_.emplace_back();
    held_.back().var = std::move(var);
    held_.back().inputs.push_back(i);
  }
  // As TensorFlow orders them, or two ops could wait for each other.
  std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.var->mu() < b.var->mu(); });
  for (Held& held : held_) {
    Var& var = *held.var;
    held.lock = std::make_unique<tensorflow::mutex_lock>(*var.mu());
    tensorflow::core::RefCountPtr<Var> copy(new Var(var.tensor()->dtype()));
    if (IsOnCard(*var.tensor())) {
      TF_RETURN_IF_ERROR(ToHost(ctx->op_kernel(), *var.tensor(), copy->tensor()));
    } else if (var.tensor()->IsInitialized()) {
      *copy->tensor() = tensorflow::tensor::DeepCopy(*var.tensor());
    }
    if (copy->tensor()->IsInitialized()) held.before = tensorflow::tensor::DeepCopy(*copy->tensor());
    copy->is_initialized = var.is_initialized;
    copy->copy_on_read_mode = var.copy_on_read_mode.load();
    held.copy = copy.get();
    held.handle = tensorflow::ResourceHandle::MakeRefCountingHandle(copy.release(), ctx->device()->name());
  }
  return tensorflow::OkStatus();
}

void HeldVariables::SetHandles(std::vector<Tensor>* inputs) const {
  for (const Held& held : held_) {
    Tensor handle(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
    handle.scalar<tensorflow::ResourceHandle>()() = held.handle;
    for (const int i : held.inputs) (*inputs)[i] = handle;
  }
}

TfStatus HeldVariables::WriteBack(OpKernelContext* ctx) {
  for (Held& held : held_) {
    Var& var = *held.var;
    const Tensor& now = *held.copy->tensor();
    var.is_initialized = held.copy->is_initialized;
    var.copy_on_read_mode = held.copy->copy_on_read_mode.load();
    if (!now.IsInitialized() || Equal(now, held.before)) continue;
    // Those of int32 are in host memory.
    if (var.tensor()->IsInitialized() && var.tensor()->NumElements() > 0 && !IsOnCard(*var.tensor())) {
      *var.tensor() = tensorflow::tensor::DeepCopy(now);
    } else {
      TF_RETURN_IF_ERROR(NewOnCard(ctx, now, var.tensor()));
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster::card
