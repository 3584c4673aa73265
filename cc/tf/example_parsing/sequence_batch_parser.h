// From serialized tf.train.SequenceExamples to TensorFlow's tensors: what example::FastParseSequenceExample does.
//
// Batches of plain records, which is what every library writes, are parsed by cc/core. A batch with any other record,
// broken ones among them, goes to TensorFlow, all of it: so its values and errors are TensorFlow's. Only where
// TensorFlow would crash, the error is ours.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_SEQUENCE_BATCH_PARSER_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_SEQUENCE_BATCH_PARSER_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cc/tf/example_parsing/batch_shares.h"
#include "cc/tf/example_parsing/example_batch_parser.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/tstring.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

// Everything that ParseSequenceExampleV2 gives.
struct SequenceResult {
  tensorflow::example::Result context, lists;
  std::vector<tensorflow::Tensor> dense_lengths;  // Of the dense lists: steps in each record.
};

class SequenceBatchParser {
 public:
  using Config = tensorflow::example::FastParseExampleConfig;

  // As FastParseSequenceExample takes them; both are copied. Dense features of the context need elements_per_stride.
  // Null, with an OK status, for specs that TensorFlow must answer (see MakeCoreSpec). InvalidArgument: a dense list
  // whose steps have no elements; TensorFlow divides by that number.
  static tensorflow::Status Make(const Config& context, const Config& lists,
                                 std::shared_ptr<const SequenceBatchParser>* parser);

  const Config& context_config() const { return context_->config(); }
  const Config& lists_config() const { return lists_->config(); }
  SimdLevel level() const { return lists_->level(); }

  // `batch` false: one record, without a batch dimension. `names` are for errors: as many as records, or none.
  // `workers` may be null. Any number of threads may call at once.
  tensorflow::Status Parse(absl::Span<const tensorflow::tstring> records, absl::Span<const tensorflow::tstring> names,
                           bool batch, tensorflow::thread::ThreadPool* workers, SequenceResult* result) const;

 private:
  using Record = example_parser::Record;

  // Unimplemented: a record is not plain.
  tensorflow::Status ParsePlain(absl::Span<const tensorflow::tstring> records, bool batch,
                                tensorflow::thread::ThreadPool* workers, SequenceResult* result) const;
  // A batch of any number of records but none: a piece's contexts and lists are parsed one after the other by one
  // thread, which reads the records once.
  tensorflow::Status ParseShared(absl::Span<const tensorflow::tstring> records, const BatchPlan& plan,
                                 ParallelFor& parallel_for, SequenceResult* result) const;
  tensorflow::Status CheckHazards(absl::Span<const tensorflow::tstring> records,
                                  absl::Span<const tensorflow::tstring> names) const;
  tensorflow::Status DropBatchDimension(SequenceResult* result) const;

  std::shared_ptr<const ExampleBatchParser> context_, lists_;
  mutable BatchShares shares_;
};

// TensorFlow's own parser, by the same arguments.
tensorflow::Status ParseSequencesAsTensorFlow(const SequenceBatchParser::Config& context,
                                              const SequenceBatchParser::Config& lists,
                                              absl::Span<const tensorflow::tstring> records,
                                              absl::Span<const tensorflow::tstring> names, bool batch,
                                              tensorflow::thread::ThreadPool* workers, SequenceResult* result);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_SEQUENCE_BATCH_PARSER_H_
