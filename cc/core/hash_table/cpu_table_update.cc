// One training step: count, admit, update, evict.
#include <algorithm>
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

constexpr int64_t kMaxVisit = 1024;
constexpr int64_t kVictimsPerVisit = 512;
constexpr int64_t kMetasAhead = 64;  // Of a scan for victims: their misses are under way at once.

// Keys that are handed to the update at once. While they are updated the metas of the next ones are fetched, into the
// second-level cache, where rows of a quarter of it do not drive them out again. (Each visit's metas before its rows,
// at the speed of the misses: Adam of dim 16 takes 5 ns a row more.)
int64_t VisitSize(int64_t stride_bytes) { return std::clamp<int64_t>((256 << 10) / stride_bytes, 64, kMaxVisit); }

// Up to kMaxVisit admitted keys.
struct Visit {
  int64_t positions[kMaxVisit];
  float* rows[kMaxVisit];
  void* metas[kMaxVisit];  // RowMeta, as LinesAhead wants them.
  int64_t size = 0;

  // Takes the next admitted keys from `*i` on.
  void Fill(const RowStore& store, const uint32_t* states, int64_t* i, int64_t end, int64_t limit) {
    for (size = 0; *i < end && size < limit; ++*i) {
      const uint32_t row = states[*i];
      if (!IsRow(row)) continue;
      positions[size] = *i;
      rows[size] = store.Values(row);
      metas[size] = store.Meta(row);
      ++size;
    }
  }

  RowMeta* Meta(int64_t j) const { return static_cast<RowMeta*>(metas[j]); }
  LinesAhead Metas() const { return {metas, size}; }
};

// Of a batch, each key's up to CountPool::kPooled.
int64_t Sightings(const UpdateBatch& batch) {
  if (batch.counts == nullptr) return batch.keys.size;
  int64_t sum = 0;
  for (int64_t i = 0; i < batch.keys.size; ++i) sum += std::min<int64_t>(batch.counts[i], CountPool::kPooled);
  return sum;
}

int64_t AddSaturating(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

}  // namespace

Status CpuTable::NewSteps(const UpdateBatch& batch, std::vector<int64_t>* steps) const {
  TFB_RETURN_IF_ERROR(CheckStepping(options_, batch));
  const TableState& state = *state_;
  steps->assign(state.fields.size(), 0);
  if (batch.fields.empty()) {
    for (const uint32_t id : state.active) (*steps)[id] = state.fields[id].step + 1;
    return Status();
  }
  for (const uint32_t field : batch.fields) {
    (*steps)[state.active[field]] = state.fields[state.active[field]].step + 1;
  }
  return Status();
}

Status CpuTable::Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, batch.keys));
  TFB_RETURN_IF_ERROR(CheckCounts(options_, batch));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    const KeyBatch& keys = batch.keys;
    std::vector<int64_t> steps;
    TFB_RETURN_IF_ERROR(NewSteps(batch, &steps));
    const auto states = NewUninitialized<uint32_t>(keys.size);
    Locate(keys, batch.handles, states.get(), pf);
    state_->rows.ReserveCounts(0, Sightings(batch), *std::max_element(steps.begin(), steps.end()));
    std::vector<NewKey> missing;
    for (int64_t i = 0; i < keys.size; ++i) {
      if (IsRow(states[i])) continue;
      const uint32_t id = state_->IdOf(keys, i), before = states[i];
      const Admission admission = Admit(PendingCount(before), batch.counts == nullptr ? 1 : batch.counts[i],
                                        state_->fields[id].options->min_frequency);
      // UpdateRows adds the batch's own sightings to those before it.
      missing.push_back({keys.keys[i], HashKey(keys.keys[i], id), i, PendingCount(before), steps[id], id, before,
                         admission.admitted ? kEmpty : admission.PendingState()});
    }
    if (!missing.empty()) {
      Insertion insertion(options_, state_.get(), config_.memory, std::move(missing));
      TFB_RETURN_IF_ERROR(insertion.Prepare(/*distinct=*/true, pf));
      insertion.FillRows(RowSource(), pf);
      insertion.Publish(&room_, pf);
      for (const NewKey& key : insertion.keys()) states[key.position] = insertion.RowOf(key);
    }
    for (size_t id = 0; id < steps.size(); ++id) {
      if (steps[id] != 0) state_->fields[id].step = steps[id];
    }
    UpdateRows(batch, states.get(), steps, update, pf);
    Evict(steps);
    return Status();
  });
}

void CpuTable::UpdateRows(const UpdateBatch& batch, const uint32_t* states, const std::vector<int64_t>& steps,
                          RowUpdateFn update, ParallelFor& pf) {
  RowStore& store = state_->rows;
  const int64_t limit = VisitSize(store.layout().stride_bytes);
  const int64_t* const counts = batch.counts;
  const uint32_t* const fields = batch.keys.fields;
  const int64_t one_step = steps[state_->active[batch.keys.field]];  // Where there are no fields.
  pf.Run(batch.keys.size, 20 + store.layout().values() / 4, [&](int64_t begin, int64_t end) {
    Visit visits[2];
    int64_t i = begin;
    visits[0].Fill(store, states, &i, end, limit);
    for (int64_t j = 0; j < visits[0].size; ++j) FetchLine(visits[0].metas[j]);
    for (int turn = 0; visits[turn].size > 0; turn ^= 1) {
      const Visit& visit = visits[turn];
      Visit& next = visits[turn ^ 1];
      next.Fill(store, states, &i, end, limit);
      RoomGuard guard(room_, RoomLock::kWriting);
      for (int64_t j = 0; j < visit.size; ++j) {
        const int64_t place = visit.positions[j];
        RowMeta* meta = visit.Meta(j);
        store.SetCounts({AddSaturating(store.Counts(*meta).frequency, counts == nullptr ? 1 : counts[place]),
                         fields == nullptr ? one_step : steps[state_->active[fields[place]]]},
                        meta);
      }
      update({visit.positions, visit.rows, visit.size, next.Metas()});
    }
  });
}

void CpuTable::Evict(const std::vector<int64_t>& steps) {
  bool any = false;
  for (size_t id = 0; id < steps.size(); ++id) {
    FieldState& field = state_->fields[id];
    if (steps[id] == 0 || !field.queue.enabled()) continue;
    for (int64_t victims = 1; victims > 0 || field.queue.NeedsScan(field.rows, steps[id]); any |= victims > 0) {
      if (field.queue.NeedsScan(field.rows, steps[id])) ScanForVictims();
      victims = EvictSome(static_cast<uint32_t>(id), steps[id]);
    }
  }
  if (!any) return;
  RoomGuard guard(room_, RoomLock::kWriting);
  ++epoch_;
}

int64_t CpuTable::EvictSome(uint32_t id, int64_t step) {
  FieldState& field = state_->fields[id];
  RoomGuard guard(room_, RoomLock::kWriting);
  int64_t victims = 0, key = 0;
  for (; victims < kVictimsPerVisit; ++victims) {
    if (!field.queue.PopVictim(field.rows, step, state_->index, state_->rows, &key)) break;
    const uint64_t hash = HashKey(key, id);
    state_->rows.Free(state_->Remove(hash, state_->index.Find(hash, key, id)));
  }
  field.evicted += victims;
  return victims;
}

// Of all fields at once: it is one pass over the index, whichever field wants it.
void CpuTable::ScanForVictims() {
  for (FieldState& field : state_->fields) field.queue.StartScan();
  const IndexEntry* entries[kMetasAhead];
  int64_t waiting = 0;
  const auto offer = [&] {
    for (int64_t i = 0; i < waiting; ++i) {
      state_->fields[entries[i]->field].queue.Offer(entries[i]->key, state_->rows.Counts(entries[i]->state));
    }
    waiting = 0;
  };
  state_->index.ForEach([&](const IndexEntry& entry) {
    if (!IsRow(entry.state) || !state_->fields[entry.field].queue.enabled()) return;
    FetchLine(state_->rows.Meta(entry.state));
    entries[waiting++] = &entry;
    if (waiting == kMetasAhead) offer();
  });
  offer();
  for (FieldState& field : state_->fields) field.queue.EndScan();
}

}  // namespace tf_booster
