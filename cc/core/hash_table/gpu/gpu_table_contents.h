// Of gpu_table_impl.h: whole fields out and in.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_CONTENTS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_CONTENTS_H_

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cc/core/hash_table/gpu/export_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

// Rows that travel at a time: some 32 MiB, so that a copy takes a millisecond and its buffer is no burden.
template <class Queue>
int64_t GpuTableOn<Queue>::RowsOfPiece() const {
  return std::max(kLeastRowsOfPiece, (int64_t{32} << 20) / (state_->layout.values() * 4 + 32));
}

template <class Queue>
Status GpuTableOn<Queue>::ReadPiece(int64_t first, int64_t n, uint32_t id, bool with_values, Piece* piece) const {
  const int64_t width = state_->layout.values(), sum_bytes = Queue::SumBytes(n);
  int32_t *flags = nullptr, *ranks = nullptr;
  ExportArrays out;
  char* sum_scratch = nullptr;
  const auto take = [&](Scratch* scratch) {
    flags = scratch->Take<int32_t>(n);
    ranks = scratch->Take<int32_t>(n);
    out.keys = scratch->Take<int64_t>(n);
    out.ids = scratch->Take<uint32_t>(n);
    out.frequencies = scratch->Take<int64_t>(n);
    out.last_steps = scratch->Take<int64_t>(n);
    if (with_values) out.values = scratch->Take<float>(n * width);
    sum_scratch = scratch->Take<char>(sum_bytes);
  };
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  ForEach(queue_, n, FlagRows{state_->view, first, id, flags});
  queue_.InclusiveSum(flags, ranks, n, sum_scratch);
  ForEach<kGroupLanes>(queue_, n, ExportRows{state_->view, first, flags, ranks, out});
  int32_t size = 0;
  queue_.ToHost(ranks + n - 1, 1, &size);
  TFB_RETURN_IF_ERROR(Done());
  piece->keys.resize(size);
  piece->ids.resize(size);
  piece->frequencies.resize(size);
  piece->last_steps.resize(size);
  piece->values.resize(with_values ? size * width : 0);
  queue_.ToHost(out.keys, size, piece->keys.data());
  queue_.ToHost(out.ids, size, piece->ids.data());
  queue_.ToHost(out.frequencies, size, piece->frequencies.data());
  queue_.ToHost(out.last_steps, size, piece->last_steps.data());
  if (with_values) queue_.ToHost(out.values, size * width, piece->values.data());
  return Done();
}

// A card that a table fills must still give it away, to a checkpoint: where there is no memory for a piece, for half of
// it.
template <class Queue>
Status GpuTableOn<Queue>::ReadPieceThatFits(int64_t* first, int64_t end, int64_t most, uint32_t id, bool with_values,
                                            Piece* piece) const {
  for (int64_t n = std::min(most, end - *first);; n = std::max(kLeastRowsOfPiece, n / 2)) {
    const Status status = ReadPiece(*first, n, id, with_values, piece);
    if (status.ok()) *first += n;
    if (status.code() != StatusCode::kResourceExhausted || n <= kLeastRowsOfPiece) return status;
  }
}

// In the order of row numbers, which is that of insertion while no row is freed.
template <class Queue>
Status GpuTableOn<Queue>::ExportField(uint32_t id, int64_t end, const ContentsOut& out) const {
  const int64_t dim = options_.dim, width = state_->layout.values();
  bool with_values = out.values != nullptr;
  for (const float* slot : out.slots) with_values |= slot != nullptr;
  int64_t done = 0;
  for (int64_t first = kFirstRow; first < end;) {
    Piece piece;
    TFB_RETURN_IF_ERROR(ReadPieceThatFits(&first, end, RowsOfPiece(), id, with_values, &piece));
    const int64_t n = static_cast<int64_t>(piece.keys.size());
    if (out.keys != nullptr) std::copy(piece.keys.begin(), piece.keys.end(), out.keys + done);
    if (out.frequencies != nullptr) {
      std::copy(piece.frequencies.begin(), piece.frequencies.end(), out.frequencies + done);
    }
    if (out.last_steps != nullptr) std::copy(piece.last_steps.begin(), piece.last_steps.end(), out.last_steps + done);
    for (int64_t i = 0; with_values && i < n; ++i) {
      const float* row = piece.values.data() + i * width;
      if (out.values != nullptr) std::copy_n(row, dim, out.values + (done + i) * dim);
      for (size_t s = 0; s < out.slots.size(); ++s) {
        if (out.slots[s] != nullptr) std::copy_n(row + (1 + s) * dim, dim, out.slots[s] + (done + i) * dim);
      }
    }
    done += n;
  }
  return Status();
}

// By hash, so that the order does not depend on scheduling.
template <class Queue>
Status GpuTableOn<Queue>::ExportPending(uint32_t id, const ContentsOut& out) const {
  const int64_t n = out.pending;
  if (n == 0) return Status();
  uint64_t* count = nullptr;
  int64_t *keys = nullptr, *counts = nullptr;
  const auto take = [&](Scratch* scratch) {
    count = scratch->Take<uint64_t>(1);
    keys = scratch->Take<int64_t>(n);
    counts = scratch->Take<int64_t>(n);
  };
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  queue_.Zero(count, sizeof(uint64_t));
  ForEach(queue_, state_->view.index.capacity(), CollectPending{state_->view, id, count, keys, counts});
  std::vector<int64_t> host_keys(n), host_counts(n), order(n);
  queue_.ToHost(keys, n, host_keys.data());
  queue_.ToHost(counts, n, host_counts.data());
  TFB_RETURN_IF_ERROR(Done());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return HashKey(host_keys[a], 0) < HashKey(host_keys[b], 0); });
  for (int64_t i = 0; i < n; ++i) {
    if (out.pending_keys != nullptr) out.pending_keys[i] = host_keys[order[i]];
    if (out.pending_counts != nullptr) out.pending_counts[i] = host_counts[order[i]];
  }
  return Status();
}

template <class Queue>
Status GpuTableOn<Queue>::Export(const std::vector<uint32_t>& fields,
                                 FunctionRef<Status(std::vector<ContentsOut>*)> allocate, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Export"));
  return Guarded([&] {
    const GpuTableCounts counts = state_->ReadCounts(queue_);
    const int64_t end = static_cast<int64_t>(counts.counters.end);
    TFB_RETURN_IF_ERROR(Done());
    std::vector<ContentsOut> out(fields.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      const uint32_t id = state_->active[fields[i]];
      out[i].field = fields[i];
      out[i].rows = counts.rows[id];
      out[i].pending = counts.pending[id];
      out[i].slots.assign(options_.slot_initial_values.size(), nullptr);
      out[i].step = state_->fields[id].step;
      out[i].seed = state_->fields[id].seed;
    }
    TFB_RETURN_IF_ERROR(allocate(&out));
    for (const ContentsOut& contents : out) {
      const uint32_t id = state_->active[contents.field];
      if (contents.rows > 0) TFB_RETURN_IF_ERROR(ExportField(id, end, contents));
      TFB_RETURN_IF_ERROR(ExportPending(id, contents));
    }
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::ExportBatch(int64_t* cursor, int64_t limit, TableRows* out) const {
  TFB_RETURN_IF_ERROR(CheckCursor(options_, *cursor, limit));
  return Guarded([&] {
    const int64_t end = static_cast<int64_t>(state_->ReadCounts(queue_).counters.end);
    const int64_t dim = options_.dim, width = state_->layout.values();
    const size_t slots = options_.slot_initial_values.size();
    Piece piece;
    int64_t next = kFirstRow + *cursor;
    while (next < end && piece.keys.empty()) {  // A stretch of free rows is no end.
      TFB_RETURN_IF_ERROR(ReadPieceThatFits(&next, end, std::min(limit, RowsOfPiece()), kNoField, true, &piece));
    }
    *out = TableRows();
    out->slots.resize(slots);
    for (size_t i = 0; i < piece.keys.size(); ++i) {
      const float* row = piece.values.data() + i * width;
      out->fields.push_back(state_->FieldOf(piece.ids[i]));
      out->values.insert(out->values.end(), row, row + dim);
      for (size_t s = 0; s < slots; ++s) {
        out->slots[s].insert(out->slots[s].end(), row + (1 + s) * dim, row + (2 + s) * dim);
      }
    }
    out->keys = std::move(piece.keys);
    out->frequencies = std::move(piece.frequencies);
    out->last_steps = std::move(piece.last_steps);
    *cursor = next < end ? next - kFirstRow : -1;
    exporting_ = *cursor >= 0;
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::Import(const std::vector<ContentsIn>& contents, ParallelFor&) {
  std::vector<uint32_t> fields;
  for (const ContentsIn& in : contents) fields.push_back(in.field);
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Import"));
  for (const ContentsIn& in : contents) TFB_RETURN_IF_ERROR(CheckContents(options_, in));
  return Guarded([&] {
    std::vector<uint32_t> ids;
    if (fields.size() == state_->num_fields) {  // Into a new state: what the table had is given back.
      std::unique_ptr<State> state;
      TFB_RETURN_IF_ERROR(NextState(&state));
      for (const uint32_t field : fields) ids.push_back(state->active[field]);
      TFB_RETURN_IF_ERROR(Enter(contents, ids, state.get()));
      state_ = std::move(state);
      return Done();
    }
    for (const uint32_t field : fields) ids.push_back(state_->OtherId(state_->active[field]));
    PurgeArrays arrays;
    TFB_RETURN_IF_ERROR(TakePurgeArrays(&arrays));
    const Status status = Enter(contents, ids, state_.get());
    if (status.ok()) return Exchange(fields, arrays);
    TFB_RETURN_IF_ERROR(Purge(arrays));  // What came in under the other ids.
    return status;
  });
}

template <class Queue>
Status GpuTableOn<Queue>::Enter(const std::vector<ContentsIn>& contents, const std::vector<uint32_t>& ids,
                                State* state) {
  int64_t rows = 0, pending = 0, frequency = 1, step = 0;
  const std::vector<int64_t> evicted = state_->ReadCounts(queue_).evicted;
  for (size_t c = 0; c < contents.size(); ++c) {
    const ContentsIn& in = contents[c];
    const uint32_t before = state_->active[in.field];
    state->fields[ids[c]].Start(in.seed.value_or(state_->fields[before].seed), in.step);
    state->WriteEvicted(queue_, ids[c], evicted[before]);
    rows += in.rows;
    pending += in.pending;
    step = std::max(step, in.step);
    for (int64_t i = 0; i < in.rows; ++i) {
      if (in.frequencies != nullptr) frequency = std::max(frequency, in.frequencies[i]);
      if (in.last_steps != nullptr) step = std::max(step, in.last_steps[i]);
    }
  }
  state->may_have_pending |= pending > 0;
  state->WriteFields(queue_);
  state->WriteSteps(queue_);
  TFB_RETURN_IF_ERROR(EnsureCounts(state, frequency, step));
  TFB_RETURN_IF_ERROR(MakeRoom(state, rows, rows + pending));
  for (size_t c = 0; c < contents.size(); ++c) {
    const ContentsIn& in = contents[c];
    const int64_t per_piece = RowsOfPiece();
    for (int64_t begin = 0; begin < in.rows; begin += per_piece) {
      TFB_RETURN_IF_ERROR(EnterPiece(in, ids[c], begin, std::min(in.rows, begin + per_piece), false, state));
    }
    for (int64_t begin = 0; begin < in.pending; begin += per_piece) {
      TFB_RETURN_IF_ERROR(EnterPiece(in, ids[c], begin, std::min(in.pending, begin + per_piece), true, state));
    }
  }
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::EnterPiece(const ContentsIn& in, uint32_t id, int64_t begin, int64_t end, bool pending,
                                     State* state) {
  const int64_t n = end - begin, dim = options_.dim, slots = state->layout.slots;
  int64_t *keys = nullptr, *frequencies = nullptr, *last_steps = nullptr;
  std::vector<const float*> slot_arrays(slots, nullptr);
  const float** slot_table = nullptr;
  float* values = nullptr;
  const auto given = [&](int64_t s) { return !pending && !in.slots.empty() && in.slots[s] != nullptr; };
  const auto take = [&](Scratch* scratch) {
    keys = scratch->Take<int64_t>(n);
    frequencies = scratch->Take<int64_t>(n);
    last_steps = scratch->Take<int64_t>(n);
    values = scratch->Take<float>(pending ? 0 : n * dim);
    slot_table = scratch->Take<const float*>(slots);
    for (int64_t s = 0; s < slots; ++s) slot_arrays[s] = given(s) ? scratch->Take<float>(n * dim) : nullptr;
  };
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  queue_.FromHost((pending ? in.pending_keys : in.keys) + begin, n, keys);
  InsertRule rule;
  rule.distinct = rule.absent = true;
  if (pending) {
    queue_.FromHost(in.pending_counts + begin, n, frequencies);
    rule.pending_counts = frequencies;
  } else {
    queue_.FromHost(in.values + begin * dim, n * dim, values);
    Write(queue_, slot_arrays.data(), slots, slot_table);
    for (int64_t s = 0; s < slots; ++s) {
      if (given(s)) queue_.FromHost(in.slots[s] + begin * dim, n * dim, const_cast<float*>(slot_arrays[s]));
    }
    if (in.frequencies != nullptr) queue_.FromHost(in.frequencies + begin, n, frequencies);
    if (in.frequencies != nullptr) rule.frequencies = frequencies;
    if (in.last_steps != nullptr) queue_.FromHost(in.last_steps + begin, n, last_steps);
    if (in.last_steps != nullptr) rule.last_steps = last_steps;
  }
  DeviceKeys batch = {keys, nullptr, n, 0, id};
  Insertion insertion;
  return Insert(state, batch, {}, rule, {values, slot_table}, true, &insertion);
}

template <class Queue>
Status GpuTableOn<Queue>::TakePurgeArrays(PurgeArrays* arrays) const {
  const int64_t sum_bytes = Queue::SumBytes(kRowsOfPurge);
  const auto take = [&](Scratch* scratch) {
    arrays->is_old = scratch->Take<uint8_t>(state_->num_ids);
    arrays->flags = scratch->Take<int32_t>(kRowsOfPurge);
    arrays->ranks = scratch->Take<int32_t>(kRowsOfPurge);
    arrays->sum_scratch = scratch->Take<char>(sum_bytes);
  };
  return TakeArrays(take, &arrays->block);
}

template <class Queue>
Status GpuTableOn<Queue>::Exchange(const std::vector<uint32_t>& fields, const PurgeArrays& arrays) {
  State& state = *state_;
  for (const uint32_t field : fields) state.active[field] = state.OtherId(state.active[field]);
  state.WriteActive(queue_);
  ForEach(queue_, 1, NextEpoch{state.view.counters});
  return Purge(arrays);
}

template <class Queue>
Status GpuTableOn<Queue>::Purge(const PurgeArrays& arrays) {
  const State& state = *state_;
  std::vector<uint8_t> is_old(state.num_ids, 1);
  for (const uint32_t id : state.active) is_old[id] = 0;
  const int64_t end = static_cast<int64_t>(state.ReadCounts(queue_).counters.end);
  Write(queue_, is_old.data(), state.num_ids, arrays.is_old);
  ForEach(queue_, state.view.index.capacity(), PurgeEntries{state.view, arrays.is_old});
  for (int64_t first = kFirstRow; first < end; first += kRowsOfPurge) {
    const int64_t n = std::min(kRowsOfPurge, end - first);
    ForEach(queue_, n, FlagLeaving{state.view, first, arrays.flags});
    queue_.InclusiveSum(arrays.flags, arrays.ranks, n, arrays.sum_scratch);
    ForEach(queue_, n, FreeLeaving{state.view, first, arrays.flags, arrays.ranks});
    ForEach(queue_, 1, CommitFreed{state.view.counters, arrays.ranks + n - 1});
  }
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::Clear(uint32_t field) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "Clear"));
  return Guarded([&] {
    State& state = *state_;
    if (state.num_fields == 1) {
      std::unique_ptr<State> empty;
      TFB_RETURN_IF_ERROR(NextState(&empty));
      empty->fields[0].Start(state.fields[0].seed, state.fields[0].step);
      empty->WriteEvicted(queue_, 0, state.ReadCounts(queue_).evicted[0]);
      empty->WriteFields(queue_);
      empty->WriteSteps(queue_);
      state_ = std::move(empty);
      return Done();
    }
    PurgeArrays arrays;
    TFB_RETURN_IF_ERROR(TakePurgeArrays(&arrays));
    const uint32_t before = state.active[field], other = state.OtherId(before);
    state.fields[other].Start(state.fields[before].seed, state.fields[before].step);
    state.WriteEvicted(queue_, other, state.ReadCounts(queue_).evicted[before]);
    state.WriteFields(queue_);
    state.WriteSteps(queue_);
    return Exchange({field}, arrays);
  });
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_CONTENTS_H_
