#include "cc/tf/example_parsing/batch_runs.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace tf_booster {

using example_parser::FeatureKind;
using example_parser::FeatureSpec;
using example_parser::ParseError;
using example_parser::ParseErrorKind;
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

void BatchRuns::Parse(ParallelFor& parallel_for, size_t threads, size_t pieces, int64_t cost_ns, Parsed parsed) {
  WorkSpans work(pieces, threads);
  parallel_for.Run(threads, cost_ns / static_cast<int64_t>(threads), [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) Walk(&work, pieces, threads == 1, parsed);
  });
  std::sort(runs_.begin(), runs_.end(), [](const BatchRun& a, const BatchRun& b) { return a.first_row < b.first_row; });
}

void BatchRuns::Walk(WorkSpans* work, size_t pieces, bool alone, Parsed parsed) {
  const auto start = std::chrono::steady_clock::now();
  WorkSpans::Walker walker(work);
  BatchRun run;
  size_t behind = 0;  // The run's last row.
  for (size_t piece; walker.Next(&piece);) {
    const size_t begin = records_.size() * piece / pieces, end = records_.size() * (piece + 1) / pieces;
    if (begin > first_bad_) continue;
    bool whole = false;
    try {
      if (run.slice != nullptr && begin != behind) Keep(std::move(run));
      if (run.slice == nullptr) run = Begin(begin);
      whole = Append(&run, begin, end, alone, parsed);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
      break;
    }
    behind = whole ? end : SIZE_MAX;
  }
  if (run.slice != nullptr) Keep(std::move(run));
  busy_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

BatchRun BatchRuns::Begin(size_t first_row) {
  std::vector<std::unique_ptr<ParsedSlice>> slices;
  pool_->Take(1, &slices);
  BatchRun run = {first_row, std::move(slices[0]), std::vector<ListSizes>(rooms_.size())};
  parser_.Empty(run.slice.get());
  return run;
}

bool BatchRuns::Append(BatchRun* run, size_t begin, size_t end, bool alone, Parsed parsed) {
  ParsedSlice* slice = run->slice.get();
  const size_t before = slice->num_records();
  Lend(*run, alone ? records_.size() : end);
  ParseError error;
  if (!parser_.Append(records_.data() + begin, end - begin, begin, fixed_, slice, &error)) {
    Report(error);
    return false;
  }
  for (size_t f = 0; f < rooms_.size(); ++f) {
    if (parser_.spec().features()[f].kind == FeatureKind::kFixedDense) continue;
    run->sizes[f].Add(slice->lengths(f).data() + before, end - begin);
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
    const size_t to = end == records_.size() ? room.block.bytes / item : room.forecast.ValuesBefore(end);
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
