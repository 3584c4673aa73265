// The Variables among an op's inputs, as a kernel of the CPU may see them: copies in host memory, by handles of their
// own.
#ifndef TF_BOOSTER_CC_PTX_CARD_HELD_VARIABLES_H_
#define TF_BOOSTER_CC_PTX_CARD_HELD_VARIABLES_H_

#include <memory>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_booster::card {

// Each Variable is locked from Lock on, so that what is done to a copy is done to it, and to nothing newer.
class HeldVariables {
 public:
  // Locks and copies them. Resources of other kinds are left to themselves.
  tensorflow::Status Lock(tensorflow::OpKernelContext* ctx);

  // The inputs that are Variables get handles of the copies.
  void SetHandles(std::vector<tensorflow::Tensor>* inputs) const;

  // What changed in a copy is written to a new buffer of its Variable: others may still read the old one.
  tensorflow::Status WriteBack(tensorflow::OpKernelContext* ctx);

 private:
  struct Held {
    tensorflow::core::RefCountPtr<tensorflow::Var> var;
    tensorflow::ResourceHandle handle;  // Owns the copy.
    tensorflow::Var* copy = nullptr;
    tensorflow::Tensor before;  // What the copy was.
    std::vector<int> inputs;
    std::unique_ptr<tensorflow::mutex_lock> lock;
  };
  std::vector<Held> held_;
};

}  // namespace tf_booster::card

#endif  // TF_BOOSTER_CC_PTX_CARD_HELD_VARIABLES_H_
