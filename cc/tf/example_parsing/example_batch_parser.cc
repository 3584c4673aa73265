#include "cc/tf/example_parsing/example_batch_parser.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/core_spec.h"
#include "cc/tf/example_parsing/minibatches.h"
#include "cc/tf/example_parsing/parse_errors.h"
#include "cc/tf/example_parsing/parser_switch.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using example_parser::ParsedSlice;
using example_parser::ParseError;
using example_parser::ParseErrorKind;
using example_parser::ParserSpec;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;

namespace {

// A byte of a record costs 0.3 to 0.6 ns to parse (39 features of one id, 26 of 20); a joined value 1 to 2 ns. They
// decide on how many threads a batch is worth, no more.
constexpr double kParseNsPerByte = 0.5;
constexpr int64_t kJoinNsPerValue = 2;
constexpr int64_t kSliceNs = 50000;

// The error of what failed first in the order of features, whichever thread met it first.
class FirstError {
 public:
  void Report(size_t position, TfStatus status) {
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok() || position < position_) {
      status_ = std::move(status);
      position_ = position;
    }
  }
  const TfStatus& status() const { return status_; }

 private:
  std::mutex mutex_;
  size_t position_ = 0;
  TfStatus status_;
};

TfStatus NoMemory() {
  return tensorflow::errors::ResourceExhausted("ParseExample: no memory for the values of the batch");
}

}  // namespace

TfStatus ExampleBatchParser::Make(const Config& config, Semantics semantics,
                                  std::shared_ptr<const ExampleBatchParser>* parser) {
  parser->reset();
  std::shared_ptr<const ParserSpec> spec;
  TF_RETURN_IF_ERROR(MakeCoreSpec(config, semantics, &spec));
  if (spec != nullptr) parser->reset(new ExampleBatchParser(config, std::move(spec)));
  return tensorflow::OkStatus();
}

ExampleBatchParser::ExampleBatchParser(const Config& config, std::shared_ptr<const ParserSpec> spec)
    : config_(config), parser_(std::move(spec), ParserSimdLevel()) {
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
  SerialFor serial;
  if (workers == nullptr) return ParseOn(records, names, serial, result, list_lengths);
  TfParallelFor parallel(workers);
  return ParseOn(records, names, parallel, result, list_lengths);
}

TfStatus ExampleBatchParser::ParseOn(absl::Span<const Record> records, absl::Span<const tstring> names,
                                     ParallelFor& parallel_for, Result* result,
                                     std::vector<Tensor>* list_lengths) const {
  ResizeResult(result);
  TF_RETURN_IF_ERROR(AllocateFixedDense(records.size(), result));
  size_t bytes = 0;
  for (const Record& record : records) bytes += record.size;
  const double ns = bytes * kParseNsPerByte;
  size_t n = 1;
  if (parallel_for.num_threads() > 1 && ns > 2 * kSliceNs) {
    // Two slices a thread, so that one late thread costs half a share; none shorter than what handing it over costs.
    n = std::min(
        {static_cast<size_t>(2 * parallel_for.num_threads()), static_cast<size_t>(ns / kSliceNs), records.size()});
  }
  Slices slices;
  pool_.Take(n, &slices);
  TfStatus status = ParseSlices(records, names, parallel_for, ns, slices, result);
  if (status.ok()) status = Join(slices, parallel_for, result, list_lengths);
  pool_.Give(std::move(slices));
  return status;
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
    TF_RETURN_IF_ERROR(
        AllocateTensor(dense.dtype, {static_cast<int64_t>(n)}, dense.shape, 0, &result->dense_values[d]));
  }
  return tensorflow::OkStatus();
}

TfStatus ExampleBatchParser::ParseSlices(absl::Span<const Record> records, absl::Span<const tstring> names,
                                         ParallelFor& parallel_for, double ns, const Slices& slices,
                                         Result* result) const {
  const std::vector<void*> fixed = FixedOutputs(result);
  std::vector<ParseError> errors(slices.size());
  std::atomic<bool> no_memory{false};
  const size_t n = slices.size();
  parallel_for.Run(n, static_cast<int64_t>(ns / n), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const size_t from = records.size() * s / n, to = records.size() * (s + 1) / n;
      try {
        ParseSlice(records, from, to, fixed.data(), slices[s].get(), &errors[s], result);
      } catch (const std::bad_alloc&) {
        no_memory = true;
      }
    }
  });
  if (no_memory) return NoMemory();
  for (const ParseError& error : errors) {
    if (error.kind != ParseErrorKind::kNone) return Error(error, records, names);
  }
  return tensorflow::OkStatus();
}

bool ExampleBatchParser::ParseSlice(absl::Span<const Record> records, size_t begin, size_t end, void* const* fixed,
                                    ParsedSlice* slice, ParseError* error, Result* result) const {
  if (!parser_.Parse(records.data() + begin, end - begin, begin, fixed, slice, error)) return false;
  for (const size_t f : fixed_strings_) {
    CopyFixedStrings(*slice, f, begin * config_.dense[f].elements_per_stride, &result->dense_values[f]);
  }
  return true;
}

TfStatus ExampleBatchParser::Error(const ParseError& error, absl::Span<const Record> records,
                                   absl::Span<const tstring> names) const {
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

TfStatus ExampleBatchParser::Join(const Slices& slices, ParallelFor& parallel_for, Result* result,
                                  std::vector<Tensor>* list_lengths) const {
  if (list_lengths != nullptr) list_lengths->resize(config_.dense.size());
  if (joined_.empty()) return tensorflow::OkStatus();
  std::vector<ParsedSlice*> parts;
  for (const auto& slice : slices) parts.push_back(slice.get());
  BatchPlaces places(parts, &constant_places_);
  std::vector<size_t> place_of(parser_.spec().size()), outer_place_of(parser_.spec().size());
  size_t values = 0;
  for (const size_t f : joined_) {
    if (f >= config_.dense.size()) place_of[f] = places.Add(f, PlaceKindOf(f));
    if (is_lists() && IsRagged(f)) outer_place_of[f] = places.Add(f, SplitsOf(f, /*of_steps=*/false));
    values += SlicesOf(f, parts).num_values();
  }
  FirstError error;
  const size_t n = joined_.size() + places.size();
  parallel_for.Run(n, 1 + values * kJoinNsPerValue / n, [&](int64_t begin, int64_t end) {
    for (size_t i = begin; i < static_cast<size_t>(end); ++i) {
      // Places first: of the tasks they are the longest.
      error.Report(i, i < places.size()
                          ? places.Fill(i)
                          : JoinFeature(SlicesOf(joined_[i - places.size()], parts), result, list_lengths));
    }
  });
  TF_RETURN_IF_ERROR(error.status());
  for (size_t s = 0; s < config_.sparse.size(); ++s) {
    const ListPlaces& place = places.Of(place_of[config_.dense.size() + s]);
    result->sparse_indices[s] = place.rows;
    result->sparse_shapes[s] = place.shape;
  }
  for (size_t r = 0; r < config_.ragged.size(); ++r) {
    const size_t f = config_.dense.size() + config_.sparse.size() + r;
    result->ragged_splits[r] = places.Of(place_of[f]).rows;
    if (is_lists()) result->ragged_outer_splits[r] = places.Of(outer_place_of[f]).rows;
  }
  return tensorflow::OkStatus();
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

TfStatus ExampleBatchParser::JoinFeature(const FeatureSlices& from, Result* result,
                                         std::vector<Tensor>* list_lengths) const {
  size_t f = from.feature;
  if (f < config_.dense.size()) {
    const auto& dense = config_.dense[f];
    if (is_lists()) {
      const size_t elements = spec().features()[f].elements;
      TF_RETURN_IF_ERROR(JoinStepCounts(from, elements, &(*list_lengths)[f]));
      const auto shape = tensorflow::PartialTensorShape({-1}).Concatenate(dense.shape);
      return JoinVarLenDense(from, shape, elements, dense.default_value, &result->dense_values[f]);
    }
    return JoinVarLenDense(from, dense.shape, dense.elements_per_stride, dense.default_value, &result->dense_values[f]);
  }
  f -= config_.dense.size();
  const bool sparse = f < config_.sparse.size();
  Tensor* values = sparse ? &result->sparse_values[f] : &result->ragged_values[f - config_.sparse.size()];
  return JoinValues(from, values);
}

}  // namespace tf_booster
