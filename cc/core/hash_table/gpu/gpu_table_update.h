// Of gpu_table_impl.h: one training step, and who leaves after it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_

#include <algorithm>

#include "cc/core/hash_table/gpu/eviction_bodies.h"
#include "cc/core/hash_table/gpu/export_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table_disk.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/gpu/swap_bodies.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
Status GpuTableOn<Queue>::UpdateLocked(const DeviceUpdate& batch, int64_t most_sightings, bool wait,
                                       DeviceRowsFn update) {
  State& state = *state_;
  InsertRule rule;
  rule.filter = true;
  rule.counts = batch.counts;
  rule.may_repeat = false;  // Or it is reported, where somebody waits.
  rule.distinct = wait;
  bool filters = false;
  for (const FieldOptions& field : options_.fields) filters |= field.min_frequency > 1;
  std::vector<uint32_t> stepping = batch.fields;
  for (uint32_t f = 0; batch.fields.empty() && f < state.num_fields; ++f) stepping.push_back(f);
  TFB_RETURN_IF_ERROR(EnsureCounts(&state, most_sightings, LatestStep(state) + 1));
  state.Listen();
  const int64_t most_rows = state.EndAfter(batch.keys.size) - kFirstRow;
  std::vector<uint32_t> evicting;
  for (uint32_t& field : stepping) {
    field = state.active[field];
    if (MayEvict(field, state.fields[field].step + 1, most_rows)) evicting.push_back(field);
  }
  EvictionArrays eviction;
  DeviceBlock eviction_block;
  if (!evicting.empty()) TFB_RETURN_IF_ERROR(TakeEvictionArrays(most_rows, &eviction, &eviction_block));
  const bool had_pending = state.may_have_pending;
  state.may_have_pending |= filters;
  Insertion insertion;
  const Status status = Insert(&state, batch.keys, {batch.handles}, rule, DeviceRowSource(), wait, &insertion);
  if (!status.ok()) {
    state.may_have_pending = had_pending;
    return status;
  }
  for (const uint32_t id : stepping) ++state.fields[id].step;
  state.WriteSteps(queue_);
  ForEach(queue_, batch.keys.size, CountSightings{state.view, batch.keys, insertion.arrays.rows, batch.counts});
  const Status updated = update(state.view, insertion.arrays.places);
  TFB_RETURN_IF_ERROR(StoreRows(&state, insertion.disk, false));
  TFB_RETURN_IF_ERROR(updated);
  for (const uint32_t id : evicting) EvictField(id, eviction);
  BoundLiveRows(stepping);
  state.Ask(queue_, batch.keys.size);
  return BringUsedRows();
}

// Where there is no memory for it now, there is in a later step. From the disk to the host first: a row that is used
// may come all the way. A row that one of the last 16 steps used is more often used than one that one of 64 did: of the
// disk, where each costs a read and a write, those move alone.
template <class Queue>
Status GpuTableOn<Queue>::BringUsedRows() {
  State& state = *state_;
  const int64_t end = std::min(state.end_bound, state.row_end());
  const int64_t host_from = state.host_from(), disk_from = state.disk_from();
  if (end <= host_from || ++state.steps_since_swap < config_.swap_steps) return Done();
  const int64_t period = std::exchange(state.steps_since_swap, 0);
  const RowRange card = {kFirstRow, host_from}, host = {host_from, std::min(end, disk_from)};
  TFB_RETURN_IF_ERROR(SwapRanges(host_from < disk_from ? host : card, {disk_from, end}, period));
  return SwapRanges(card, host, period);
}

template <class Queue>
Status GpuTableOn<Queue>::SwapRanges(const RowRange& near, const RowRange& far, int64_t period) {
  State& state = *state_;
  if (near.end <= near.from || far.end <= far.from) return Done();
  const bool from_disk = far.from >= state.disk_from();
  const int64_t words = near.words() + far.words();
  const int64_t most = std::min({kMostPairs, near.end - near.from, far.end - far.from});
  const int64_t sum_bytes = Queue::SumBytes(words);
  SwapArrays arrays;
  const auto take = [&](Scratch* scratch) {
    arrays.moving = scratch->Take<uint64_t>(words);
    arrays.counts = scratch->Take<int32_t>(words);
    arrays.sums = scratch->Take<int32_t>(words);
    arrays.idle = scratch->Take<uint32_t>(most);
    arrays.used = scratch->Take<uint32_t>(most);
    arrays.sum_scratch = scratch->Take<char>(sum_bytes);
  };
  DeviceBlock block;
  if (!TakeArrays(take, &block).ok()) {
    state.steps_since_swap = period;
    return Done();
  }
  bool one_clock = true;
  for (const uint32_t id : state.active) one_clock &= state.fields[id].step == state.fields[state.active[0]].step;
  const SwapBody body = {state.view,
                         arrays,
                         near,
                         far,
                         most,
                         period,
                         from_disk ? CeilDiv(period, 4) : period,
                         one_clock ? LatestStep(state) : -1};
  queue_.Zero(arrays.moving, words * static_cast<int64_t>(sizeof(uint64_t)));
  ForEach(queue_, words * kRowsOfWord, MarkMoving(body));
  ForEach(queue_, words, CountMoving(body));
  queue_.InclusiveSum(arrays.counts, arrays.sums, words, arrays.sum_scratch);
  ForEach(queue_, words, ListMoving(body));
  if (from_disk) {
    TFB_RETURN_IF_ERROR(SwapPairsWithDisk(body));
  } else {
    ForEach<kGroupLanes>(queue_, most, SwapRows(body));
    ForEach(queue_, 1, CommitSwap(body));
  }
  return Done();
}

// Where every field leaves a step with at most its eviction's rows, that is a bound for all of them.
template <class Queue>
void GpuTableOn<Queue>::BoundLiveRows(const std::vector<uint32_t>& stepped) {
  State& state = *state_;
  for (const uint32_t id : state.active) state.fields[id].over = true;
  for (const uint32_t id : stepped) state.fields[id].over = false;
  int64_t most = 0;
  for (const uint32_t id : state.active) {
    const int64_t max_rows = state.fields[id].options->eviction.max_rows;
    if (max_rows == 0 || state.fields[id].over) return;
    most += max_rows;
  }
  state.live_bound = std::min(state.live_bound, most);
}

template <class Queue>
Status GpuTableOn<Queue>::UpdateAsync(const DeviceUpdate& batch, DeviceRowsFn update) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, batch.fields, "Update"));
  return Guarded([&] { return UpdateLocked(batch, batch.keys.size, false, update); });
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
    const int64_t most = n == 0 || batch.counts == nullptr ? 1 : *std::max_element(batch.counts, batch.counts + n);
    return UpdateLocked(on_card, most, true, [&](const DeviceState& view, const uint32_t* device_rows) {
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
  const EvictionOptions& eviction = state_->fields[id].options->eviction;
  if (eviction.max_idle_steps > 0) return step >= eviction.max_idle_steps;
  return eviction.max_rows > 0 && most_rows > eviction.max_rows;
}

template <class Queue>
Status GpuTableOn<Queue>::TakeEvictionArrays(int64_t rows, EvictionArrays* arrays, DeviceBlock* block) const {
  const int64_t words = CeilDiv(rows, kRowsOfWord);
  const int64_t sum_bytes = std::max(Queue::SumBytes(words), Queue::SumBytes(kDigits));
  const auto take = [&](Scratch* scratch) {
    arrays->choices = scratch->Take<Choice>(kLevels);
    arrays->not_lowest = scratch->Take<uint64_t>(1);
    arrays->ties = scratch->Take<uint64_t>(1);
    arrays->counts = scratch->Take<int32_t>(kLevels * kDigits);
    arrays->victims = scratch->Take<uint64_t>(words);
    arrays->candidates = scratch->Take<uint64_t>(words);
    arrays->sums = scratch->Take<int32_t>(kDigits);
    arrays->freed = scratch->Take<int32_t>(words);
    arrays->ranks = scratch->Take<int32_t>(words);
    arrays->sum_scratch = scratch->Take<char>(sum_bytes);
  };
  return TakeArrays(take, block);
}

// Rows that have not been taken yet are passed over: the host knows a bound of their number alone.
template <class Queue>
void GpuTableOn<Queue>::EvictField(uint32_t id, const EvictionArrays& arrays) {
  const State& state = *state_;
  const EvictionOptions& eviction = state.fields[id].options->eviction;
  const int64_t rows = state.end_bound - kFirstRow, words = CeilDiv(rows, kRowsOfWord);
  if (rows == 0) return;
  const EvictionBody body = {state.view,
                             arrays,
                             id,
                             eviction.order == EvictionOrder::kLfu,
                             eviction.max_rows,
                             state.fields[id].step - eviction.max_idle_steps,
                             left_keys_[state.FieldOf(id)].ring};
  char* const zeros = reinterpret_cast<char*>(arrays.choices);
  queue_.Zero(zeros, reinterpret_cast<char*>(arrays.sums) - zeros);
  if (eviction.max_rows > 0) {
    const auto choose = [&](int level) {
      queue_.InclusiveSum(arrays.counts + level * kDigits, arrays.sums, kDigits, arrays.sum_scratch);
      ForEach(queue_, kDigits, Choose(body, level));
    };
    ForEach(queue_, rows, CountScores(body));
    choose(0);
    ForEach(queue_, rows, SiftRows(body));
    for (int level = 1; level < kLevels; ++level) {
      choose(level);
      ForEach(queue_, words, SiftCandidates(body, level));
    }
    ForEach(queue_, rows, RankTies(body));
  } else {
    ForEach(queue_, rows, FindIdle(body));
  }
  ForEach(queue_, words, CountVictims(body));
  queue_.InclusiveSum(arrays.freed, arrays.ranks, words, arrays.sum_scratch);
  const int32_t* const total = arrays.ranks + words - 1;
  ForEach(queue_, words, FreeVictims(body, total));
  ForEach(queue_, 1, CommitEvicted(body, total));
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_UPDATE_H_
