// Of gpu_table_impl.h: one training step, and who leaves after it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_

#include <algorithm>

#include "cc/core/hash_table/gpu/eviction_bodies.h"
#include "cc/core/hash_table/gpu/export_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
Status GpuTableOn<Queue>::UpdateLocked(const DeviceUpdate& batch, bool wait, DeviceRowsFn update) {
  State& state = *state_;
  InsertRule rule;
  rule.filter = true;
  rule.counts = batch.counts;
  rule.distinct = wait;
  bool filters = false;
  for (const FieldOptions& field : options_.fields) filters |= field.min_frequency > 1;
  std::vector<uint32_t> stepping = batch.fields;
  for (uint32_t f = 0; batch.fields.empty() && f < state.num_fields; ++f) stepping.push_back(f);
  const int64_t most_rows = state.end_bound - kFirstRow + batch.keys.size;
  bool may_evict = false;
  for (uint32_t& field : stepping) {
    field = state.active[field];
    may_evict |= MayEvict(field, state.fields[field].step + 1, most_rows);
  }
  EvictionArrays eviction;
  if (may_evict) TFB_RETURN_IF_ERROR(TakeEvictionArrays(most_rows, &eviction));
  const bool had_pending = state.may_have_pending;
  state.may_have_pending |= filters;
  Insertion insertion;
  const Status status = Insert(&state, batch.keys, {batch.handles, epoch_}, rule, DeviceRowSource(), wait, &insertion);
  if (!status.ok()) {
    state.may_have_pending = had_pending;
    return status;
  }
  for (const uint32_t id : stepping) ++state.fields[id].step;
  state.WriteSteps(queue_);
  ForEach(queue_, batch.keys.size, CountSightings{state.view, insertion.arrays.rows, batch.counts});
  TFB_RETURN_IF_ERROR(update(state.view, insertion.arrays.rows));
  return may_evict ? Evict(stepping, eviction) : Done();
}

template <class Queue>
Status GpuTableOn<Queue>::UpdateAsync(const DeviceUpdate& batch, DeviceRowsFn update) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, batch.fields, "Update"));
  return Guarded([&] { return UpdateLocked(batch, false, update); });
}

// The update of the host sees copies of the rows, which go back when it is done.
template <class Queue>
Status GpuTableOn<Queue>::Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor&) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, batch.keys));
  TFB_RETURN_IF_ERROR(CheckCounts(options_, batch));
  TFB_RETURN_IF_ERROR(CheckStepping(options_, batch));
  return Guarded([&] {
    const int64_t n = batch.keys.size, width = state_->layout.values();
    Staged staged;
    DeviceBlock rows_block, values_block;
    TFB_RETURN_IF_ERROR(Stage(batch.keys, batch.handles, batch.counts, &staged));
    TFB_RETURN_IF_ERROR(Take(n * static_cast<int64_t>(sizeof(uint32_t)), &rows_block));
    TFB_RETURN_IF_ERROR(Take(n * width * static_cast<int64_t>(sizeof(float)), &values_block));
    const DeviceUpdate on_card = {staged.keys, staged.counts, batch.handles == nullptr ? nullptr : staged.handles,
                                  batch.fields};
    return UpdateLocked(on_card, true, [&](const DeviceState& view, const uint32_t* device_rows) {
      std::vector<uint32_t> rows(n), admitted;
      std::vector<int64_t> positions;
      queue_.ToHost(device_rows, n, rows.data());
      for (int64_t i = 0; i < n; ++i) {
        if (rows[i] == 0) continue;
        admitted.push_back(rows[i]);
        positions.push_back(i);
      }
      const int64_t m = static_cast<int64_t>(admitted.size());
      auto* const copied = static_cast<uint32_t*>(rows_block.get());
      auto* const values = static_cast<float*>(values_block.get());
      std::vector<float> host_values(m * width);
      queue_.FromHost(admitted.data(), m, copied);
      ForEach<kGroupLanes>(queue_, m, CopyWholeRows{view, copied, values, false});
      queue_.ToHost(values, m * width, host_values.data());
      std::vector<float*> pointers;
      for (int64_t i = 0; i < m; ++i) pointers.push_back(host_values.data() + i * width);
      if (m > 0) update({positions.data(), pointers.data(), m, {}});
      queue_.FromHost(host_values.data(), m * width, values);
      ForEach<kGroupLanes>(queue_, m, CopyWholeRows{view, copied, values, true});
      return Done();
    });
  });
}

template <class Queue>
bool GpuTableOn<Queue>::MayEvict(uint32_t id, int64_t step, int64_t most_rows) const {
  const GpuFieldState& field = state_->fields[id];
  const EvictionOptions& eviction = field.options->eviction;
  if (eviction.max_idle_steps > 0) return static_cast<int64_t>(field.lowest_score) <= step - eviction.max_idle_steps;
  return eviction.max_rows > 0 && most_rows > eviction.max_rows;
}

template <class Queue>
Status GpuTableOn<Queue>::TakeEvictionArrays(int64_t rows, EvictionArrays* arrays) const {
  const int64_t sort_bytes = Queue::SortBytes(rows);
  const auto take = [&](Scratch* scratch) {
    arrays->range = scratch->Take<ScoreRange>(1);
    arrays->counts = scratch->Take<uint64_t>(kScoreBins);
    arrays->hashes = scratch->Take<uint64_t>(rows);
    arrays->scores = scratch->Take<uint64_t>(rows);
    arrays->sorted = scratch->Take<uint64_t>(rows);
    arrays->rows = scratch->Take<int32_t>(rows);
    arrays->by_hash = scratch->Take<int32_t>(rows);
    arrays->sort_scratch = scratch->Take<char>(sort_bytes);
  };
  return TakeArrays(take, &arrays->block);
}

template <class Queue>
Status GpuTableOn<Queue>::Evict(const std::vector<uint32_t>& ids, const EvictionArrays& arrays) {
  State& state = *state_;
  const std::vector<int64_t> rows = state.ReadById(queue_, state.view.field_rows);
  const int64_t end = static_cast<int64_t>(state.ReadCounters(queue_).end);
  TFB_RETURN_IF_ERROR(Done());
  for (const uint32_t id : ids) {
    if (rows[id] > 0 && MayEvict(id, state.fields[id].step, rows[id])) {
      TFB_RETURN_IF_ERROR(EvictField(id, rows[id], end, arrays));
    }
  }
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::EvictField(uint32_t id, int64_t field_rows, int64_t end, const EvictionArrays& arrays) {
  State& state = *state_;
  GpuFieldState& field = state.fields[id];
  const EvictionOptions& eviction = field.options->eviction;
  const int64_t all = end - kFirstRow;
  const ScoreBody body = {state.view, id, eviction.order == EvictionOrder::kLfu};
  queue_.Zero(arrays.range, sizeof(ScoreRange));
  ForEach(queue_, all, FindScoreRange(body, arrays.range));
  ScoreRange found = {};
  queue_.ToHost(arrays.range, 1, &found);
  TFB_RETURN_IF_ERROR(Done());
  field.lowest_score = ~found.not_lowest;

  // How many rows leave, if that is known, and the highest score among them.
  int64_t wanted = -1;
  uint64_t last = 0;
  if (eviction.max_idle_steps > 0) {
    last = static_cast<uint64_t>(field.step - eviction.max_idle_steps);
    if (field.lowest_score > last) return Status();
    field.lowest_score = last + 1;
  } else {
    wanted = field_rows - eviction.max_rows;
    const ScoreBins bins = {field.lowest_score, (found.greatest - field.lowest_score) / kScoreBins + 1};
    queue_.Zero(arrays.counts, kScoreBins * static_cast<int64_t>(sizeof(uint64_t)));
    ForEach(queue_, all, CountScores(body, bins, arrays.counts));
    std::vector<uint64_t> in_bins(kScoreBins);
    queue_.ToHost(arrays.counts, kScoreBins, in_bins.data());
    TFB_RETURN_IF_ERROR(Done());
    uint64_t bin = 0;
    for (int64_t sum = static_cast<int64_t>(in_bins[0]); sum < wanted; sum += static_cast<int64_t>(in_bins[++bin])) {
    }
    last = bins.lowest + (bin + 1) * bins.width - 1;
  }

  ForEach(queue_, all, CollectScores{body, last, arrays.range, arrays.hashes, arrays.rows});
  queue_.ToHost(arrays.range, 1, &found);
  TFB_RETURN_IF_ERROR(Done());
  const int64_t collected = static_cast<int64_t>(found.collected), victims = wanted < 0 ? collected : wanted;
  queue_.Sort(arrays.hashes, arrays.sorted, arrays.rows, arrays.by_hash, collected, 64, arrays.sort_scratch);
  ForEach(queue_, collected, ReadScores{body, arrays.by_hash, arrays.scores});
  queue_.Sort(arrays.scores, arrays.sorted, arrays.by_hash, arrays.rows, collected, 64, arrays.sort_scratch);
  const auto* leaving = reinterpret_cast<const uint32_t*>(arrays.rows);
  ForEach<kGroupLanes>(queue_, victims, FreeRows{state.view, leaving, nullptr, nullptr});
  ForEach(queue_, 1, CommitFreed{state.view.counters, nullptr, victims});
  field.evicted += victims;
  ++epoch_;
  return Done();
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_
