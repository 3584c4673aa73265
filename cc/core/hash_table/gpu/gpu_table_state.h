// All that a table on the card holds, and what the host knows of it without asking.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/gpu/write_values.h"
#include "cc/core/hash_table/gpu/device_state.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/hash_table/gpu/row_file.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/row_layout.h"

namespace tf_booster {
namespace gpu {

// Memory of the card, or of the host.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(Allocator* allocator, int64_t bytes)
      : allocator_(allocator), bytes_(bytes), memory_(bytes > 0 ? allocator->Allocate(bytes) : nullptr) {}
  DeviceBlock(DeviceBlock&& other) noexcept { *this = std::move(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~DeviceBlock() {
    if (memory_ != nullptr) allocator_->Free(memory_, bytes_);
  }

  bool ok() const { return memory_ != nullptr || bytes_ == 0; }
  void* get() const { return memory_; }
  int64_t bytes() const { return bytes_; }

 private:
  Allocator* allocator_ = nullptr;
  int64_t bytes_ = 0;
  void* memory_ = nullptr;
};

struct GpuFieldState {
  const FieldOptions* options = nullptr;
  uint64_t seed = 0;
  int64_t step = 0;
  bool over = false;  // May have more rows than its eviction leaves after a step.

  void Start(uint64_t new_seed, int64_t new_step) {
    seed = new_seed;
    step = new_step;
    over = true;
  }
  DeviceField OnDevice() const {
    return {MakeRowInitializer(options->initializer, options->name, seed), options->min_frequency};
  }
};

// Entries that are not empty, at most; and the buckets of a new index, which is filled to 5/7, so that it lasts until
// there are an eighth more keys. At 4/5 a hit reads 1.1 buckets on average, as on the host. A growth reads and writes
// the index once from its beginning to its end, so doubling would spare little and cost 8 bytes a row on average;
// growing from 2/3, by a fifth, costs 0.8.
inline int64_t MaxUsed(int64_t capacity) { return capacity / 5 * 4; }
inline int64_t BucketsFor(int64_t live) { return std::max<int64_t>(16, CeilDiv(live * 7, 5 * kBucket)); }

// Slab sizes: doubling until one is some 256 KiB. Half a slab is not used on average, and 100 GiB of rows have 10 MB of
// SlabRefs, which the card's second-level cache holds.
inline int CapBits(int64_t row_bytes) {
  int bits = 5;
  while (bits < 30 && row_bytes << (bits + 1) <= int64_t{256} << 10) ++bits;
  return bits;
}
// Of the slabs that are made at once one block is taken, up to this size.
inline constexpr int64_t kBlockOfSlabs = int64_t{64} << 20;

// What 32 bits hold of a frequency or step.
inline constexpr int64_t kMostNarrow = 0xFFFFFFFF;

// What the card counts; vectors are by id.
struct GpuTableCounts {
  DeviceCounters counters = {};
  std::vector<int64_t> rows, pending, evicted;
  std::vector<int64_t> batch_rows;  // New ones of the batch.

  int64_t all_rows() const { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
  int64_t all_pending() const { return std::accumulate(pending.begin(), pending.end(), int64_t{0}); }
};

template <class Queue>
class GpuTableState {
 public:
  GpuTableState(const TableOptions& options, const GpuTableConfig& config)
      : num_fields(static_cast<uint32_t>(options.fields.size())),
        num_ids(num_fields == 1 ? 1 : 2 * num_fields),
        layout(options.dim, static_cast<int64_t>(options.slot_initial_values.size())),
        disk(std::make_shared<RowFile>(layout)),
        options_(options),
        config_(config),
        allocator_(config.allocator),
        row_allocator_(config.row_allocator != nullptr ? config.row_allocator : config.allocator) {
    fields.resize(num_ids);
    for (uint32_t id = 0; id < num_ids; ++id) {
      fields[id].options = &options.fields[FieldOf(id)];
      fields[id].Start(fields[id].options->seed, 0);
      fields[id].over = false;
    }
    for (uint32_t f = 0; f < num_fields; ++f) active.push_back(f);
    for (const FieldOptions& field : options.fields) {
      if (field.max_rows > 0) row_limit = std::min(row_limit, field.max_rows);
      min_frequency_bound = std::max(min_frequency_bound, field.min_frequency);
    }
    frequency_bound = min_frequency_bound;
  }

  uint32_t FieldOf(uint32_t id) const { return id < num_fields ? id : id - num_fields; }
  uint32_t OtherId(uint32_t id) const { return id < num_fields ? id + num_fields : id - num_fields; }

  // The small arrays; false where there is no memory. epoch: the first one of its handles.
  bool Init(Queue& queue, uint64_t epoch) {
    Scratch measure(nullptr);
    TakeControl(&measure);
    control_ = DeviceBlock(allocator_, measure.used());
    if (!config_.disk_folder.empty()) {
      staging_ = DeviceBlock(config_.host_allocator, std::max(kStagingBytes, layout.stride_bytes));
    }
    if (!control_.ok() || !staging_.ok()) return false;
    Scratch memory(control_.get());
    TakeControl(&memory);
    queue.Zero(control_.get(), control_.bytes());
    const uint64_t end = kFirstRow;
    Write(queue, &end, 1, &view.counters->end);
    Write(queue, &epoch, 1, &view.counters->epoch);
    Write(queue, options_.slot_initial_values.data(), layout.slots, const_cast<float*>(view.slot_initial_values));
    view.num_fields = num_fields;
    view.rows.dim = layout.dim;
    view.rows.num_slots = layout.slots;
    view.rows.stride_bytes = layout.stride_bytes;
    view.rows.cap_bits = CapBits(bytes_per_row());
    WriteFields(queue);
    WriteActive(queue);
    WriteSteps(queue);
    return true;
  }

  void WriteFields(Queue& queue) {
    std::vector<DeviceField> values;
    for (const GpuFieldState& field : fields) values.push_back(field.OnDevice());
    Write(queue, values.data(), num_ids, const_cast<DeviceField*>(view.fields));
  }
  void WriteActive(Queue& queue) { Write(queue, active.data(), num_fields, const_cast<uint32_t*>(view.active)); }
  void WriteSteps(Queue& queue) {
    std::vector<int64_t> values;
    for (const GpuFieldState& field : fields) values.push_back(field.step);
    Write(queue, values.data(), num_ids, const_cast<int64_t*>(view.steps));
  }

  // What starts anew with a field that came in, or was cleared, under this id.
  void WriteEvicted(Queue& queue, uint32_t id, int64_t evicted_so_far) {
    const uint64_t evicted = static_cast<uint64_t>(evicted_so_far), lowest = 0;
    Write(queue, &evicted, 1, view.field_evicted + id);
    Write(queue, &lowest, 1, view.lowest_scores + id);
  }

  // Waits for the card, once. After an error all are 0.
  GpuTableCounts ReadCounts(Queue& queue) const {
    const char* const begin = static_cast<const char*>(control_.get());
    std::vector<char> copy(counts_bytes_);
    queue.ToHost(begin, counts_bytes_, copy.data());
    GpuTableCounts counts;
    std::memcpy(&counts.counters, copy.data(), sizeof(DeviceCounters));
    const auto by_id = [&](const uint64_t* array, std::vector<int64_t>* values) {
      values->resize(num_ids);
      std::memcpy(values->data(), copy.data() + (reinterpret_cast<const char*>(array) - begin),
                  num_ids * sizeof(int64_t));
    };
    by_id(view.field_rows, &counts.rows);
    by_id(view.field_pending, &counts.pending);
    by_id(view.batch_rows, &counts.batch_rows);
    by_id(view.field_evicted, &counts.evicted);
    return counts;
  }

  // An index of so many buckets, empty.
  static DeviceIndex EmptyIndex(Queue& queue, const DeviceBlock& block, int64_t buckets) {
    queue.Zero(block.get(), block.bytes());
    return {static_cast<DeviceEntry*>(block.get()), static_cast<uint64_t>(buckets)};
  }

  // Rows for which there are slabs, and what slabs up to `end` take more.
  int64_t row_end() const { return slab_end_; }
  int64_t SlabBytes(int64_t end) const { return (SlabEnd(end) - slab_end_) * bytes_per_row(); }
  // Makes the slabs; what it made before memory ended stays.
  bool AddSlabs(Queue& queue, int64_t end) {
    const int64_t rows_of_block = std::max<int64_t>(1, kBlockOfSlabs / bytes_per_row());
    while (slab_end_ < end) {
      const int64_t block_end = SlabEnd(std::min(end, slab_end_ + rows_of_block)), rows = block_end - slab_end_;
      Tier tier = Tier::kCard;
      DeviceBlock values;
      DeviceBlock words(allocator_, rows * word_bytes_per_row());
      if (!words.ok() || !TakeValues(block_end, &tier, &values)) return false;
      uintptr_t value_at = tier == Tier::kDisk ? kNoAddress : reinterpret_cast<uintptr_t>(values.get()),
                word_at = reinterpret_cast<uintptr_t>(words.get());
      for (int64_t first = slab_end_; first < block_end; first += RowsOfSlab(static_cast<int>(refs_.size()) - 1)) {
        const uintptr_t stride = static_cast<uintptr_t>(layout.stride_bytes);
        const uintptr_t n = static_cast<uintptr_t>(RowsOfSlab(static_cast<int>(refs_.size())));
        refs_.push_back({value_at - static_cast<uintptr_t>(first) * stride, word_at,
                         view.rows.wide ? word_at + n * kWordBytesOfRow : 0});
        value_at += n * stride;
        word_at += n * static_cast<uintptr_t>(word_bytes_per_row());
      }
      if (!WriteNewRefs(queue)) return false;
      if (tier == Tier::kHost) host_from_ = std::min(host_from_, slab_end_);
      if (tier == Tier::kDisk) disk_from_ = std::min(disk_from_, slab_end_);
      (tier == Tier::kHost ? host_blocks_ : blocks_).push_back(std::move(values));
      blocks_.push_back(std::move(words));
      slab_end_ = block_end;
    }
    return true;
  }
  // Rows from here on have their values in host memory, or on the disk; row_end() if none has.
  int64_t host_from() const { return std::min(host_from_, disk_from()); }
  // Rows from here on have their values on the disk.
  int64_t disk_from() const { return std::min(disk_from_, slab_end_); }
  bool uses_disk() const { return disk_from_ < slab_end_; }

  // Until slabs are added rows from row_end() on have their values in this array of n rows, and nothing else. False
  // where there is no memory.
  bool Overlay(Queue& queue, const void* values, int64_t n) {
    const size_t slabs = refs_.size();
    const uintptr_t stride = static_cast<uintptr_t>(layout.stride_bytes);
    const uintptr_t row_zero = reinterpret_cast<uintptr_t>(values) - static_cast<uintptr_t>(slab_end_) * stride;
    for (int64_t at = slab_end_; at < slab_end_ + n; at += RowsOfSlab(static_cast<int>(refs_.size()) - 1)) {
      refs_.push_back({row_zero, 0, 0});
    }
    const bool written = WriteNewRefs(queue);
    refs_.resize(slabs);
    written_refs_ = std::min(written_refs_, static_cast<int64_t>(slabs));
    return written;
  }

  // Memory that host and card see, for rows on their way to the disk and back.
  char* staging() const { return static_cast<char*>(staging_.get()); }
  int64_t rows_of_staging() const { return staging_.bytes() / layout.stride_bytes; }

  // Gives all counts their upper halves, of zeros; false where there is no memory, and nothing changed then.
  int64_t WideBytes() const { return (slab_end_ - kFirstRow) * static_cast<int64_t>(sizeof(RowMeta)); }
  bool Widen(Queue& queue) {
    DeviceBlock highs(allocator_, WideBytes());
    if (!highs.ok()) return false;
    queue.Zero(highs.get(), highs.bytes());
    uintptr_t at = reinterpret_cast<uintptr_t>(highs.get());
    for (size_t slab = 0; slab < refs_.size(); ++slab) {
      refs_[slab].highs = at;
      at += static_cast<uintptr_t>(RowsOfSlab(static_cast<int>(slab))) * sizeof(RowMeta);
    }
    if (!refs_.empty()) {
      Write(queue, refs_.data(), static_cast<int64_t>(refs_.size()), static_cast<SlabRef*>(table_.get()));
    }
    blocks_.push_back(std::move(highs));
    view.rows.wide = true;
    return true;
  }

  int64_t bytes() const { return index.bytes() + table_.bytes() + BytesOf(blocks_) + host_bytes() + disk_bytes(); }
  int64_t host_bytes() const { return BytesOf(host_blocks_); }
  int64_t disk_bytes() const { return (slab_end_ - disk_from()) * layout.stride_bytes; }

  const uint32_t num_fields;
  const uint32_t num_ids;
  const RowLayout layout;
  const std::shared_ptr<RowFile> disk;  // Rows from disk_from() on. Shared with who reads ahead.
  std::vector<GpuFieldState> fields;    // By id.
  std::vector<uint32_t> active;         // Id of each field.
  DeviceState view;
  DeviceBlock index;
  bool may_have_pending = false;
  // Upper bounds of the counters of the same names, and of rows that are taken now.
  int64_t used_bound = 0;
  int64_t end_bound = kFirstRow;
  int64_t live_bound = 0;
  int64_t min_frequency_bound = 1;  // Of rows when they come, unless they are imported.
  int64_t frequency_bound = 0;      // Of all rows.
  int64_t row_limit = INT64_MAX;    // No field has a lower limit of rows that is an error.
  int64_t steps_since_swap = 0;     // Of rows that are used with idle ones that are nearer.

  // The bound of `end` behind a batch of n keys: new rows take free ones first, so there are never more than lived at
  // once.
  int64_t EndAfter(int64_t n) const { return std::max(end_bound, std::min(end_bound + n, kFirstRow + live_bound + n)); }

  // Bounds by what the card told last, if that has come in; nobody waits for it.
  void Listen() {
    DeviceCounters then = {};
    if (!echo_.Take(&then)) return;
    heard_ = true;
    const int64_t live = static_cast<int64_t>(then.end - then.free) - kFirstRow + keys_since_;
    used_bound = std::min(used_bound, static_cast<int64_t>(then.used) + keys_since_);
    live_bound = std::min(live_bound, live);
    end_bound = std::min(end_bound, std::max(static_cast<int64_t>(then.end), kFirstRow + live));
  }
  // Whether the bounds are those of the card but for the keys of a few batches of n.
  bool HeardLately(int64_t n) const { return heard_ && keys_since_ <= kStepsAhead * n; }
  int64_t keys_since() const { return keys_since_; }  // Since the card's counters were sent.
  // n keys came that may all have been new.
  void CountKeys(int64_t n) {
    used_bound += n;
    keys_since_ += n;
  }
  // After a step on n keys: asks the card for its counters where a few more of them might reach a bound.
  void Ask(Queue& queue, int64_t n) {
    const int64_t soon = kStepsAhead * n;
    const bool near = used_bound + soon > MaxUsed(view.index.capacity()) || EndAfter(soon) > slab_end_ ||
                      live_bound > row_limit - soon;
    if (!near || !echo_.Send(queue, view.counters)) return;
    keys_since_ = 0;
    heard_ = false;
  }

 private:
  void TakeControl(Scratch* scratch) {
    view.counters = scratch->Take<DeviceCounters>(1);
    view.field_rows = scratch->Take<uint64_t>(num_ids);
    view.field_pending = scratch->Take<uint64_t>(num_ids);
    view.batch_rows = scratch->Take<uint64_t>(num_ids);
    view.field_evicted = scratch->Take<uint64_t>(num_ids);
    counts_bytes_ = scratch->used();
    view.fields = scratch->Take<DeviceField>(num_ids);
    view.slot_initial_values = scratch->Take<float>(layout.slots);
    view.active = scratch->Take<uint32_t>(num_fields);
    view.steps = scratch->Take<int64_t>(num_ids);
    view.lowest_scores = scratch->Take<uint64_t>(num_ids);
  }

  int64_t word_bytes_per_row() const {
    return kWordBytesOfRow + (view.rows.wide ? static_cast<int64_t>(sizeof(RowMeta)) : 0);
  }
  int64_t bytes_per_row() const { return layout.stride_bytes + word_bytes_per_row(); }
  static int64_t BytesOf(const std::vector<DeviceBlock>& blocks) {
    int64_t sum = 0;
    for (const DeviceBlock& block : blocks) sum += block.bytes();
    return sum;
  }
  // Where values of rows are. Those behind them are as far away, or farther: one number for each tells which.
  enum class Tier { kCard, kHost, kDisk };
  // For the next rows, up to `end`; on the disk without memory. False where there is no room.
  bool TakeValues(int64_t end, Tier* tier, DeviceBlock* values) {
    const int64_t bytes = (end - slab_end_) * layout.stride_bytes;
    *tier = Tier::kCard;
    if (host_from_ == kNowhere && disk_from_ == kNowhere) *values = DeviceBlock(row_allocator_, bytes);
    if (values->bytes() > 0 && values->ok()) return true;
    *tier = Tier::kHost;
    int64_t left = 0;
    const bool granted = config_.host_memory == nullptr || config_.host_memory->Grant(bytes, &left);
    if (config_.host_allocator != nullptr && disk_from_ == kNowhere && granted) {
      *values = DeviceBlock(config_.host_allocator, bytes);
      if (values->ok()) return true;
    }
    *tier = Tier::kDisk;
    *values = DeviceBlock();
    return !config_.disk_folder.empty() && disk->Extend(config_.disk_folder, slab_end_, end);
  }
  int64_t RowsOfSlab(int slab) const { return int64_t{1} << std::min(slab + 4, view.rows.cap_bits); }
  // Where the slabs end that hold the rows up to `end`, at least where those end that there are.
  int64_t SlabEnd(int64_t end) const {
    int64_t at = slab_end_;
    for (int slab = static_cast<int>(refs_.size()); at < end; ++slab) at += RowsOfSlab(slab);
    return at;
  }

  // Those that the card does not have; forgotten where there is no memory for them.
  bool WriteNewRefs(Queue& queue) {
    const int64_t size = static_cast<int64_t>(refs_.size());
    if (size > table_capacity_) {
      const int64_t capacity = std::max<int64_t>(32, size + size / 2);
      DeviceBlock table(allocator_, capacity * static_cast<int64_t>(sizeof(SlabRef)));
      if (!table.ok()) {
        refs_.resize(written_refs_);
        return false;
      }
      view.rows.slabs = static_cast<SlabRef*>(table.get());
      table_ = std::move(table);
      table_capacity_ = capacity;
      written_refs_ = 0;
    }
    Write(queue, refs_.data() + written_refs_, size - written_refs_,
          static_cast<SlabRef*>(table_.get()) + written_refs_);
    written_refs_ = size;
    return true;
  }

  static constexpr int64_t kStepsAhead = 8;
  static constexpr int64_t kNowhere = INT64_MAX;
  static constexpr int64_t kStagingBytes = int64_t{1} << 20;
  // Of values on the disk, which have none: whoever reads there does not go on, with wrong numbers.
  static constexpr uintptr_t kNoAddress = uintptr_t{0xDEAD} << 48;

  const TableOptions& options_;
  const GpuTableConfig config_;
  Allocator* const allocator_;
  Allocator* const row_allocator_;
  typename Queue::template Echo<DeviceCounters> echo_;
  int64_t keys_since_ = 0;    // Since the echo was sent.
  bool heard_ = false;        // And came in.
  DeviceBlock control_;       // The counters first, with what is counted by id,
  int64_t counts_bytes_ = 0;  // so that one copy has them all.
  DeviceBlock table_;         // SlabRef of each slab.
  int64_t table_capacity_ = 0;
  int64_t written_refs_ = 0;
  std::vector<DeviceBlock> blocks_;       // That slabs are in,
  std::vector<DeviceBlock> host_blocks_;  // and those in host memory.
  int64_t host_from_ = kNowhere, disk_from_ = kNowhere;
  DeviceBlock staging_;
  std::vector<SlabRef> refs_;  // Of each slab.
  int64_t slab_end_ = kFirstRow;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_
