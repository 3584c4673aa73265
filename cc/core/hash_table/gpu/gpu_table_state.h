// All that a table on the card holds, and what the host knows of it without asking.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/gpu/write_values.h"
#include "cc/core/hash_table/gpu/device_state.h"
#include "cc/core/hash_table/row_layout.h"

namespace tf_booster {
namespace gpu {

// Memory of the card.
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

// Entries that are not empty, at most; and how full a new index is, at most. As on the host: at 4/5 a hit reads 1.1
// buckets on average. An entry is 16 bytes, rows are hundreds.
inline int64_t MaxUsed(int64_t capacity) { return capacity / 5 * 4; }
inline int64_t BucketsFor(int64_t live) {
  int64_t buckets = 16;
  while (buckets * kBucket / 10 * 7 < live) buckets *= 2;
  return buckets;
}

// Slab sizes: doubling until one is some 64 MiB.
inline int CapBits(int64_t stride_bytes) {
  int bits = 5;
  while (bits < 30 && stride_bytes << (bits + 1) <= int64_t{64} << 20) ++bits;
  return bits;
}

template <class Queue>
class GpuTableState {
 public:
  GpuTableState(const TableOptions& options, Allocator* allocator)
      : num_fields(static_cast<uint32_t>(options.fields.size())),
        num_ids(num_fields == 1 ? 1 : 2 * num_fields),
        layout(options.dim, static_cast<int64_t>(options.slot_initial_values.size())),
        options_(options),
        allocator_(allocator) {
    fields.resize(num_ids);
    for (uint32_t id = 0; id < num_ids; ++id) {
      fields[id].options = &options.fields[FieldOf(id)];
      fields[id].Start(fields[id].options->seed, 0);
      fields[id].over = false;
    }
    for (uint32_t f = 0; f < num_fields; ++f) active.push_back(f);
    for (const FieldOptions& field : options.fields) {
      if (field.max_rows > 0) row_limit = std::min(row_limit, field.max_rows);
    }
  }

  uint32_t FieldOf(uint32_t id) const { return id < num_fields ? id : id - num_fields; }
  uint32_t OtherId(uint32_t id) const { return id < num_fields ? id + num_fields : id - num_fields; }

  // The small arrays; false where there is no memory. epoch: the first one of its handles.
  bool Init(Queue& queue, uint64_t epoch) {
    Scratch measure(nullptr);
    TakeControl(&measure);
    control_ = DeviceBlock(allocator_, measure.used());
    if (!control_.ok()) return false;
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
    view.rows.cap_bits = CapBits(layout.stride_bytes);
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

  // Waits for the card.
  DeviceCounters ReadCounters(Queue& queue) const {
    DeviceCounters counters = {};
    queue.ToHost(view.counters, 1, &counters);
    return counters;
  }
  std::vector<int64_t> ReadById(Queue& queue, const uint64_t* array) const {
    std::vector<uint64_t> values(num_ids);
    queue.ToHost(array, num_ids, values.data());
    return std::vector<int64_t>(values.begin(), values.end());
  }

  // An index of `buckets` (a power of two) buckets, empty.
  static DeviceIndex EmptyIndex(Queue& queue, const DeviceBlock& block, int64_t buckets) {
    queue.Zero(block.get(), block.bytes());
    return {static_cast<DeviceEntry*>(block.get()), static_cast<uint64_t>(buckets - 1)};
  }

  // Rows for which there are slabs, and what slabs up to `end` take more.
  int64_t row_end() const { return slab_end_; }
  int64_t SlabBytes(int64_t end) const {
    int64_t bytes = 0;
    int slab = static_cast<int>(slabs_.size());
    for (int64_t at = slab_end_; at < end; ++slab) {
      bytes += RowsOfSlab(slab) * bytes_per_row();
      at += RowsOfSlab(slab);
    }
    return bytes;
  }
  // Makes the slabs; what it made before memory ended stays.
  bool AddSlabs(Queue& queue, int64_t end) {
    while (slab_end_ < end) {
      const int slab = static_cast<int>(slabs_.size());
      const int64_t rows = RowsOfSlab(slab);
      if (slab == table_capacity_ && !GrowSlabTable(queue)) return false;
      DeviceBlock block(allocator_, rows * bytes_per_row());
      if (!block.ok()) return false;
      const uintptr_t memory = reinterpret_cast<uintptr_t>(block.get()), first = static_cast<uintptr_t>(slab_end_);
      const uintptr_t stride = static_cast<uintptr_t>(layout.stride_bytes), n = static_cast<uintptr_t>(rows);
      const uintptr_t metas = memory + n * stride, free_rows = metas + n * sizeof(DeviceMeta);
      refs_.push_back(
          {memory - first * stride, metas - first * sizeof(DeviceMeta), free_rows - first * sizeof(uint32_t)});
      Write(queue, &refs_.back(), 1, static_cast<SlabRef*>(table_.get()) + slab);
      slabs_.push_back(std::move(block));
      slab_end_ += rows;
    }
    return true;
  }

  int64_t bytes() const {
    int64_t sum = index.bytes() + table_.bytes();
    for (const DeviceBlock& slab : slabs_) sum += slab.bytes();
    return sum;
  }

  const uint32_t num_fields;
  const uint32_t num_ids;
  const RowLayout layout;
  std::vector<GpuFieldState> fields;  // By id.
  std::vector<uint32_t> active;       // Id of each field.
  DeviceState view;
  DeviceBlock index;
  bool may_have_pending = false;
  // Upper bounds of the counters of the same names, and of rows that are taken now.
  int64_t used_bound = 0;
  int64_t end_bound = kFirstRow;
  int64_t live_bound = 0;
  int64_t row_limit = INT64_MAX;  // No field has a lower limit of rows that is an error.

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
    view.fields = scratch->Take<DeviceField>(num_ids);
    view.slot_initial_values = scratch->Take<float>(layout.slots);
    view.active = scratch->Take<uint32_t>(num_fields);
    view.steps = scratch->Take<int64_t>(num_ids);
    view.field_rows = scratch->Take<uint64_t>(num_ids);
    view.field_pending = scratch->Take<uint64_t>(num_ids);
    view.batch_rows = scratch->Take<uint64_t>(num_ids);
    view.field_evicted = scratch->Take<uint64_t>(num_ids);
    view.lowest_scores = scratch->Take<uint64_t>(num_ids);
  }

  // Values first, so that they start where the allocator aligned them.
  int64_t bytes_per_row() const {
    return layout.stride_bytes + static_cast<int64_t>(sizeof(DeviceMeta) + sizeof(uint32_t));
  }
  int64_t RowsOfSlab(int slab) const { return int64_t{1} << std::min(slab + 4, view.rows.cap_bits); }

  bool GrowSlabTable(Queue& queue) {
    const int64_t capacity = std::max<int64_t>(32, 2 * table_capacity_);
    DeviceBlock table(allocator_, capacity * static_cast<int64_t>(sizeof(SlabRef)));
    if (!table.ok()) return false;
    Write(queue, refs_.data(), static_cast<int64_t>(refs_.size()), static_cast<SlabRef*>(table.get()));
    view.rows.slabs = static_cast<SlabRef*>(table.get());
    table_ = std::move(table);
    table_capacity_ = static_cast<int>(capacity);
    return true;
  }

  static constexpr int64_t kStepsAhead = 8;

  const TableOptions& options_;
  Allocator* const allocator_;
  typename Queue::template Echo<DeviceCounters> echo_;
  int64_t keys_since_ = 0;  // Since the echo was sent.
  bool heard_ = false;      // And came in.
  DeviceBlock control_;
  DeviceBlock table_;  // SlabRef of each slab.
  int table_capacity_ = 0;
  std::vector<DeviceBlock> slabs_;
  std::vector<SlabRef> refs_;
  int64_t slab_end_ = kFirstRow;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_STATE_H_
