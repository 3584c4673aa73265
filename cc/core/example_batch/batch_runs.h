// The records of a batch, parsed by several threads, and where the values of their lists go on the way.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_RUNS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_RUNS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/kept_memory.h"
#include "cc/core/example_batch/list_sizes.h"
#include "cc/core/example_batch/slice_pool.h"
#include "cc/core/example_parser/example_parser.h"

namespace tf_booster {

// By feature, memory of the tensor to be, for numbers of varying length that the last batch had, too. Where each run of
// records begins in it follows from how long lists were there; so lists of one length need no joining at all. What was
// not taken goes back in the end.
class ValueRooms {
 public:
  explicit ValueRooms(KeptMemory* memory) : memory_(memory) {}
  ~ValueRooms();

  struct Room {
    ListForecast forecast;
    KeptMemory::Block block;  // Without data: there is no forecast, or no memory.
  };

  void Make(size_t num_features) { rooms_.resize(num_features); }
  void Take(size_t feature, const ListForecast& forecast, size_t records, size_t item_bytes);
  size_t size() const { return rooms_.size(); }
  const Room& operator[](size_t feature) const { return rooms_[feature]; }
  // The block is somebody else's now.
  void Forget(size_t feature) { rooms_[feature].block = {}; }

 private:
  KeptMemory* const memory_;
  std::vector<Room> rooms_;
};

// Records that one thread parsed one after another.
struct BatchRun {
  size_t first_row = 0;
  std::unique_ptr<example_parser::ParsedSlice> slice;
  std::vector<ListSizes> sizes;  // By feature.
  std::vector<ListSizes> steps;  // By feature list: a step is a list here.
};

class BatchRuns {
 public:
  using Record = example_parser::Record;
  using ParsedSlice = example_parser::ParsedSlice;

  // `fixed`: see ExampleParser::Parse. All that is pointed to outlives the object.
  BatchRuns(const example_parser::ExampleParser* parser, const Record* records, size_t num_records, void* const* fixed,
            const ValueRooms* rooms, SlicePool* pool)
      : parser_(*parser), records_(records), num_records_(num_records), fixed_(fixed), rooms_(*rooms), pool_(pool) {}
  // Slices go back to the pool.
  ~BatchRuns();

  // `parsed(slice, begin, row)`, on the thread that parsed: the records of the slice from `begin` on are those from row
  // `row` on.
  using Parsed = FunctionRef<void(const ParsedSlice& slice, size_t begin, size_t row)>;

  // One thread's way through the batch, in pieces that no other thread parses. `alone`: there is no other thread.
  class Walker {
   public:
    Walker(BatchRuns* runs, bool alone, Parsed parsed) : runs_(*runs), alone_(alone), parsed_(parsed) {}
    // The runs are whole when the last walker is gone.
    ~Walker();

    // Records [begin, end). False: there is no memory, and nothing more is to be done. After an error only the records
    // before it are parsed.
    bool Parse(size_t begin, size_t end);

   private:
    BatchRuns& runs_;
    const bool alone_;
    const Parsed parsed_;
    BatchRun run_;
    size_t behind_ = 0;  // The run's last row.
  };

  // When all walkers are gone.
  void Sort();

  bool no_memory() const { return no_memory_; }
  // Of the first record in error. kNone: all are parsed.
  const example_parser::ParseError& error() const { return error_; }
  // In order.
  const std::vector<BatchRun>& runs() const { return runs_; }

 private:
  BatchRun Begin(size_t first_row);
  bool Append(BatchRun* run, size_t begin, size_t end, bool alone, Parsed parsed);
  void Lend(const BatchRun& run, size_t end);
  void Report(const example_parser::ParseError& error);
  void Keep(BatchRun run);

  const example_parser::ExampleParser& parser_;
  const Record* const records_;
  const size_t num_records_;
  void* const* const fixed_;
  const ValueRooms& rooms_;
  SlicePool* const pool_;

  std::atomic<size_t> first_bad_{SIZE_MAX};  // A row behind it need not be parsed.
  std::atomic<bool> no_memory_{false};
  std::mutex mutex_;
  std::vector<BatchRun> runs_;
  example_parser::ParseError error_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_BATCH_RUNS_H_
