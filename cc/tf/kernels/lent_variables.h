// Values of Variables that one session of this process has saved, for another one that restores them: both then share
// the memory. Whoever updates a Variable whose value is shared copies it first, as TensorFlow's kernels and ours do.
#ifndef TF_BOOSTER_CC_TF_KERNELS_LENT_VARIABLES_H_
#define TF_BOOSTER_CC_TF_KERNELS_LENT_VARIABLES_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/kernels/device_place.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_booster {

class LentVariables {
 public:
  // Those of the process.
  static LentVariables& Global();

  // In place of what the lender has lent under this name before.
  void Lend(const std::string& lender, const std::string& name, tensorflow::Tensor value, DevicePlace place);

  // Gives the value to a Variable, until Return. gathered: gathers need not make sure that nobody shares it, which
  // would copy it, since what updates single rows comes behind OwnVariable. False: there is none at `place`.
  bool Borrow(const std::string& lender, const std::string& name, const DevicePlace& place, bool gathered,
              tensorflow::core::RefCountPtr<tensorflow::Var> variable);

  // Forgets what the lender has lent, and takes it from the Variables that have it: their sessions are over, though
  // they may not be deleted yet, and an update would have to copy what they hold.
  void Return(const std::string& lender);

 private:
  struct Lent {
    tensorflow::Tensor value;
    DevicePlace place;
  };
  using Borrower = tensorflow::core::RefCountPtr<tensorflow::Var>;

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Lent> lent_;  // By lender and name.
  std::map<std::string, std::vector<Borrower>> borrowers_;    // By lender.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_LENT_VARIABLES_H_
