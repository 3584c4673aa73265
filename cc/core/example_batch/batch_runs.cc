#include "cc/core/example_batch/batch_runs.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tf_booster {

using example_parser::FeatureKind;
using example_parser::FeatureSpec;
using example_parser::ParseError;
using example_parser::ParseErrorKind;
using example_parser::Semantics;
using example_parser::ValueType;

ValueRooms::~ValueRooms() {
  for (const Room& room : rooms_) {
    if (room.block.data != nullptr) memory_->Give(room.block);
  }
}

void ValueRooms::Take(size_t feature, const ListForecast& forecast, size_t records, size_t item_bytes) {
  rooms_[feature] = {forecast, memory_->Take(forecast.ValuesBefore(records) * item_bytes)};
}

BatchRuns::~BatchRuns() {
  std::vector<std::unique_ptr<ParsedSlice>> slices;
  for (BatchRun& run : runs_) slices.push_back(std::move(run.slice));
  pool_->Give(std::move(slices));
}

BatchRuns::Walker::~Walker() {
  if (run_.slice != nullptr) runs_.Keep(std::move(run_));
}

bool BatchRuns::Walker::Parse(size_t begin, size_t end) {
  if (begin > runs_.first_bad_) return true;
  bool whole = false;
  try {
    if (run_.slice != nullptr && begin != behind_) runs_.Keep(std::move(run_));
    if (run_.slice == nullptr) run_ = runs_.Begin(begin);
    whole = runs_.Append(&run_, begin, end, alone_, parsed_);
  } catch (const std::bad_alloc&) {
    runs_.no_memory_ = true;
    return false;
  }
  behind_ = whole ? end : SIZE_MAX;
  return true;
}

void BatchRuns::Sort() {
  std::sort(runs_.begin(), runs_.end(), [](const BatchRun& a, const BatchRun& b) { return a.first_row < b.first_row; });
}

BatchRun BatchRuns::Begin(size_t first_row) {
  std::vector<std::unique_ptr<ParsedSlice>> slices;
  pool_->Take(1, &slices);
  BatchRun run = {first_row, std::move(slices[0]), std::vector<ListSizes>(rooms_.size()), {}};
  if (parser_.spec().semantics() == Semantics::kFeatureLists) run.steps.resize(rooms_.size());
  parser_.Empty(run.slice.get());
  return run;
}

bool BatchRuns::Append(BatchRun* run, size_t begin, size_t end, bool alone, Parsed parsed) {
  ParsedSlice* slice = run->slice.get();
  const size_t before = slice->num_records();
  Lend(*run, alone ? num_records_ : end);
  ParseError error;
  if (!parser_.Append(records_ + begin, end - begin, begin, fixed_, slice, &error)) {
    Report(error);
    return false;
  }
  for (size_t f = 0; f < rooms_.size(); ++f) {
    if (parser_.spec().features()[f].kind == FeatureKind::kFixedDense) continue;
    run->sizes[f].Add(slice->lengths(f).data() + before, end - begin);
    if (run->steps.empty()) continue;
    const auto& steps = slice->step_lengths(f);
    const size_t known = run->steps[f].records;
    run->steps[f].Add(steps.data() + known, steps.size() - known);
  }
  parsed(*slice, before, begin);
  return true;
}

void BatchRuns::Lend(const BatchRun& run, size_t end) {
  for (size_t f = 0; f < rooms_.size(); ++f) {
    const ValueRooms::Room& room = rooms_[f];
    if (room.block.data == nullptr) continue;
    const bool floats = parser_.spec().features()[f].type == ValueType::kFloat;
    const size_t item = floats ? sizeof(float) : sizeof(int64_t);
    // Behind `end` another thread may have begun. Behind the last row is nobody.
    const size_t from = room.forecast.ValuesBefore(run.first_row);
    const size_t to = end == num_records_ ? room.block.bytes / item : room.forecast.ValuesBefore(end);
    char* const data = room.block.data + from * item;
    if (floats) {
      run.slice->LendFloats(f, reinterpret_cast<float*>(data), to - from);
    } else {
      run.slice->LendInt64s(f, reinterpret_cast<int64_t*>(data), to - from);
    }
  }
}

void BatchRuns::Report(const ParseError& error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_.kind != ParseErrorKind::kNone && error_.record < error.record) return;
  error_ = error;
  first_bad_ = error.record;
}

void BatchRuns::Keep(BatchRun run) {
  std::lock_guard<std::mutex> lock(mutex_);
  runs_.push_back(std::move(run));
}

}  // namespace tf_booster
