#include "cc/tf/example_parsing/example_batch_parser.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/core_spec.h"
#include "cc/tf/example_parsing/example_batch.h"
#include "cc/tf/example_parsing/minibatches.h"
#include "cc/tf/example_parsing/parse_errors.h"
#include "cc/tf/example_parsing/parser_switch.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using example_parser::ParsedSlice;
using example_parser::ParseError;
using example_parser::ParseErrorKind;
using example_parser::ParserSpec;
using example_parser::ValueType;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;

TfStatus ExampleBatchParser::Make(const Config& config, Semantics semantics,
                                  std::shared_ptr<const ExampleBatchParser>* parser) {
  parser->reset();
  std::shared_ptr<const ParserSpec> spec;
  TF_RETURN_IF_ERROR(MakeCoreSpec(config, semantics, &spec));
  if (spec != nullptr) parser->reset(new ExampleBatchParser(config, std::move(spec)));
  return tensorflow::OkStatus();
}

ExampleBatchParser::ExampleBatchParser(const Config& config, std::shared_ptr<const ParserSpec> spec)
    : config_(config), parser_(std::move(spec), ParserSimdLevel()), last_(parser_.spec().size()) {
  for (size_t f = 0; f < parser_.spec().size(); ++f) {
    if (f >= config_.dense.size() || !IsFixed(f)) {
      joined_.push_back(f);
    } else if (config_.dense[f].dtype == tensorflow::DT_STRING) {
      fixed_strings_.push_back(f);
    }
    // The caller's tensor may change under us where it is a reference to a variable.
    if (f < config_.dense.size()) {
      config_.dense[f].default_value = tensorflow::tensor::DeepCopy(config_.dense[f].default_value);
    }
  }
}

TfStatus ExampleBatchParser::Parse(absl::Span<const Record> records, absl::Span<const tstring> names,
                                   tensorflow::thread::ThreadPool* workers, Result* result,
                                   std::vector<Tensor>* list_lengths) const {
  return shares_.Run(records, workers, [&](const BatchPlan& plan, ParallelFor& parallel_for) {
    ExampleBatch batch(*this, records, result, list_lengths);
    TF_RETURN_IF_ERROR(batch.Start(plan.pieces() == 0 ? 0 : records.size() / plan.pieces()));
    const int64_t busy_ns = plan.Walk(parallel_for, [&](BatchPlan::Next next) {
      ExampleBatch::Walker walker(&batch, plan.threads == 1);
      for (size_t begin, end; next(&begin, &end) && walker.Parse(begin, end);) {
      }
    });
    if (batch.error().kind != ParseErrorKind::kNone) return Error(batch.error(), records, names);
    TF_RETURN_IF_ERROR(batch.StartJoin());
    shares_.AddCost(busy_ns, plan.bytes);
    const auto tasks = static_cast<int64_t>(batch.num_tasks());
    if (tasks > 0) {
      parallel_for.Run(tasks, static_cast<int64_t>(batch.join_ns()) / tasks, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) batch.Join(static_cast<size_t>(i));
      });
    }
    return batch.Finish();
  });
}

void ExampleBatchParser::MakeRooms(size_t records, size_t piece, ValueRooms* rooms) const {
  const auto& features = parser_.spec().features();
  rooms->Make(features.size());
  std::vector<ListForecast> forecasts(features.size());
  std::vector<bool> constant(features.size());
  {
    std::lock_guard<std::mutex> lock(last_mutex_);
    for (const size_t f : joined_) {
      forecasts[f] = ListForecast(last_[f], piece);
      constant[f] = last_[f].constant();
    }
  }
  size_t bytes = 0;
  const auto item = [&](size_t f) { return tensorflow::DataTypeSize(ToDataType(features[f].type)); };
  for (const size_t f : joined_) bytes += forecasts[f].ValuesBefore(records) * item(f);
  for (const auto& dense : config_.dense) {
    if (!dense.variable_length && !is_lists())
      bytes += records * dense.elements_per_stride * tensorflow::DataTypeSize(dense.dtype);
  }
  memory_->StartBatch(bytes);
  for (const size_t f : joined_) {
    // Strings are made of views in another place, and rows that must be padded, too.
    if (features[f].type == ValueType::kBytes || !forecasts[f].known()) continue;
    if (f < config_.dense.size() && !constant[f]) continue;
    rooms->Take(f, forecasts[f], records, item(f));
  }
}

void ExampleBatchParser::ResizeResult(Result* result) const {
  result->dense_values.resize(config_.dense.size());
  result->sparse_indices.resize(config_.sparse.size());
  result->sparse_values.resize(config_.sparse.size());
  result->sparse_shapes.resize(config_.sparse.size());
  result->ragged_values.resize(config_.ragged.size());
  result->ragged_splits.resize(config_.ragged.size());
  if (is_lists()) result->ragged_outer_splits.resize(config_.ragged.size());
}

std::vector<void*> ExampleBatchParser::FixedOutputs(Result* result) const {
  std::vector<void*> fixed(parser_.spec().size(), nullptr);
  for (size_t d = 0; d < config_.dense.size(); ++d) {
    if (IsFixed(d)) fixed[d] = result->dense_values[d].data();
  }
  return fixed;
}

TfStatus ExampleBatchParser::AllocateFixedDense(size_t n, Result* result) const {
  for (size_t d = 0; d < config_.dense.size(); ++d) {
    const auto& dense = config_.dense[d];
    if (!IsFixed(d)) continue;
    TF_RETURN_IF_ERROR(AllocateTensor(dense.dtype, {static_cast<int64_t>(n)}, dense.shape, 0, memory_.get(),
                                      &result->dense_values[d]));
  }
  return tensorflow::OkStatus();
}

void ExampleBatchParser::CopyStrings(const ParsedSlice& slice, size_t begin, size_t row, Result* result) const {
  for (const size_t f : fixed_strings_) {
    const size_t elements = config_.dense[f].elements_per_stride;
    CopyFixedStrings(slice, f, begin * elements, row * elements, &result->dense_values[f]);
  }
}

TfStatus ExampleBatchParser::Error(const ParseError& error, absl::Span<const Record> records,
                                   absl::Span<const tstring> names) const {
  if (spec().semantics() == Semantics::kSingle) {
    for (const Record& record : records) {
      Result alone;
      TF_RETURN_IF_ERROR(ParseSingle(record, &alone));
    }
  }
  size_t count = error.found_count;
  if (error.kind == ParseErrorKind::kNotMultiple) {
    // TensorFlow tells the values of all records of its minibatch so far.
    const size_t begin = StockMinibatchBegin(records, error.record);
    count += CountValues(records.subspan(begin, error.record - begin), error.feature);
  }
  const std::string name = names.empty() ? "<unknown>" : std::string(names[error.record]);
  return BatchError(error, config_, name, records[error.record].size, count);
}

size_t ExampleBatchParser::CountValues(absl::Span<const Record> records, size_t feature) const {
  Result rows;
  ResizeResult(&rows);
  if (!AllocateFixedDense(records.size(), &rows).ok()) return 0;
  ParsedSlice slice;
  ParseError error;
  parser_.Parse(records.data(), records.size(), 0, FixedOutputs(&rows).data(), &slice, &error);
  size_t count = 0;
  for (const uint32_t length : slice.lengths(feature)) count += length;
  return count;
}

void ExampleBatchParser::Remember(std::vector<ListSizes> sizes) const {
  std::lock_guard<std::mutex> lock(last_mutex_);
  last_ = std::move(sizes);
}

PlaceKind ExampleBatchParser::PlaceKindOf(size_t feature) const {
  if (IsRagged(feature)) return SplitsOf(feature, is_lists());
  return is_lists() ? PlaceKind::kStepSparse : PlaceKind::kSparse;
}

PlaceKind ExampleBatchParser::SplitsOf(size_t feature, bool of_steps) const {
  const size_t ragged = feature - config_.dense.size() - config_.sparse.size();
  if (config_.ragged[ragged].splits_dtype == tensorflow::DT_INT32) {
    return of_steps ? PlaceKind::kStepSplits32 : PlaceKind::kSplits32;
  }
  return of_steps ? PlaceKind::kStepSplits64 : PlaceKind::kSplits64;
}

FeatureSlices ExampleBatchParser::SlicesOf(size_t feature, absl::Span<ParsedSlice* const> slices) const {
  return {slices, feature, ToDataType(parser_.spec().features()[feature].type)};
}

}  // namespace tf_booster
