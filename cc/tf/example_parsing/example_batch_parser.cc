#include "cc/tf/example_parsing/example_batch_parser.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/core_spec.h"
#include "cc/tf/example_parsing/minibatches.h"
#include "cc/tf/example_parsing/parse_errors.h"
#include "cc/tf/example_parsing/parser_switch.h"
#include "cc/tf/kernels/helped_parallel_for.h"
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

namespace {

// Another thread costs 5 us to call and comes 50 us later if it sleeps, so a share below this is not worth it.
constexpr double kShareNs = 50000;
// A share is cut into pieces, which other threads can take over. Each costs 1 us. Records and what strings point to are
// in the cache still when a piece is copied out.
constexpr double kLeastPieceNs = 25000, kMostPieceNs = 100000;
constexpr double kPiecesOfShare = 8;
// Of joining: a number that moves up, a string or number that is copied into a row, an index or split.
constexpr double kMoveNs = 0.5, kCopyNs = 3, kPlaceNs = 1;

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
  size_t bytes = 0;
  for (const Record& record : records) bytes += record.size;
  SerialFor serial;
  if (workers == nullptr) return ParseOn(records, names, 1, bytes, serial, result, list_lengths);
  HelpedParallelFor helped(workers);
  const size_t most = std::clamp<size_t>(records.size(), 1, helped.num_threads());
  const size_t threads = std::clamp<size_t>(bytes * cost_.ns_per_byte() / kShareNs, 1, most);
  if (threads == 1) return ParseOn(records, names, 1, bytes, helped, result, list_lengths);
  const bool help = help_.Next();
  const auto start = std::chrono::steady_clock::now();
  TF_RETURN_IF_ERROR(help ? ParseOn(records, names, threads, bytes, helped, result, list_lengths)
                          : ParseOn(records, names, 1, bytes, serial, result, list_lengths));
  help_.Add(help, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count(), bytes);
  return tensorflow::OkStatus();
}

TfStatus ExampleBatchParser::ParseOn(absl::Span<const Record> records, absl::Span<const tstring> names, size_t threads,
                                     size_t bytes, ParallelFor& parallel_for, Result* result,
                                     std::vector<Tensor>* list_lengths) const {
  ResizeResult(result);
  const size_t n = records.size();
  const double ns = bytes * cost_.ns_per_byte();
  const double piece_ns = std::clamp(ns / threads / kPiecesOfShare, kLeastPieceNs, kMostPieceNs);
  const size_t pieces = std::min(n, std::max(threads, static_cast<size_t>(ns / piece_ns)));
  ValueRooms rooms(memory_.get());
  MakeRooms(n, pieces == 0 ? 0 : n / pieces, &rooms);
  TF_RETURN_IF_ERROR(AllocateFixedDense(n, result));
  const std::vector<void*> fixed = FixedOutputs(result);
  BatchRuns runs(&parser_, records, fixed.data(), &rooms, &pool_);
  runs.Parse(parallel_for, threads, pieces, static_cast<int64_t>(ns),
             [&](const ParsedSlice& slice, size_t begin, size_t row) { CopyStrings(slice, begin, row, result); });
  if (runs.no_memory()) return NoMemory();
  if (runs.error().kind != ParseErrorKind::kNone) return Error(runs.error(), records, names);
  cost_.Add(runs.busy_ns(), bytes);
  return Join(runs.runs(), parallel_for, &rooms, result, list_lengths);
}

void ExampleBatchParser::MakeRooms(size_t records, size_t piece, ValueRooms* rooms) const {
  const auto& features = parser_.spec().features();
  rooms->Make(features.size());
  std::vector<ListForecast> forecasts(features.size());
  {
    std::lock_guard<std::mutex> lock(last_mutex_);
    // Of feature lists, values are not what lengths count.
    for (const size_t f : joined_) forecasts[f] = is_lists() ? ListForecast() : ListForecast(last_[f], piece);
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
    // Rows of variable dense features are padded, and strings made of views, in another place.
    if (f < config_.dense.size() || features[f].type == ValueType::kBytes || !forecasts[f].known()) continue;
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
    TF_RETURN_IF_ERROR(
        AllocateTensor(dense.dtype, static_cast<int64_t>(n), dense.shape, memory_.get(), &result->dense_values[d]));
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

TfStatus ExampleBatchParser::Join(const std::vector<BatchRun>& runs, ParallelFor& parallel_for, ValueRooms* rooms,
                                  Result* result, std::vector<Tensor>* list_lengths) const {
  if (list_lengths != nullptr) list_lengths->resize(config_.dense.size());
  if (joined_.empty()) return tensorflow::OkStatus();
  std::vector<ParsedSlice*> parts;
  std::vector<ListSizes> sizes(parser_.spec().size());
  for (const BatchRun& run : runs) {
    parts.push_back(run.slice.get());
    for (const size_t f : joined_) sizes[f].Add(run.sizes[f]);
  }
  BatchPlaces places(parts, &constant_places_);
  std::vector<size_t> place_of(parser_.spec().size()), outer_place_of(parser_.spec().size());
  double ns = 0;
  for (const size_t f : joined_) {
    if (f >= config_.dense.size()) {
      const PlaceKind kind = PlaceKindOf(f);
      place_of[f] = places.Add(f, kind, is_lists() ? places.Measure(f, kind) : sizes[f]);
    }
    if (is_lists() && IsRagged(f)) outer_place_of[f] = places.Add(f, SplitsOf(f, /*of_steps=*/false), sizes[f]);
    const FeatureSlices from = SlicesOf(f, parts);
    const bool moves = (*rooms)[f].block.data != nullptr;
    ns += moves ? NumToMove(from, (*rooms)[f].block) * kMoveNs : from.num_values() * kCopyNs;
  }
  ns += places.NumToWrite() * kPlaceNs;
  FirstError error;
  const size_t n = joined_.size() + places.size();
  parallel_for.Run(n, static_cast<int64_t>(ns / n), [&](int64_t begin, int64_t end) {
    for (size_t i = begin; i < static_cast<size_t>(end); ++i) {
      // Places first: of the tasks they are the longest.
      if (i < places.size()) {
        error.Report(i, places.Fill(i));
      } else {
        const size_t f = joined_[i - places.size()];
        error.Report(i, JoinFeature(SlicesOf(f, parts), sizes[f], rooms, result, list_lengths));
      }
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
  std::lock_guard<std::mutex> lock(last_mutex_);
  last_ = std::move(sizes);
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

TfStatus ExampleBatchParser::JoinFeature(const FeatureSlices& from, const ListSizes& sizes, ValueRooms* rooms,
                                         Result* result, std::vector<Tensor>* list_lengths) const {
  const size_t feature = from.feature;
  if (feature < config_.dense.size()) {
    const auto& dense = config_.dense[feature];
    Tensor* values = &result->dense_values[feature];
    if (is_lists()) {
      const size_t elements = spec().features()[feature].elements;
      TF_RETURN_IF_ERROR(JoinStepCounts(from, elements, &(*list_lengths)[feature]));
      const auto shape = tensorflow::PartialTensorShape({-1}).Concatenate(dense.shape);
      return JoinVarLenDense(from, shape, elements, sizes.longest, dense.default_value, values);
    }
    return JoinVarLenDense(from, dense.shape, dense.elements_per_stride, sizes.longest, dense.default_value, values);
  }
  const size_t f = feature - config_.dense.size();
  const bool sparse = f < config_.sparse.size();
  Tensor* values = sparse ? &result->sparse_values[f] : &result->ragged_values[f - config_.sparse.size()];
  const ValueMemory::Block& block = (*rooms)[feature].block;
  if (block.data == nullptr || !JoinInBlock(from, block, memory_.get(), values)) return JoinValues(from, values);
  rooms->Forget(feature);
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
