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

  // kSingle: records are read, and errors put, as by tf.io.parse_single_example; elements are batches all the same.
  // InvalidArgument: a feature that is wanted twice, or, of kSingle, a ragged one. Dense rows of different lengths are
  // padded by the feature's default value, as tf.data's padded_batch pads them.
  static tensorflow::Status Make(const Config& config, ExampleBatchParser::Semantics semantics,
                                 std::unique_ptr<const ElementParser>* parser);

  // Features in the order of their names: dense [n, …]; sparse as a variant [3] of indices, values, shape; ragged as a
  // scalar variant. Errors are those of tf.io.parse_example, or of the first record that tf.io.parse_single_example
  // refuses. Any number of threads may call.
  tensorflow::Status Parse(const RecordBatch& batch, std::vector<tensorflow::Tensor>* element) const;
  // One record without a batch dimension, as tf.io.parse_single_example gives it.
  tensorflow::Status ParseOne(example_parser::Record record, std::vector<tensorflow::Tensor>* element) const;

 private:
  ElementParser() = default;

  tensorflow::Status ParseByTensorFlow(const RecordBatch& batch, tensorflow::example::Result* result) const;

  // Moves the features to their places.
  void Arrange(tensorflow::example::Result* result, std::vector<tensorflow::Tensor>* element) const;

  Config config_;
  std::shared_ptr<const ExampleBatchParser> parser_;                  // Null for a spec that TensorFlow must answer.
  std::vector<size_t> dense_places_, sparse_places_, ragged_places_;  // Of each feature in an element.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_ELEMENT_PARSER_H_
