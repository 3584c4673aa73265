#include "cc/ptx_card/card_tensors.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "cc/ptx_machine/memory.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster::card {

using tensorflow::OpKernel;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

namespace {

TfStatus Copy(const OpKernel& op, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0 || cudaMemcpy(to, from, bytes, kind) == cudaSuccess) return tensorflow::OkStatus();
  return errors::Internal(op.type_string(), " '", op.name(), "': a copy failed");
}

}  // namespace

bool IsOnCard(const Tensor& tensor) {
  return tensor.IsInitialized() && tensor.NumElements() > 0 &&
         (reinterpret_cast<uint64_t>(tensor.data()) & ptx::kDeviceMark) != 0;
}

TfStatus ToHost(const OpKernel& op, const Tensor& on_card, Tensor* host) {
  *host = Tensor(tensorflow::cpu_allocator(), on_card.dtype(), on_card.shape());
  return Copy(op, host->data(), on_card.data(), on_card.TotalBytes(), cudaMemcpyDeviceToHost);
}

TfStatus CopyToCard(const OpKernel& op, const Tensor& from, Tensor* on_card) {
  return Copy(op, on_card->data(), from.data(), from.TotalBytes(),
              IsOnCard(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice);
}

TfStatus NewOnCard(tensorflow::OpKernelContext* ctx, const Tensor& from, Tensor* on_card) {
  Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(from.dtype(), from.shape(), &copy));
  TF_RETURN_IF_ERROR(CopyToCard(ctx->op_kernel(), from, &copy));
  *on_card = copy;
  return tensorflow::OkStatus();
}

bool Equal(const Tensor& a, const Tensor& b) {
  return a.IsInitialized() == b.IsInitialized() && a.shape() == b.shape() &&
         (a.NumElements() == 0 || !a.IsInitialized() || std::memcmp(a.data(), b.data(), a.TotalBytes()) == 0);
}

TfStatus CheckPlace(const OpKernel& op, int input, const Tensor& given, bool wants_card) {
  if (!given.IsInitialized() || given.NumElements() == 0 || wants_card == IsOnCard(given)) {
    return tensorflow::OkStatus();
  }
  return errors::Internal(
      op.type_string(), " '", op.name(), "': input ", input, ", '", op.requested_input(input), "', is in ",
      wants_card ? "host memory, and should be on the card" : "the card's memory, and should be in the host's",
      "; a card would fault. See what the kernel that made it says of its outputs.");
}

}  // namespace tf_booster::card
