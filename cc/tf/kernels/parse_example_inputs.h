// What the parse ops' kernels share: their inputs checked and compared, their outputs set.
#ifndef TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_INPUTS_H_
#define TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_INPUTS_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "cc/tf/example_parsing/example_batch_parser.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

using Keys = std::vector<tensorflow::StringPiece>;

// The keys and defaults of one call of a parse op, beside its attributes.
struct ParseInputs {
  Keys dense_keys, sparse_keys, ragged_keys;
  tensorflow::OpInputList dense_defaults;
};

// What the attributes say of dense features.
struct DenseAttrs {
  const std::vector<tensorflow::DataType>& types;
  const std::vector<tensorflow::PartialTensorShape>& shapes;
  const std::vector<bool>& variable_length;
  const std::vector<std::size_t>& elements_per_stride;
};

// TensorFlow's own checks and texts.
tensorflow::Status CheckDefaults(const tensorflow::OpInputList& defaults, const DenseAttrs& attrs);

tensorflow::example::FastParseExampleConfig MakeConfig(const ParseInputs& inputs, const DenseAttrs& attrs,
                                                       absl::Span<const tensorflow::DataType> sparse_types,
                                                       absl::Span<const tensorflow::DataType> ragged_types,
                                                       absl::Span<const tensorflow::DataType> split_types);

// Whether the keys, or the defaults, are those of `config`.
bool SameKeys(const ParseInputs& inputs, const tensorflow::example::FastParseExampleConfig& config);
bool SameDefaults(const tensorflow::OpInputList& defaults, const tensorflow::example::FastParseExampleConfig& config);

// The parser of a kernel's last call. Keys and defaults are inputs, as a rule constants, so the next call is likely to
// want the same; comparing 39 of each takes 0.3 us, making a parser 20. Any thread may call.
class ParserCache {
 public:
  // Null where the last call's parser was for other keys, defaults or instructions.
  std::shared_ptr<const ExampleBatchParser> Find(const ParseInputs& inputs) const;
  void Keep(std::shared_ptr<const ExampleBatchParser> parser);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ExampleBatchParser> parser_;
};

// Sets the outputs of this name.
tensorflow::Status SetList(tensorflow::OpKernelContext* ctx, const char* name,
                           const std::vector<tensorflow::Tensor>& tensors);

// Sets the outputs that the op has; it has no ragged ones if `has_ragged` is false.
tensorflow::Status SetOutputs(tensorflow::OpKernelContext* ctx, const tensorflow::example::Result& result,
                              bool has_ragged);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_INPUTS_H_
