#include "cc/tf/kernels/variable_access.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

namespace {

TfStatus Uninitialized(const tensorflow::OpKernel& op, int input) {
  return errors::FailedPrecondition(op.type_string(), " '", op.name(),
                                    "': Attempting to use uninitialized variables: ", op.requested_input(input),
                                    "; run its initializer first");
}

}  // namespace

std::vector<tensorflow::mutex*> MutexesOf(const Variables& variables) {
  std::vector<tensorflow::mutex*> mutexes;
  for (const auto& variable : variables) mutexes.push_back(variable->mu());
  std::sort(mutexes.begin(), mutexes.end(), std::less<>());
  mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
  return mutexes;
}

TfStatus LockedVariables::Lock(OpKernelContext* ctx, int first, int count, tensorflow::DataType dtype) {
  const tensorflow::OpKernel& op = ctx->op_kernel();
  vars_.resize(count);
  for (int i = 0; i < count; ++i) {
    if (!tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, first + i), &vars_[i]).ok()) {
      return Uninitialized(op, first + i);
    }
  }
  const std::vector<tensorflow::mutex*> mutexes = MutexesOf(vars_);
  locks_.reserve(mutexes.size());
  for (tensorflow::mutex* mutex : mutexes) locks_.emplace_back(*mutex);
  for (int i = 0; i < count; ++i) {
    const Tensor& value = *vars_[i]->tensor();
    if (!value.IsInitialized()) return Uninitialized(op, first + i);
    if (value.dtype() != dtype) {
      return errors::InvalidArgument(op.type_string(), " '", op.name(), "': variable ", op.requested_input(first + i),
                                     " is ", tensorflow::DataTypeString(value.dtype()), ", wanted ",
                                     tensorflow::DataTypeString(dtype));
    }
  }
  return tensorflow::OkStatus();
}

TfStatus LockedVariables::CopyOnHost(OpKernelContext*, const Tensor& from, Tensor* to) {
  std::memcpy(to->data(), from.data(), from.TotalBytes());
  return tensorflow::OkStatus();
}

TfStatus LockedVariables::OwnBuffer(OpKernelContext* ctx, tensorflow::Var* var, CopyBytes copy_bytes) {
  // A read shares the buffer or, in copy-on-read mode, copies it under the lock. Where no second reference is left,
  // nobody else looks at it, so that in copy-on-read mode too no copy is needed here.
  Tensor* value = var->tensor();
  if (value->RefCountIsOne()) return tensorflow::OkStatus();
  Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(value->dtype(), value->shape(), &copy));
  if (value->TotalBytes() > 0) TF_RETURN_IF_ERROR(copy_bytes(ctx, *value, &copy));
  *value = copy;
  return tensorflow::OkStatus();
}

TfStatus LockedVariables::PrepareToUpdate(OpKernelContext* ctx, CopyBytes copy_bytes) {
  for (auto& var : vars_) TF_RETURN_IF_ERROR(OwnBuffer(ctx, var.get(), copy_bytes));
  return tensorflow::OkStatus();
}

TfStatus LockedVariables::PrepareToGather(OpKernelContext* ctx, CopyBytes copy_bytes) {
  for (auto& var : vars_) {
    if (var->copy_on_read_mode.load()) continue;
    TF_RETURN_IF_ERROR(OwnBuffer(ctx, var.get(), copy_bytes));
    var->copy_on_read_mode.store(true);
  }
  return tensorflow::OkStatus();
}

void LockedVariables::CopyOnRead() {
  for (auto& var : vars_) var->copy_on_read_mode.store(true);
}

bool LockedVariables::HasDuplicates(int count) const {
  std::vector<const tensorflow::Var*> sorted(count);
  for (int i = 0; i < count; ++i) sorted[i] = vars_[i].get();
  std::sort(sorted.begin(), sorted.end(), std::less<>());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

}  // namespace tf_booster
