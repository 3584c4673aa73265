// Of gpu_table_impl.h: whole fields out and in.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_CONTENTS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_CONTENTS_H_

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cc/core/hash_table/gpu/export_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table_disk.h"
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
Status GpuTableOn<Queue>::ReadPiece(int64_t first, int64_t n, WantedRows wanted, Columns columns, Piece* piece) const {
  const int64_t sum_bytes = Queue::SumBytes(n);
  int32_t *flags = nullptr, *ranks = nullptr;
  ExportArrays out;
  char* sum_scratch = nullptr;
  const auto take = [&](Scratch* scratch) {
    flags = scratch->Take<int32_t>(n);
    ranks = scratch->Take<int32_t>(n);
    out.keys = scratch->Take<int64_t>(n);
    out.frequencies = scratch->Take<int64_t>(n);
    out.last_steps = scratch->Take<int64_t>(n);
    out.values = scratch->Take<float>(n * out.columns);
    sum_scratch = scratch->Take<char>(sum_bytes);
  };
  const bool on_disk = first >= state_->disk_from() && columns.size > 0;
  out.first_column = columns.first;
  out.columns = on_disk ? 0 : columns.size;
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  ForEach(queue_, n, FlagRows{state_->view, first, wanted.id, wanted.since, flags});
  queue_.InclusiveSum(flags, ranks, n, sum_scratch);
  ForEach<kGroupLanes>(queue_, n, ExportRows{state_->view, first, flags, ranks, out});
  int32_t size = 0;
  queue_.ToHost(ranks + n - 1, 1, &size);
  TFB_RETURN_IF_ERROR(Done());
  piece->keys.resize(size);
  piece->frequencies.resize(size);
  piece->last_steps.resize(size);
  piece->values.resize(size * columns.size);
  queue_.ToHost(out.keys, size, piece->keys.data());
  queue_.ToHost(out.frequencies, size, piece->frequencies.data());
  queue_.ToHost(out.last_steps, size, piece->last_steps.data());
  queue_.ToHost(out.values, size * out.columns, piece->values.data());
  if (!on_disk) return Done();
  std::vector<int32_t> wanted_rows(n);
  queue_.ToHost(flags, n, wanted_rows.data());
  TFB_RETURN_IF_ERROR(Done());
  std::vector<uint32_t> rows;
  for (int64_t r = 0; r < n; ++r) {
    if (wanted_rows[r] != 0) rows.push_back(static_cast<uint32_t>(first + r));
  }
  const int64_t stride = state_->layout.stride_bytes;
  return StageRows(*state_, rows, [&](int64_t done, int64_t part) {
    for (int64_t i = 0; i < part; ++i) {
      const auto* const row = reinterpret_cast<const float*>(state_->staging() + i * stride);
      std::copy_n(row + columns.first, columns.size, piece->values.data() + (done + i) * columns.size);
    }
  });
}

// A card that a table fills must still give it away, to a checkpoint: where there is no memory for a piece, for half of
// it.
template <class Queue>
template <class Visit>
Status GpuTableOn<Queue>::ForEachPiece(WantedRows wanted, Columns columns, Visit visit) const {
  const int64_t end = static_cast<int64_t>(state_->ReadCounts(queue_).counters.end);
  TFB_RETURN_IF_ERROR(Done());
  Piece piece;
  for (int64_t first = kFirstRow, most = RowsOfPiece(); first < end;) {
    const int64_t disk_from = state_->disk_from();
    const int64_t n = std::min(most, (first < disk_from ? std::min(end, disk_from) : end) - first);
    const Status status = ReadPiece(first, n, wanted, columns, &piece);
    if (status.code() == StatusCode::kResourceExhausted && n > kLeastRowsOfPiece) {
      most = std::max(kLeastRowsOfPiece, n / 2);
      continue;
    }
    TFB_RETURN_IF_ERROR(status);
    first += n;
    if (!piece.keys.empty()) TFB_RETURN_IF_ERROR(visit(piece));
  }
  return Status();
}

template <class Queue>
Status GpuTableOn<Queue>::ExportField(const ContentsOut& out) const {
  const int64_t dim = options_.dim, width = state_->layout.values();
  bool with_values = out.values != nullptr;
  for (const float* slot : out.slots) with_values |= slot != nullptr;
  int64_t done = 0;
  return ForEachPiece({state_->active[out.field]}, {0, with_values ? width : 0}, [&](const Piece& piece) {
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
    return Status();
  });
}

// By hash, so that the order does not depend on scheduling.
template <class Queue>
Status GpuTableOn<Queue>::ReadPending(uint32_t id, int64_t n, std::vector<int64_t>* keys,
                                      std::vector<int64_t>* counts) const {
  keys->resize(n);
  counts->resize(n);
  if (n == 0) return Status();
  uint64_t* count = nullptr;
  int64_t *device_keys = nullptr, *device_counts = nullptr;
  const auto take = [&](Scratch* scratch) {
    count = scratch->Take<uint64_t>(1);
    device_keys = scratch->Take<int64_t>(n);
    device_counts = scratch->Take<int64_t>(n);
  };
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  queue_.Zero(count, sizeof(uint64_t));
  ForEach(queue_, state_->view.index.capacity(), CollectPending{state_->view, id, count, device_keys, device_counts});
  std::vector<int64_t> host_keys(n), host_counts(n), order(n);
  queue_.ToHost(device_keys, n, host_keys.data());
  queue_.ToHost(device_counts, n, host_counts.data());
  TFB_RETURN_IF_ERROR(Done());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return HashKey(host_keys[a], 0) < HashKey(host_keys[b], 0); });
  for (int64_t i = 0; i < n; ++i) {
    (*keys)[i] = host_keys[order[i]];
    (*counts)[i] = host_counts[order[i]];
  }
  return Status();
}

template <class Queue>
std::vector<ContentsOut> GpuTableOn<Queue>::StartExport(const std::vector<uint32_t>& fields) const {
  const GpuTableCounts counts = state_->ReadCounts(queue_);
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
  return out;
}

template <class Queue>
Status GpuTableOn<Queue>::Export(const std::vector<uint32_t>& fields,
                                 FunctionRef<Status(std::vector<ContentsOut>*)> allocate, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Export"));
  return Guarded([&] {
    std::vector<ContentsOut> out = StartExport(fields);
    TFB_RETURN_IF_ERROR(Done());
    TFB_RETURN_IF_ERROR(allocate(&out));
    for (const ContentsOut& contents : out) {
      if (contents.rows > 0) TFB_RETURN_IF_ERROR(ExportField(contents));
      std::vector<int64_t> keys, counts;
      TFB_RETURN_IF_ERROR(ReadPending(state_->active[contents.field], contents.pending, &keys, &counts));
      if (contents.pending_keys != nullptr) std::copy(keys.begin(), keys.end(), contents.pending_keys);
      if (contents.pending_counts != nullptr) std::copy(counts.begin(), counts.end(), contents.pending_counts);
    }
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::ExportPieces(const std::vector<uint32_t>& fields, bool with_slots,
                                       FunctionRef<Status(const std::vector<ContentsOut>&)> begin,
                                       FunctionRef<Status(const ContentsPiece&)> write, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "ExportPieces"));
  return Guarded([&] {
    const std::vector<ContentsOut> out = StartExport(fields);
    TFB_RETURN_IF_ERROR(Done());
    TFB_RETURN_IF_ERROR(begin(out));
    for (size_t f = 0; f < fields.size(); ++f) {
      const uint32_t id = state_->active[fields[f]];
      const auto give = [&](ContentsArray array, size_t slot, const auto& values) {
        const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(values[0]));
        return values.empty() ? Status() : write({f, array, slot, values.data(), bytes});
      };
      const auto numbers = [&](ContentsArray array, std::vector<int64_t> Piece::*values) {
        return ForEachPiece({id}, {}, [&](const Piece& piece) { return give(array, 0, piece.*values); });
      };
      const auto columns = [&](ContentsArray array, size_t slot, int64_t first) {
        return ForEachPiece({id}, {first, options_.dim},
                            [&](const Piece& piece) { return give(array, slot, piece.values); });
      };
      TFB_RETURN_IF_ERROR(numbers(ContentsArray::kKeys, &Piece::keys));
      TFB_RETURN_IF_ERROR(columns(ContentsArray::kValues, 0, 0));
      for (size_t s = 0; with_slots && s < out[f].slots.size(); ++s) {
        TFB_RETURN_IF_ERROR(columns(ContentsArray::kSlot, s, static_cast<int64_t>(1 + s) * options_.dim));
      }
      TFB_RETURN_IF_ERROR(numbers(ContentsArray::kFrequencies, &Piece::frequencies));
      TFB_RETURN_IF_ERROR(numbers(ContentsArray::kLastSteps, &Piece::last_steps));
      std::vector<int64_t> keys, counts;
      TFB_RETURN_IF_ERROR(ReadPending(id, out[f].pending, &keys, &counts));
      TFB_RETURN_IF_ERROR(give(ContentsArray::kPendingKeys, 0, keys));
      TFB_RETURN_IF_ERROR(give(ContentsArray::kPendingCounts, 0, counts));
    }
    return Done();
  });
}

template <class Queue>
FieldMark GpuTableOn<Queue>::MarkOf(uint32_t field, const GpuTableCounts& counts) const {
  const uint32_t id = state_->active[field];
  return {state_->fields[id].step, edits_.of(field), counts.evicted[id],
          left_keys_[field].ring.ListedFrom(counts.evicted[id])};
}

template <class Queue>
std::vector<int64_t> GpuTableOn<Queue>::ReadLeftKeys(const LeftKeysRing& ring, int64_t from, int64_t evicted) const {
  std::vector<int64_t> keys(std::max<int64_t>(0, evicted - from));
  for (int64_t n = from; n < evicted;) {
    const int64_t at = n % ring.size, size = std::min(evicted - n, ring.size - at);
    queue_.ToHost(ring.keys + at, size, keys.data() + (n - from));
    n += size;
  }
  return keys;
}

template <class Queue>
Status GpuTableOn<Queue>::ListLeaving(uint32_t field) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "ListLeaving"));
  if (!options_.fields[field].eviction.enabled()) return Status();
  return Guarded([&] {
    const GpuTableCounts counts = state_->ReadCounts(queue_);
    TFB_RETURN_IF_ERROR(Done());
    const uint32_t id = state_->active[field];
    LeftKeys& left = left_keys_[field];
    const int64_t size = LeftKeysRing::SizeFor(counts.rows[id]), evicted = counts.evicted[id];
    if (size < left.ring.size * 2) return Status();
    DeviceBlock memory(config_.allocator, size * static_cast<int64_t>(sizeof(int64_t)));
    if (!memory.ok()) return Status();
    const int64_t from = std::min(evicted, left.ring.ListedFrom(evicted));
    const std::vector<int64_t> keys = ReadLeftKeys(left.ring, from, evicted);
    TFB_RETURN_IF_ERROR(Done());
    const LeftKeysRing ring = {static_cast<int64_t*>(memory.get()), size, from};
    for (int64_t n = from; n < evicted;) {
      const int64_t at = n % size, run = std::min(evicted - n, size - at);
      queue_.FromHost(keys.data() + (n - from), run, ring.keys + at);
      n += run;
    }
    TFB_RETURN_IF_ERROR(Done());
    left.ring = ring;
    left.memory = std::move(memory);
    return Status();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::ReadMark(uint32_t field, FieldMark* mark) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "ReadMark"));
  return Guarded([&] {
    *mark = MarkOf(field, state_->ReadCounts(queue_));
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::ExportChanges(std::vector<FieldChanges> changes,
                                        FunctionRef<Status(const std::vector<FieldChanges>&)> begin,
                                        FunctionRef<Status(const ContentsPiece&)> write, ParallelFor&) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, FieldsOf(changes), "ExportChanges"));
  return Guarded([&] {
    const GpuTableCounts counts = state_->ReadCounts(queue_);
    TFB_RETURN_IF_ERROR(Done());
    for (FieldChanges& field : changes) field.Settle(MarkOf(field.field, counts));
    TFB_RETURN_IF_ERROR(begin(changes));
    for (size_t f = 0; f < changes.size(); ++f) {
      const WantedRows all = {state_->active[changes[f].field]}, changed = {all.id, changes[f].since.step};
      const auto keys = [&](ContentsArray array) {
        return [&write, f, array](const Piece& piece) {
          return write({f, array, 0, piece.keys.data(), static_cast<int64_t>(piece.keys.size() * sizeof(int64_t))});
        };
      };
      TFB_RETURN_IF_ERROR(ForEachPiece(changed, {}, keys(ContentsArray::kKeys)));
      TFB_RETURN_IF_ERROR(ForEachPiece(changed, {0, options_.dim}, [&](const Piece& piece) {
        const int64_t bytes = static_cast<int64_t>(piece.values.size() * sizeof(float));
        return write({f, ContentsArray::kValues, 0, piece.values.data(), bytes});
      }));
      if (changes[f].left_keys) {
        const LeftKeysRing& ring = left_keys_[changes[f].field].ring;
        const std::vector<int64_t> left = ReadLeftKeys(ring, changes[f].since.evicted, changes[f].now.evicted);
        TFB_RETURN_IF_ERROR(Done());
        const int64_t bytes = static_cast<int64_t>(left.size() * sizeof(int64_t));
        TFB_RETURN_IF_ERROR(write({f, ContentsArray::kLeftKeys, 0, left.data(), bytes}));
      }
      if (changes[f].all_keys) TFB_RETURN_IF_ERROR(ForEachPiece(all, {}, keys(ContentsArray::kAllKeys)));
    }
    return Done();
  });
}

template <class Queue>
Status GpuTableOn<Queue>::ImportPieces(const std::vector<ContentsSource>& sources, ParallelFor&) {
  std::vector<uint32_t> fields;
  for (const ContentsSource& source : sources) fields.push_back(source.field);
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Import"));
  return Guarded([&] {
    for (const uint32_t field : fields) edits_.Note(field);
    std::vector<uint32_t> ids;
    if (fields.size() == state_->num_fields) {  // Into a new state: what the table had is given back.
      std::unique_ptr<State> state;
      TFB_RETURN_IF_ERROR(NextState(&state));
      for (const uint32_t field : fields) ids.push_back(state->active[field]);
      TFB_RETURN_IF_ERROR(Enter(sources, ids, state.get()));
      state_ = std::move(state);
      return Done();
    }
    for (const uint32_t field : fields) ids.push_back(state_->OtherId(state_->active[field]));
    PurgeArrays arrays;
    TFB_RETURN_IF_ERROR(TakePurgeArrays(&arrays));
    const Status status = Caught([&] { return Enter(sources, ids, state_.get()); });
    if (status.ok()) return Exchange(fields, arrays);
    TFB_RETURN_IF_ERROR(Purge(arrays));  // What came in under the other ids.
    return status;
  });
}

template <class Queue>
Status GpuTableOn<Queue>::Enter(const std::vector<ContentsSource>& sources, const std::vector<uint32_t>& ids,
                                State* state) {
  int64_t rows = 0, pending = 0;
  const std::vector<int64_t> evicted = state_->ReadCounts(queue_).evicted;
  for (size_t c = 0; c < sources.size(); ++c) {
    const ContentsSource& source = sources[c];
    const uint32_t before = state_->active[source.field];
    state->fields[ids[c]].Start(source.seed.value_or(state_->fields[before].seed), source.step);
    state->WriteEvicted(queue_, ids[c], evicted[before]);
    rows += source.rows;
    pending += source.pending;
  }
  state->WriteFields(queue_);
  state->WriteSteps(queue_);
  TFB_RETURN_IF_ERROR(MakeRoom(state, rows, rows + pending));
  ContentsIn piece;
  for (size_t c = 0; c < sources.size(); ++c) {
    for (;;) {
      TFB_RETURN_IF_ERROR(NextPiece(options_, sources[c], &piece));
      if (piece.rows + piece.pending == 0) break;
      int64_t frequency = 1, step = piece.step;
      for (int64_t i = 0; i < piece.rows; ++i) {
        if (piece.frequencies != nullptr) frequency = std::max(frequency, piece.frequencies[i]);
        if (piece.last_steps != nullptr) step = std::max(step, piece.last_steps[i]);
      }
      state->may_have_pending |= piece.pending > 0;
      TFB_RETURN_IF_ERROR(EnsureCounts(state, frequency, step));
      const int64_t most = RowsOfPiece();
      for (int64_t begin = 0; begin < piece.rows; begin += most) {
        TFB_RETURN_IF_ERROR(EnterPiece(piece, ids[c], begin, std::min(piece.rows, begin + most), false, state));
      }
      for (int64_t begin = 0; begin < piece.pending; begin += most) {
        TFB_RETURN_IF_ERROR(EnterPiece(piece, ids[c], begin, std::min(piece.pending, begin + most), true, state));
      }
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
  TFB_RETURN_IF_ERROR(Insert(state, batch, {}, rule, {values, slot_table}, true, &insertion));
  return StoreRows(state, insertion.disk, true);
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
    edits_.Note(field);
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
