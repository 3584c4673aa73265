// Memory of tensors that is used again when they are dead.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_VALUE_MEMORY_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_VALUE_MEMORY_H_

#include <memory>

#include "cc/core/base/kept_memory.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_booster {

// Any thread may call. Lives as long as a tensor of it.
class ValueMemory final : public KeptMemory, public std::enable_shared_from_this<ValueMemory> {
 public:
  // One for all parsers of the process, until the last of them is gone: what one batch leaves behind is in the caches
  // when the next op takes it. Eight ops in turns, each with memory of its own, went through 34 MiB, more than the
  // third-level cache holds: 26 fixed lists of 20 ids took 820 ns a record, and 500 in the same 4 MiB.
  static std::shared_ptr<ValueMemory> OfAllParsers();

  // A tensor in the block, which comes back when the tensor dies.
  tensorflow::Tensor AsTensor(const Block& block, tensorflow::DataType dtype, const tensorflow::TensorShape& shape);
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_VALUE_MEMORY_H_
