// One batch of an ExampleBatchParser on its way: parsed piece by piece by several threads, then joined task by task.
// SequenceBatchParser has two of them under way at once, of a context and of feature lists.
//
//   ExampleBatch batch(parser, records, &result, nullptr);
//   TF_RETURN_IF_ERROR(batch.Start(rows_of_a_piece));
//   …                                                    // On each thread: a Walker, and Parse for each piece.
//   TF_RETURN_IF_ERROR(batch.StartJoin());
//   …                                                    // On any threads: Join, for each of num_tasks.
//   TF_RETURN_IF_ERROR(batch.Finish());
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "cc/core/example_batch/batch_runs.h"
#include "cc/tf/example_parsing/example_batch_parser.h"
#include "cc/tf/example_parsing/list_places.h"

namespace tf_booster {

// The error of what failed first in the order of tasks, whichever thread met it first.
class FirstError {
 public:
  void Report(size_t position, tensorflow::Status status);
  const tensorflow::Status& status() const { return status_; }

 private:
  std::mutex mutex_;
  size_t position_ = 0;
  tensorflow::Status status_;
};

class ExampleBatch {
 public:
  // All of them outlive the batch; records need not be filled in before they are parsed. `list_lengths`: see
  // ExampleBatchParser::Parse.
  ExampleBatch(const ExampleBatchParser& parser, absl::Span<const example_parser::Record> records,
               tensorflow::example::Result* result, std::vector<tensorflow::Tensor>* list_lengths);

  // Allocates what can be, for pieces of about `piece` records.
  tensorflow::Status Start(size_t piece);

  // One thread's way through the batch; see BatchRuns::Walker.
  class Walker {
   public:
    Walker(ExampleBatch* batch, bool alone) : copy_{batch}, walker_(batch->runs_.get(), alone, copy_) {}
    bool Parse(size_t begin, size_t end) { return walker_.Parse(begin, end); }

   private:
    struct Copy {
      ExampleBatch* batch;
      void operator()(const example_parser::ParsedSlice& slice, size_t begin, size_t row) const;
    };
    Copy copy_;
    BatchRuns::Walker walker_;
  };

  // When all walkers are gone. kNone: all records are parsed, if there was memory.
  const example_parser::ParseError& error() const { return runs_->error(); }
  tensorflow::Status StartJoin();

  size_t num_tasks() const { return tasks_.size(); }
  double join_ns() const { return join_ns_; }
  // Any thread, each task once, in any order.
  void Join(size_t task);
  tensorflow::Status Finish();

 private:
  static constexpr size_t kAll = SIZE_MAX;
  struct Task {
    bool is_place;
    size_t index;  // Of the place, or the feature.
    size_t slice;  // Or kAll.
  };

  void AddPlaces();
  tensorflow::Status AddFeature(size_t feature);
  tensorflow::Status AllocateValues(size_t feature);
  tensorflow::Status JoinWhole(size_t feature);
  void JoinSlice(size_t feature, size_t slice);
  // Of a dense feature list: the steps of the slice's records.
  void CountSteps(size_t feature, size_t slice);
  FeatureSlices SlicesOf(size_t feature) const;
  tensorflow::Tensor* ValuesOf(size_t feature) const;
  // Of a dense feature of variable length: rows of each record, and the shape whose first dimension they are.
  int64_t RowsOf(size_t feature) const;
  tensorflow::PartialTensorShape DenseShape(size_t feature) const;
  bool HasRoom(size_t feature) const { return rooms_[feature].block.data != nullptr; }

  const ExampleBatchParser& parser_;
  const absl::Span<const example_parser::Record> records_;
  tensorflow::example::Result* const result_;
  std::vector<tensorflow::Tensor>* const list_lengths_;
  ValueRooms rooms_;
  std::vector<void*> fixed_;
  std::unique_ptr<BatchRuns> runs_;
  // Of joining.
  std::vector<example_parser::ParsedSlice*> slices_;
  std::vector<ListSizes> sizes_, steps_;  // By feature.
  std::unique_ptr<BatchPlaces> places_;
  std::vector<size_t> place_of_, outer_place_of_;
  std::vector<Task> tasks_;
  double join_ns_ = 0;
  FirstError first_error_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_EXAMPLE_BATCH_H_
