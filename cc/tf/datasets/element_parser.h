// From the records of a batch to an element of the dataset.
#ifndef TF_BOOSTER_CC_TF_DATASETS_ELEMENT_PARSER_H_
#define TF_BOOSTER_CC_TF_DATASETS_ELEMENT_PARSER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "cc/tf/datasets/record_batch.h"
#include "cc/tf/example_parsing/example_batch_parser.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

class ElementParser {
 public:
  using Config = tensorflow::example::FastParseExampleConfig;

  // InvalidArgument: a feature that is wanted twice.
  static tensorflow::Status Make(const Config& config, std::unique_ptr<const ElementParser>* parser);

  // Features in the order of their names: dense [n, …]; sparse as a variant [3] of indices, values, shape; ragged as a
  // scalar variant. Errors are those of tf.io.parse_example. Any number of threads may call.
  tensorflow::Status Parse(const RecordBatch& batch, std::vector<tensorflow::Tensor>* element) const;

 private:
  ElementParser() = default;

  tensorflow::Status ParseByTensorFlow(const RecordBatch& batch, tensorflow::example::Result* result) const;

  Config config_;
  std::shared_ptr<const ExampleBatchParser> parser_;                  // Null for a spec that TensorFlow must answer.
  std::vector<size_t> dense_places_, sparse_places_, ragged_places_;  // Of each feature in an element.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_ELEMENT_PARSER_H_
