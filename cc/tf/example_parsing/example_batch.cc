#include "cc/tf/example_parsing/example_batch.h"

#include <utility>

#include "cc/tf/example_parsing/batch_outputs.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using example_parser::ParsedSlice;
using example_parser::Record;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;

namespace {

// Of joining: a number that moves up, a string or number that is copied into a row, an index or split.
constexpr double kMoveNs = 0.5, kCopyNs = 3, kPlaceNs = 1;

}  // namespace

void FirstError::Report(size_t position, TfStatus status) {
  if (status.ok()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok() || position < position_) {
    status_ = std::move(status);
    position_ = position;
  }
}

void ExampleBatch::Walker::Copy::operator()(const ParsedSlice& slice, size_t begin, size_t row) const {
  batch->parser_.CopyStrings(slice, begin, row, batch->result_);
}

ExampleBatch::ExampleBatch(const ExampleBatchParser& parser, absl::Span<const Record> records,
                           tensorflow::example::Result* result, std::vector<Tensor>* list_lengths)
    : parser_(parser), records_(records), result_(result), list_lengths_(list_lengths), rooms_(parser.memory_.get()) {}

TfStatus ExampleBatch::Start(size_t piece) {
  parser_.ResizeResult(result_);
  parser_.MakeRooms(records_.size(), piece, &rooms_);
  TF_RETURN_IF_ERROR(parser_.AllocateFixedDense(records_.size(), result_));
  fixed_ = parser_.FixedOutputs(result_);
  runs_ = std::make_unique<BatchRuns>(&parser_.parser_, records_.data(), records_.size(), fixed_.data(), &rooms_,
                                      &parser_.pool_);
  return tensorflow::OkStatus();
}

TfStatus ExampleBatch::StartJoin() {
  if (runs_->no_memory()) {
    return tensorflow::errors::ResourceExhausted("ParseExample: no memory for the values of the batch");
  }
  runs_->Sort();
  if (list_lengths_ != nullptr) list_lengths_->resize(parser_.config_.dense.size());
  const size_t features = parser_.spec().size();
  sizes_.resize(features);
  steps_.resize(features);
  for (const BatchRun& run : runs_->runs()) {
    slices_.push_back(run.slice.get());
    for (const size_t f : parser_.joined_) {
      sizes_[f].Add(run.sizes[f]);
      if (parser_.is_lists()) steps_[f].Add(run.steps[f]);
    }
  }
  AddPlaces();
  for (const size_t f : parser_.joined_) TF_RETURN_IF_ERROR(AddFeature(f));
  return tensorflow::OkStatus();
}

// Places first: of the tasks they are the longest.
void ExampleBatch::AddPlaces() {
  const size_t features = parser_.spec().size();
  place_of_.resize(features);
  outer_place_of_.resize(features);
  places_ = std::make_unique<BatchPlaces>(slices_, &parser_.constant_places_);
  for (const size_t f : parser_.joined_) {
    if (f < parser_.config_.dense.size()) continue;
    place_of_[f] = places_->Add(f, parser_.PlaceKindOf(f), parser_.is_lists() ? steps_[f] : sizes_[f]);
    if (parser_.is_lists() && parser_.IsRagged(f)) {
      outer_place_of_[f] = places_->Add(f, parser_.SplitsOf(f, /*of_steps=*/false), sizes_[f]);
    }
  }
  for (size_t i = 0; i < places_->size(); ++i) tasks_.push_back({true, i, kAll});
  join_ns_ += static_cast<double>(places_->NumToWrite()) * kPlaceNs;
}

TfStatus ExampleBatch::AddFeature(size_t f) {
  const FeatureSlices from = SlicesOf(f);
  if (HasRoom(f)) {
    join_ns_ += static_cast<double>(NumToMove(from, rooms_[f].block)) * kMoveNs;
  } else {
    join_ns_ += static_cast<double>(from.num_values()) * kCopyNs;
  }
  const bool dense = f < parser_.config_.dense.size();
  if (dense && list_lengths_ != nullptr) {
    TF_RETURN_IF_ERROR(
        AllocateTensor(tensorflow::DT_INT64, {static_cast<int64_t>(records_.size())}, &(*list_lengths_)[f]));
  }
  // What may be where it belongs is one task, and what a single slice gives away.
  if (HasRoom(f) ? !dense || sizes_[f].constant() : !dense && slices_.size() == 1) {
    tasks_.push_back({false, f, kAll});
    return tensorflow::OkStatus();
  }
  TF_RETURN_IF_ERROR(AllocateValues(f));
  for (size_t s = 0; s < slices_.size(); ++s) tasks_.push_back({false, f, s});
  return tensorflow::OkStatus();
}

TfStatus ExampleBatch::AllocateValues(size_t f) {
  const FeatureSlices from = SlicesOf(f);
  if (f >= parser_.config_.dense.size()) {
    return AllocateTensor(from.dtype, {static_cast<int64_t>(from.num_values())}, {}, 0, parser_.memory_.get(),
                          ValuesOf(f));
  }
  return AllocateTensor(from.dtype, {static_cast<int64_t>(records_.size()), RowsOf(f)}, DenseShape(f), 1,
                        parser_.memory_.get(), ValuesOf(f));
}

void ExampleBatch::Join(size_t task) {
  const Task& todo = tasks_[task];
  if (todo.is_place) {
    first_error_.Report(task, places_->Fill(todo.index));
  } else if (todo.slice == kAll) {
    first_error_.Report(task, JoinWhole(todo.index));
  } else {
    JoinSlice(todo.index, todo.slice);
  }
}

TfStatus ExampleBatch::JoinWhole(size_t f) {
  const FeatureSlices from = SlicesOf(f);
  const bool dense = f < parser_.config_.dense.size();
  Tensor* const values = ValuesOf(f);
  if (HasRoom(f) && JoinInBlock(from, rooms_[f].block, parser_.memory_.get(), values)) {
    rooms_.Forget(f);
    if (!dense) return tensorflow::OkStatus();
    // Lists of one length: no row needs padding.
    tensorflow::TensorShape shape({static_cast<int64_t>(records_.size()), RowsOf(f)});
    const tensorflow::PartialTensorShape inner = DenseShape(f);
    for (int i = 1; i < inner.dims(); ++i) TF_RETURN_IF_ERROR(shape.AddDimWithStatus(inner.dim_size(i)));
    if (!values->CopyFrom(Tensor(*values), shape)) {
      return tensorflow::errors::Internal("ParseExample: ", values->NumElements(), " values for a tensor of shape ",
                                          shape.DebugString());
    }
    for (size_t s = 0; s < slices_.size(); ++s) CountSteps(f, s);
    return tensorflow::OkStatus();
  }
  if (!dense) return JoinValues(from, values);
  TF_RETURN_IF_ERROR(AllocateValues(f));
  for (size_t s = 0; s < slices_.size(); ++s) JoinSlice(f, s);
  return tensorflow::OkStatus();
}

void ExampleBatch::JoinSlice(size_t f, size_t s) {
  const FeatureSlices from = SlicesOf(f);
  if (f >= parser_.config_.dense.size()) {
    const FeatureSlices before = {from.slices.subspan(0, s), from.feature, from.dtype};
    return CopyValues(from, s, before.num_values(), ValuesOf(f));
  }
  CountSteps(f, s);
  PadRows(from, s, runs_->runs()[s].first_row, parser_.config_.dense[f].default_value, ValuesOf(f));
}

void ExampleBatch::CountSteps(size_t f, size_t s) {
  if (list_lengths_ == nullptr) return;
  const size_t elements = parser_.spec().features()[f].elements;
  int64_t* out = (*list_lengths_)[f].flat<int64_t>().data() + runs_->runs()[s].first_row;
  for (const uint32_t length : slices_[s]->lengths(f)) *out++ = static_cast<int64_t>(length / elements);
}

TfStatus ExampleBatch::Finish() {
  TF_RETURN_IF_ERROR(first_error_.status());
  const auto& config = parser_.config_;
  for (size_t s = 0; s < config.sparse.size(); ++s) {
    const ListPlaces& place = places_->Of(place_of_[config.dense.size() + s]);
    result_->sparse_indices[s] = place.rows;
    result_->sparse_shapes[s] = place.shape;
  }
  for (size_t r = 0; r < config.ragged.size(); ++r) {
    const size_t f = config.dense.size() + config.sparse.size() + r;
    result_->ragged_splits[r] = places_->Of(place_of_[f]).rows;
    if (parser_.is_lists()) result_->ragged_outer_splits[r] = places_->Of(outer_place_of_[f]).rows;
  }
  for (const size_t f : parser_.joined_) {
    if (parser_.is_lists() && f >= config.dense.size()) sizes_[f] = ValuesOfRecords(sizes_[f], steps_[f]);
  }
  parser_.Remember(std::move(sizes_));
  return tensorflow::OkStatus();
}

FeatureSlices ExampleBatch::SlicesOf(size_t f) const { return parser_.SlicesOf(f, slices_); }

Tensor* ExampleBatch::ValuesOf(size_t f) const {
  const size_t dense = parser_.config_.dense.size(), sparse = parser_.config_.sparse.size();
  if (f < dense) return &result_->dense_values[f];
  return f < dense + sparse ? &result_->sparse_values[f - dense] : &result_->ragged_values[f - dense - sparse];
}

int64_t ExampleBatch::RowsOf(size_t f) const {
  const size_t stride =
      parser_.is_lists() ? parser_.spec().features()[f].elements : parser_.config_.dense[f].elements_per_stride;
  return static_cast<int64_t>(sizes_[f].longest / stride);
}

tensorflow::PartialTensorShape ExampleBatch::DenseShape(size_t f) const {
  const tensorflow::PartialTensorShape& shape = parser_.config_.dense[f].shape;
  return parser_.is_lists() ? tensorflow::PartialTensorShape({-1}).Concatenate(shape) : shape;
}

}  // namespace tf_booster
