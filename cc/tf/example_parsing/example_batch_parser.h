// From serialized tf.train.Examples to TensorFlow's tensors: what example::FastParseExample and FastParseSingleExample
// do, with cc/core's parser. Serves kernels and datasets alike.
//
//   std::shared_ptr<const ExampleBatchParser> parser;   // Once for each spec.
//   TF_RETURN_IF_ERROR(ExampleBatchParser::Make(config, Semantics::kBatch, &parser));
//   if (parser == nullptr) …                            // Not served: call TensorFlow.
//   tensorflow::example::Result result;
//   TF_RETURN_IF_ERROR(parser->Parse(records, names, workers, &result));
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_PARSER_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_PARSER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "cc/core/example_batch/list_sizes.h"
#include "cc/core/example_batch/slice_pool.h"
#include "cc/core/example_parser/example_parser.h"
#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/batch_shares.h"
#include "cc/tf/example_parsing/list_places.h"
#include "cc/tf/example_parsing/value_memory.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/tstring.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

class ValueRooms;

class ExampleBatchParser {
 public:
  using Config = tensorflow::example::FastParseExampleConfig;
  using Result = tensorflow::example::Result;
  using Record = example_parser::Record;
  using Semantics = example_parser::Semantics;

  // `config` is copied, its default values too. Null, with an OK status, for a spec that TensorFlow must answer (see
  // MakeCoreSpec). kBatch is for Parse; kSingle for ParseSingle, and for a Parse whose errors are those of the first
  // record that ParseSingle refuses; the parts of SequenceExamples (see SequenceBatchParser): kContext for both,
  // kFeatureLists for Parse.
  static tensorflow::Status Make(const Config& config, Semantics semantics,
                                 std::shared_ptr<const ExampleBatchParser>* parser);

  const Config& config() const { return config_; }
  const example_parser::ParserSpec& spec() const { return parser_.spec(); }
  SimdLevel level() const { return parser_.level(); }

  // A batch, as FastParseExample gives it: fixed dense [n, shape…], variable dense [n, longest, shape…], sparse indices
  // [values, 2], ragged splits [n + 1]. `names` are for errors: n or none. `workers` may be null: then all is done by
  // the caller. Errors are TensorFlow's (see parse_errors.h), of the first record in error; where TensorFlow would
  // crash, InvalidArgument. Any number of threads may call at once.
  // kFeatureLists, as FastParseSequenceExample gives them: dense [n, most steps, shape…], and `list_lengths` their
  // steps [n]; sparse indices [values, 3]; ragged splits [steps + 1], outer splits [n + 1]. kContext and kFeatureLists:
  // Unimplemented for a record that is not plain.
  tensorflow::Status Parse(absl::Span<const Record> records, absl::Span<const tensorflow::tstring> names,
                           tensorflow::thread::ThreadPool* workers, Result* result,
                           std::vector<tensorflow::Tensor>* list_lengths = nullptr) const;

  // One record without a batch dimension, as FastParseSingleExample gives it: dense [shape…], sparse indices [values,
  // 1], ragged splits [0].
  tensorflow::Status ParseSingle(Record record, Result* result) const;

 private:
  friend class ExampleBatch;

  ExampleBatchParser(const Config& config, std::shared_ptr<const example_parser::ParserSpec> spec);

  bool is_lists() const { return spec().semantics() == Semantics::kFeatureLists; }
  // Whether this dense feature has so many values in each record that its tensor can be made before they are parsed.
  bool IsFixed(size_t dense) const { return !is_lists() && !config_.dense[dense].variable_length; }
  void ResizeResult(Result* result) const;
  tensorflow::Status AllocateFixedDense(size_t n, Result* result) const;
  // By feature: where row 0 of a fixed dense one lies.
  std::vector<void*> FixedOutputs(Result* result) const;
  // Memory for the values of `records` records, in pieces of `piece`.
  void MakeRooms(size_t records, size_t piece, ValueRooms* rooms) const;
  // Fixed strings of the slice's records from `begin` on to the batch's rows from `row` on.
  void CopyStrings(const example_parser::ParsedSlice& slice, size_t begin, size_t row, Result* result) const;
  tensorflow::Status Error(const example_parser::ParseError& error, absl::Span<const Record> records,
                           absl::Span<const tensorflow::tstring> names) const;
  // The number of values of a feature in records that parse.
  size_t CountValues(absl::Span<const Record> records, size_t feature) const;
  FeatureSlices SlicesOf(size_t feature, absl::Span<example_parser::ParsedSlice* const> slices) const;
  // The lengths of a batch's lists, which say what to expect of the next one's.
  void Remember(std::vector<ListSizes> sizes) const;
  bool IsRagged(size_t feature) const { return feature >= config_.dense.size() + config_.sparse.size(); }
  // The kind of a sparse or ragged feature's places; of a ragged list, those of its steps.
  PlaceKind PlaceKindOf(size_t feature) const;
  PlaceKind SplitsOf(size_t feature, bool of_steps) const;
  tensorflow::Status SingleFeature(const FeatureSlices& from, Result* result) const;

  Config config_;
  example_parser::ExampleParser parser_;
  std::vector<size_t> fixed_strings_;  // Numbers of the dense features that slices hold as views.
  std::vector<size_t> joined_;         // Numbers of the features of variable length.
  mutable SlicePool pool_;
  mutable ConstantPlaces constant_places_;
  mutable BatchShares shares_;
  const std::shared_ptr<ValueMemory> memory_ = ValueMemory::OfAllParsers();
  mutable std::mutex last_mutex_;
  mutable std::vector<ListSizes> last_;  // By feature, of the last batch.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_PARSER_H_
