// Of gpu_table_impl.h: finding, gathering, statistics, memory.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_READ_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_READ_H_

#include <cmath>

#include "cc/core/hash_table/gpu/gpu_table_disk.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/memory_limit.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
Status GpuTableOn<Queue>::Init() {
  return NewState(FirstEpoch(), &state_);
}

template <class Queue>
Status GpuTableOn<Queue>::NextState(std::unique_ptr<State>* state) const {
  return NewState(state_->ReadCounts(queue_).counters.epoch + 1, state);
}

template <class Queue>
Status GpuTableOn<Queue>::NewState(uint64_t epoch, std::unique_ptr<State>* state) const {
  *state = std::make_unique<State>(options_, config_);
  if (!(*state)->Init(queue_, epoch))
    return Exhausted(static_cast<int64_t>(sizeof(DeviceCounters)), -1, "its counters");
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::Exhausted(int64_t bytes, int64_t left, const char* what) const {
  std::string message =
      "Table '" + options_.name + "': " + what + " take " + std::to_string(bytes) + " bytes of the card's memory";
  message += left >= 0 ? ", but only " + std::to_string(left) + " bytes are left" : ", and its allocator refused them";
  if (left < 0 && config_.host_allocator != nullptr) message += ", or the host had none for rows";
  if (left < 0 && !config_.disk_folder.empty()) message += ", or folder '" + config_.disk_folder + "' has no room";
  return Status(StatusCode::kResourceExhausted,
                message + "; limit the table by max_rows or an eviction policy, or leave it on the host");
}

template <class Queue>
Status GpuTableOn<Queue>::Grant(int64_t bytes, const char* what) const {
  int64_t left = 0;
  if (bytes == 0 || config_.memory == nullptr || config_.memory->Grant(bytes, &left)) return Status();
  return Exhausted(bytes, left, what);
}

template <class Queue>
Status GpuTableOn<Queue>::Stage(const KeyBatch& keys, const RowHandle* handles, const int64_t* counts,
                                Staged* staged) const {
  const int64_t n = keys.size;
  int64_t *key_array = nullptr, *count_array = nullptr;
  RowHandle* handle_array = nullptr;
  uint32_t* field_array = nullptr;
  const auto take = [&](Scratch* scratch) {
    key_array = scratch->Take<int64_t>(n);
    if (keys.fields != nullptr) field_array = scratch->Take<uint32_t>(n);
    handle_array = scratch->Take<RowHandle>(n);
    if (counts != nullptr) count_array = scratch->Take<int64_t>(n);
    staged->values = scratch->Take<float>(n * options_.dim);
    staged->found = scratch->Take<uint8_t>(n);
  };
  TFB_RETURN_IF_ERROR(TakeArrays(take, &staged->block));
  queue_.FromHost(keys.keys, n, key_array);
  if (keys.fields != nullptr) queue_.FromHost(keys.fields, n, field_array);
  if (handles != nullptr) queue_.FromHost(handles, n, handle_array);
  if (counts != nullptr) queue_.FromHost(counts, n, count_array);
  staged->keys = {key_array, field_array, n, keys.field};
  staged->handles = handle_array;
  staged->counts = count_array;
  return Done();
}

template <class Queue>
template <class Rows>
void GpuTableOn<Queue>::StartFind(const DeviceKeys& keys, const Rows& rows, float* out, uint8_t* found) const {
  ForEach<kGroupLanes>(queue_, CeilDiv(keys.size, kGroupLanes),
                       FindRows<Rows>{state_->view, keys, FloatCopy(options_.dim, out), out, found, rows});
}

// Of rows on a disk as many at a time as travel well: a find may ask for more than the card has room for.
template <class Queue>
Status GpuTableOn<Queue>::FindLocked(const DeviceKeys& keys, float* out, uint8_t* found) const {
  if (!state_->uses_disk()) {
    StartFind(keys, ProbedRows(), out, found);
    return Done();
  }
  const int64_t most = RowsOfPiece();
  for (int64_t first = 0; first < keys.size; first += most) {
    DeviceKeys part = keys;
    part.keys += first;
    if (part.fields != nullptr) part.fields += first;
    part.size = std::min(most, keys.size - first);
    DiskBatch batch;
    TFB_RETURN_IF_ERROR(FetchFound(part, {}, &batch));
    StartFind(part, KnownRows{batch.places}, out + first * options_.dim, found == nullptr ? nullptr : found + first);
  }
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::FindAsync(const DeviceKeys& keys, float* out, uint8_t* found) const {
  return Guarded([&] { return FindLocked(keys, out, found); });
}

template <class Queue>
Status GpuTableOn<Queue>::FindHandlesAsync(const DeviceKeys& keys, RowHandle* handles) const {
  RowsAhead ahead;
  const Status status = Guarded([&] {
    ForEach(queue_, keys.size, FindRowHandles{state_->view, keys, handles});
    return ListFound(keys, &ahead);
  });
  if (ahead.disk != nullptr) ahead.disk->ReadAhead(ahead.rows);
  return status;
}

template <class Queue>
Status GpuTableOn<Queue>::GatherAsync(const DeviceKeys& keys, const RowHandle* handles,
                                      const std::vector<GatherPart>& parts) const {
  return Guarded([&] {
    std::vector<GatherJobOfCodes> jobs;
    for (const GatherPart& part : parts) jobs.emplace_back(part.codes, part.out, part.size, options_.dim);
    return GatherLocked(keys, handles, jobs);
  });
}

template <class Queue>
Status GpuTableOn<Queue>::GatherLocked(const DeviceKeys& keys, const RowHandle* handles,
                                       const std::vector<GatherJobOfCodes>& jobs) const {
  if (!state_->uses_disk()) {
    ForEachUnit<kGroupLanes>(queue_, jobs, GatherRows<ProbedRows>{state_->view, keys, {{handles}}});
    return Done();
  }
  DiskBatch batch;
  TFB_RETURN_IF_ERROR(FetchFound(keys, {handles}, &batch));
  ForEachUnit<kGroupLanes>(queue_, jobs, GatherRows<KnownRows>{state_->view, keys, {batch.places}});
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  return Guarded([&] {
    Staged staged;
    TFB_RETURN_IF_ERROR(Stage(keys, nullptr, nullptr, &staged));
    TFB_RETURN_IF_ERROR(FindLocked(staged.keys, staged.values, staged.found));
    queue_.ToHost(staged.values, keys.size * options_.dim, out);
    if (found != nullptr) queue_.ToHost(staged.found, keys.size, found);
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  return Guarded([&] {
    Staged staged;
    TFB_RETURN_IF_ERROR(Stage(keys, nullptr, nullptr, &staged));
    ForEach(queue_, keys.size, FindRowHandles{state_->view, staged.keys, staged.handles});
    queue_.ToHost(staged.handles, keys.size, handles);
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                                 ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  return Guarded([&] {
    Staged staged;
    TFB_RETURN_IF_ERROR(Stage(keys, handles, nullptr, &staged));
    std::vector<GatherJobOfCodes> jobs;
    const auto take = [&](Scratch* scratch) {
      jobs.clear();
      for (const GatherPart& part : parts) {
        int64_t* codes = scratch->Take<int64_t>(part.size);
        float* out = scratch->Take<float>(part.size * options_.dim);
        jobs.emplace_back(codes, out, part.size, options_.dim);
      }
    };
    DeviceBlock block;
    TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
    for (size_t p = 0; p < parts.size(); ++p) {
      queue_.FromHost(parts[p].codes, parts[p].size, const_cast<int64_t*>(jobs[p].codes));
    }
    queue_.Zero(&state_->view.counters->bad_code, sizeof(uint64_t));
    TFB_RETURN_IF_ERROR(GatherLocked(staged.keys, staged.handles, jobs));
    const uint64_t bad = state_->ReadCounts(queue_).counters.bad_code;
    TFB_RETURN_IF_ERROR(Done());
    if (bad != 0) {
      return Status(StatusCode::kInvalidArgument, "Table '" + options_.name + "': Gather: code " + std::to_string(bad) +
                                                      " names no key of the batch, which has " +
                                                      std::to_string(keys.size) +
                                                      "; codes must come from the probe that made the keys");
    }
    for (size_t p = 0; p < parts.size(); ++p) {
      queue_.ToHost(jobs[p].out, parts[p].size * options_.dim, parts[p].out);
    }
    return Done();
  });
}

template <class Queue>
TableStats GpuTableOn<Queue>::Stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const GpuTableCounts counts = state_->ReadCounts(queue_);
  TableStats stats;
  stats.rows = counts.all_rows();
  stats.pending = counts.all_pending();
  stats.index_capacity = state_->view.index.capacity();
  stats.bytes = state_->bytes();
  stats.host_bytes = state_->host_bytes();
  stats.disk_bytes = state_->disk_bytes();
  for (const uint32_t id : state_->active) {
    stats.evicted += counts.evicted[id];
    stats.step = std::max(stats.step, state_->fields[id].step);
  }
  return stats;
}

template <class Queue>
Status GpuTableOn<Queue>::FieldStats(uint32_t field, TableStats* stats) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "FieldStats"));
  return Guarded([&] {
    const GpuTableCounts counts = state_->ReadCounts(queue_);
    const uint32_t id = state_->active[field];
    stats->rows = counts.rows[id];
    stats->pending = counts.pending[id];
    stats->evicted = counts.evicted[id];
    stats->step = state_->fields[id].step;
    const double keys = static_cast<double>(counts.all_rows() + counts.all_pending());
    const double share =
        keys == 0 ? 1.0 / state_->num_fields : static_cast<double>(stats->rows + stats->pending) / keys;
    stats->index_capacity = std::llround(share * static_cast<double>(state_->view.index.capacity()));
    stats->bytes = std::llround(share * static_cast<double>(state_->bytes()));
    stats->host_bytes = std::llround(share * static_cast<double>(state_->host_bytes()));
    stats->disk_bytes = std::llround(share * static_cast<double>(state_->disk_bytes()));
    return Done();
  });
}

template <class Queue>
int64_t GpuTableOn<Queue>::FieldSize(uint32_t field) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (field >= state_->num_fields) return 0;
  return state_->ReadCounts(queue_).rows[state_->active[field]];
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_READ_H_
