// The class behind NewGpuTable and NewHostStandInTable: a table whose kernels a queue runs.
//
// One mutex is held for each call. Calls return when their kernels are in the stream, so it is held for microseconds
// where nothing waits; the stream keeps the kernels of all calls apart.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_IMPL_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_IMPL_H_

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/hash_table/argument_checks.h"
#include "cc/core/hash_table/gpu/disk_bodies.h"
#include "cc/core/hash_table/gpu/eviction_bodies.h"
#include "cc/core/hash_table/gpu/find_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/hash_table/gpu/gpu_table_state.h"
#include "cc/core/hash_table/gpu/insert_bodies.h"
#include "cc/core/hash_table/gpu/swap_bodies.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
class GpuTableOn final : public GpuTable {
 public:
  using State = GpuTableState<Queue>;

  GpuTableOn(TableOptions options, const GpuTableConfig& config, Queue queue)
      : options_(std::move(options)),
        config_(config),
        edits_(options_.fields.size()),
        left_keys_(options_.fields.size()),
        queue_(std::move(queue)) {}
  Status Init();

  const TableOptions& options() const override { return options_; }

  Status FindAsync(const DeviceKeys& keys, float* out, uint8_t* found) const override;
  Status FindHandlesAsync(const DeviceKeys& keys, RowHandle* handles) const override;
  Status GatherAsync(const DeviceKeys& keys, const RowHandle* handles,
                     const std::vector<GatherPart>& parts) const override;
  Status UpdateAsync(const DeviceUpdate& batch, DeviceRowsFn update) override;

  Status Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor& pf) const override;
  Status FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor& pf) const override;
  Status Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                ParallelFor& pf) const override;
  Status FindOrInsert(const KeyBatch& keys, float* out, ParallelFor& pf) override;
  Status InsertOrAssign(const KeyBatch& keys, const float* values, ParallelFor& pf) override;
  Status Erase(const KeyBatch& keys, int64_t* erased, ParallelFor& pf) override;
  Status Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor& pf) override;
  Status Reserve(int64_t rows, ParallelFor& pf) override;
  Status Export(const std::vector<uint32_t>& fields, FunctionRef<Status(std::vector<ContentsOut>*)> allocate,
                ParallelFor& pf) const override;
  Status ExportPieces(const std::vector<uint32_t>& fields, bool with_slots,
                      FunctionRef<Status(const std::vector<ContentsOut>&)> begin,
                      FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const override;
  Status ListLeaving(uint32_t field) override;
  Status ReadMark(uint32_t field, FieldMark* mark) const override;
  Status ExportChanges(std::vector<FieldChanges> changes, FunctionRef<Status(const std::vector<FieldChanges>&)> begin,
                       FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const override;
  Status ImportPieces(const std::vector<ContentsSource>& sources, ParallelFor& pf) override;
  Status Clear(uint32_t field) override;
  TableStats Stats() const override;
  Status FieldStats(uint32_t field, TableStats* stats) const override;
  int64_t FieldSize(uint32_t field) const override;

 private:
  // A batch of the host in the card's memory, for as long as this lives.
  struct Staged {
    DeviceBlock block;
    DeviceKeys keys;
    RowHandle* handles = nullptr;
    int64_t* counts = nullptr;
    float* values = nullptr;  // n * dim, undefined.
    uint8_t* found = nullptr;
  };
  Status Stage(const KeyBatch& keys, const RowHandle* handles, const int64_t* counts, Staged* staged) const;

  template <class Rows>
  void StartFind(const DeviceKeys& keys, const Rows& rows, float* out, uint8_t* found) const;
  Status FindLocked(const DeviceKeys& keys, float* out, uint8_t* found) const;
  Status GatherLocked(const DeviceKeys& keys, const RowHandle* handles,
                      const std::vector<GatherJobOfCodes>& jobs) const;

  // Rows on a disk that a batch works with.
  struct DiskBatch {
    DeviceBlock block;
    uint32_t* places = nullptr;       // [n] in the card's memory: the row that has a key's values now; 0: none has.
    std::vector<uint32_t> rows;       // Those on the disk, flagged by kNewRow or not,
    std::optional<RowsOnDisk> found;  // Which of them a key has,
    DeviceBlock copies;               // and their values, side by side.
  };
  // Finds out which of n keys' rows, which fill(rows) starts to write, are on the disk.
  template <class FillRows>
  Status ListRows(const State& state, int64_t n, bool may_repeat, const FillRows& fill, DiskBatch* batch) const;
  // Rows that somebody will soon ask for, to be read when nobody holds the table.
  struct RowsAhead {
    std::shared_ptr<const RowFile> disk;  // Null: none are on the disk.
    std::vector<uint32_t> rows;
  };
  Status ListFound(const DeviceKeys& keys, RowsAhead* ahead) const;
  // Of n keys whose rows fill(rows) starts to write. may_repeat: keys that share a row share its copy. On error nothing
  // has changed.
  template <class FillRows>
  Status FetchRows(State* state, int64_t n, bool may_repeat, const FillRows& fill, DiskBatch* batch) const;
  // Of the table's keys.
  Status FetchFound(const DeviceKeys& keys, const DeviceHandles& handles, DiskBatch* batch) const;
  // When the batch is done with them. new_only: no others have changed.
  Status StoreRows(State* state, const DiskBatch& batch, bool new_only) const;
  template <class Visit>
  Status StageRows(const State& state, const std::vector<uint32_t>& rows, const Visit& visit) const;
  Status ReadRows(const State& state, const std::vector<uint32_t>& rows, char* copies) const;
  Status WriteRows(State* state, const std::vector<uint32_t>& rows, const char* copies, bool new_only) const;
  Status SwapPairsWithDisk(const SwapBody& body);
  Status DiskFailed() const;

  // An insert that is under way: between Prepare and Publish or Unclaim.
  struct Insertion {
    DeviceBlock block;
    InsertArrays arrays;
    DiskBatch disk;
    DeviceBlock old_index;  // The one that was outgrown, until it is clear that the batch stays.
    DeviceIndex old_view;
    bool grown = false;
    int64_t old_used_bound = 0;
  };
  void TakeInsertArrays(const State& state, int64_t n, Scratch* scratch, InsertArrays* arrays) const;
  // Inserts the keys that have no row. wait: errors of the batch itself (limits, duplicates) are looked for. On error
  // the table is as it was. Else the rows' values are at insertion->arrays.places, and StoreRows has to follow.
  Status Insert(State* state, const DeviceKeys& keys, const DeviceHandles& handles, const InsertRule& rule,
                const DeviceRowSource& source, bool wait, Insertion* insertion);
  void TakeBack(State* state, const InsertBody& body, Insertion* insertion);
  // Why the batch cannot stay, if so; the host knows the counters then.
  Status JudgeBatch(State* state, const DeviceKeys& keys);
  Status GrowIndex(State* state, int64_t more, Insertion* insertion);
  // To so many entries that are live and `more`, in an index of its own.
  Status Rebuild(State* state, int64_t live, int64_t more, Insertion* insertion);
  void Refill(State* state, DeviceIndex old_view, DeviceBlock block, int64_t buckets, int64_t live);

  // Upper halves of counts, from where frequencies that grow by so much at most, or steps up to `step`, may need them.
  Status EnsureCounts(State* state, int64_t sightings, int64_t step);
  static int64_t LatestStep(const State& state);
  // Memory for a new index.
  Status TakeIndex(int64_t buckets, DeviceBlock* block) const;

  bool GrowByBounds(State* state, int64_t n);
  void MakeRoomAhead(State* state, int64_t n);
  // Memory for so many more rows and keys.
  Status MakeRoom(State* state, int64_t more_rows, int64_t more_keys);

  // most_sightings: at least the batch's highest count.
  Status UpdateLocked(const DeviceUpdate& batch, int64_t most_sightings, bool wait, DeviceRowsFn update);
  // Whether a step may evict rows of a field, as far as the host knows.
  bool MayEvict(uint32_t id, int64_t step, int64_t most_rows) const;
  // Taken before the step, which cannot fail afterwards.
  Status TakeEvictionArrays(int64_t rows, EvictionArrays* arrays, DeviceBlock* block) const;
  void EvictField(uint32_t id, const EvictionArrays& arrays);
  void BoundLiveRows(const std::vector<uint32_t>& stepped);
  // Every so many steps, where rows are in host memory or on a disk: brings those that are used nearer.
  Status BringUsedRows();
  // period: of steps.
  Status SwapRanges(const RowRange& near, const RowRange& far, int64_t period);
  static constexpr int64_t kMostPairs = int64_t{1} << 20;
  Status FreeByRank(const DeviceKeys& keys, int64_t* erased);
  // Chooses among places that share a row, in a set of MarkRows::SetSize words.
  MarkRows MarkIn(void* set, MarkRows marks) const;

  Status Enter(const std::vector<ContentsSource>& sources, const std::vector<uint32_t>& ids, State* state);
  Status EnterPiece(const ContentsIn& in, uint32_t id, int64_t begin, int64_t end, bool pending, State* state);
  // What is under ids that are not active leaves. Its arrays are taken before something is entered there.
  struct PurgeArrays {
    DeviceBlock block;
    uint8_t* is_old = nullptr;
    int32_t *flags = nullptr, *ranks = nullptr;
    char* sum_scratch = nullptr;
  };
  static constexpr int64_t kRowsOfPurge = int64_t{1} << 18;
  Status TakePurgeArrays(PurgeArrays* arrays) const;
  Status Purge(const PurgeArrays& arrays);
  Status Exchange(const std::vector<uint32_t>& fields, const PurgeArrays& arrays);
  // Empty; what stands for another has a later epoch than that.
  Status NewState(uint64_t epoch, std::unique_ptr<State>* state) const;
  Status NextState(std::unique_ptr<State>* state) const;

  // What is wanted of rows besides keys and counts: the values of columns [first, first + size), slots behind the
  // embedding.
  struct Columns {
    int64_t first = 0, size = 0;
  };
  // Whose rows, and used after which step.
  struct WantedRows {
    uint32_t id = 0;
    int64_t since = -1;
  };
  // Rows of the table on the host.
  struct Piece {
    std::vector<int64_t> keys, frequencies, last_steps;
    std::vector<float> values;  // [rows, columns]
  };
  // What is wanted among rows [first, first + n), all of which are on the disk, or none.
  Status ReadPiece(int64_t first, int64_t n, WantedRows wanted, Columns columns, Piece* piece) const;
  static constexpr int64_t kLeastRowsOfPiece = 1024;
  // Calls visit(piece) with pieces of all rows that are wanted, in the order of row numbers, which is that of insertion
  // while no row is freed.
  template <class Visit>
  Status ForEachPiece(WantedRows wanted, Columns columns, Visit visit) const;
  // Keys that eviction has removed from a field, once they are wanted.
  struct LeftKeys {
    DeviceBlock memory;
    LeftKeysRing ring;
  };
  // Those from the eviction `from` on.
  std::vector<int64_t> ReadLeftKeys(const LeftKeysRing& ring, int64_t from, int64_t evicted) const;
  FieldMark MarkOf(uint32_t field, const GpuTableCounts& counts) const;
  // What each field holds, without arrays.
  std::vector<ContentsOut> StartExport(const std::vector<uint32_t>& fields) const;
  Status ExportField(const ContentsOut& out) const;
  Status ReadPending(uint32_t id, int64_t n, std::vector<int64_t>* keys, std::vector<int64_t>* counts) const;
  int64_t RowsOfPiece() const;

  // Asks for memory, and says why there is none. left < 0: nobody knows how much there is.
  Status Grant(int64_t bytes, const char* what) const;
  Status Exhausted(int64_t bytes, int64_t left, const char* what) const;
  // A block for a batch's own arrays.
  Status Take(int64_t bytes, DeviceBlock* block) const {
    *block = DeviceBlock(config_.allocator, bytes);
    return block->ok() ? Status() : Exhausted(bytes, -1, "a batch's own arrays");
  }
  // Arrays in one block: take(scratch) is called twice, to measure them and to place them.
  template <class TakeThem>
  Status TakeArrays(const TakeThem& take, DeviceBlock* block) const {
    Scratch measure(nullptr);
    take(&measure);
    TFB_RETURN_IF_ERROR(Take(measure.used(), block));
    Scratch memory(block->get());
    take(&memory);
    return Status();
  }
  // The queue's error, or the disk's, if there is one.
  Status Done() const {
    const char* error = queue_.error();
    if (error != nullptr) {
      return Status(StatusCode::kInternal, "Table '" + options_.name + "': the card said: " + error);
    }
    if (!disk_failed_) return Status();
    return Status(StatusCode::kInternal, "Table '" + options_.name + "': the disk of folder '" + config_.disk_folder +
                                             "' failed to read or write rows, so the table is lost; restore it from a "
                                             "checkpoint, with rows on another disk");
  }
  // Runs a method's body as the only one.
  template <class Body>
  Status Guarded(Body body) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return Caught(body);
  }
  // Runs a body; host memory that ran out in it becomes a Status.
  template <class Body>
  Status Caught(Body body) const {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return Status(
          StatusCode::kResourceExhausted,
          "Table '" + options_.name + "': no host memory for the batch's own bookkeeping; use smaller batches");
    }
  }

  const TableOptions options_;
  const GpuTableConfig config_;
  // By field, under mutex_.
  EditCounts edits_;
  std::vector<LeftKeys> left_keys_;
  mutable std::mutex mutex_;
  mutable Queue queue_;
  mutable bool disk_failed_ = false;
  std::unique_ptr<State> state_;
};

template <class Queue>
Status NewTableOn(TableOptions options, std::unique_ptr<GpuTable>* table, const GpuTableConfig& config, Queue queue) {
  TFB_RETURN_IF_ERROR(CheckOptions(options));
  TFB_RETURN_IF_ERROR(CheckDiskFolder(options, config.disk_folder));
  auto made = std::make_unique<GpuTableOn<Queue>>(std::move(options), config, std::move(queue));
  TFB_RETURN_IF_ERROR(made->Init());
  *table = std::move(made);
  return Status();
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_IMPL_H_
