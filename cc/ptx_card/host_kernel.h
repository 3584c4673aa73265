// A GPU kernel that is computed by the same op's CPU kernel: inputs are copied to host memory, outputs to the card's.
//
// It is a guard, too: a tensor in host memory where the registration says the card's, or the other way round, is an
// error here, and would be a crash on a card.
#ifndef TF_BOOSTER_CC_PTX_CARD_HOST_KERNEL_H_
#define TF_BOOSTER_CC_PTX_CARD_HOST_KERNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster::card {

// Whether an op looks at no element of its inputs on the card. Its CPU kernel does as it is, and so does the one that
// TensorFlow has for every device.
bool PassesThrough(const std::string& op);

// The threads of a GPU device's host side, with host memory.
class HostDevice : public tensorflow::DeviceBase {
 public:
  explicit HostDevice(DeviceBase* card) : DeviceBase(card->env()), card_(card) {}
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return card_->tensorflow_cpu_worker_threads();
  }
  bool has_eigen_cpu_device() const override { return card_->has_eigen_cpu_device(); }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return card_->eigen_cpu_device(); }
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override { return tensorflow::cpu_allocator(); }
  const tensorflow::DeviceAttributes& attributes() const override { return card_->attributes(); }
  const std::string& name() const override { return card_->name(); }
  tensorflow::Status MakeTensorFromProto(const tensorflow::TensorProto& proto, tensorflow::AllocatorAttributes,
                                         tensorflow::Tensor* tensor) override;

 private:
  DeviceBase* const card_;
};

class HostKernel : public tensorflow::OpKernel {
 public:
  explicit HostKernel(tensorflow::OpKernelConstruction* c);
  void Compute(tensorflow::OpKernelContext* ctx) override;

 private:
  tensorflow::Status ToHostInput(tensorflow::OpKernelContext* ctx, int i, const tensorflow::Tensor& given,
                                 tensorflow::Tensor* host);
  tensorflow::Status ToOutput(tensorflow::OpKernelContext* ctx, int i, const tensorflow::Tensor& host);
  // The CPU kernel with these inputs. Outputs by reference are null.
  tensorflow::Status ComputeOnHost(tensorflow::OpKernelContext* ctx, std::vector<tensorflow::TensorValue> inputs,
                                   std::vector<std::unique_ptr<tensorflow::Tensor>>* outputs);

  HostDevice host_;
  const bool passes_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
};

}  // namespace tf_booster::card

#endif  // TF_BOOSTER_CC_PTX_CARD_HOST_KERNEL_H_
