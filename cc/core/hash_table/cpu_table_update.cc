// One training step: count, admit, update, evict.
#include <algorithm>
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

constexpr int64_t kKeysPerVisit = 1024;
constexpr int64_t kMaxGroup = 64;
constexpr int64_t kVictimsPerVisit = 512;

// Rows that are handed to the update at once. While one group is updated the next one is fetched, into the second-level
// cache: see PrefetchRow. Adam through SparseApply, ns a row of dim 16 and of 128: rows and metas into the first level
// 70 and 280, rows alone into the second 45 and 177, both 29 and 160, and with groups of 4 KiB in place of 8 26 and 150
// (2 KiB is as good, 16 KiB is as bad as 8).
int64_t GroupSize(int64_t stride_bytes) { return std::clamp<int64_t>((4 << 10) / stride_bytes, 4, kMaxGroup); }

// Up to kMaxGroup admitted keys.
struct Group {
  int64_t positions[kMaxGroup];
  float* rows[kMaxGroup];
  RowMeta* metas[kMaxGroup];
  int64_t size = 0;

  // Takes the next admitted keys from `*i` on and starts to fetch their rows and metas.
  void Fill(const RowStore& store, const uint32_t* states, int64_t* i, int64_t end, int64_t limit) {
    const int64_t values = store.layout().values();
    for (size = 0; *i < end && size < limit; ++*i) {
      const uint32_t row = states[*i];
      if (!IsRow(row)) continue;
      positions[size] = *i;
      rows[size] = store.Values(row);
      metas[size] = store.Meta(row);
      __builtin_prefetch(metas[size], /*write=*/0, /*locality=*/2);
      PrefetchRow(rows[size], values);
      ++size;
    }
  }
};

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
    std::vector<NewKey> missing;
    for (int64_t i = 0; i < keys.size; ++i) {
      if (IsRow(states[i])) continue;
      const uint32_t id = state_->IdOf(keys, i), before = states[i];
      const Admission admission = Admit(PendingCount(before), batch.counts == nullptr ? 1 : batch.counts[i],
                                        state_->fields[id].options->min_frequency);
      // UpdateRows adds the batch's own sightings to those before it.
      missing.push_back({keys.keys[i], HashKey(keys.keys[i], id), i, PendingCount(before), steps[id], id, before,
                         admission.admitted ? kEmpty : admission.PendingState(), 0});
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
  const RowStore& store = state_->rows;
  const int64_t limit = GroupSize(store.layout().stride_bytes);
  pf.Run(batch.keys.size, 20 + store.layout().values() / 4, [&](int64_t begin, int64_t end) {
    Group groups[2];
    for (int64_t visit = begin; visit < end; visit += kKeysPerVisit) {
      RoomGuard guard(room_, RoomLock::kWriting);
      const int64_t visit_end = std::min(end, visit + kKeysPerVisit);
      int64_t i = visit;
      groups[0].Fill(store, states, &i, visit_end, limit);
      for (int turn = 0; groups[turn].size > 0; turn ^= 1) {
        groups[turn ^ 1].Fill(store, states, &i, visit_end, limit);
        const Group& group = groups[turn];
        for (int64_t j = 0; j < group.size; ++j) {
          RowMeta* meta = group.metas[j];
          meta->frequency =
              AddSaturating(meta->frequency, batch.counts == nullptr ? 1 : batch.counts[group.positions[j]]);
          meta->last_step = steps[meta->field];
        }
        update(group.positions, group.rows, group.size);
      }
    }
  });
}

void CpuTable::Evict(const std::vector<int64_t>& steps) {
  bool any = false;
  for (size_t id = 0; id < steps.size(); ++id) {
    FieldState& field = state_->fields[id];
    if (steps[id] == 0 || !field.queue.enabled()) continue;
    bool more = true;
    while (more) {
      RoomGuard guard(room_, RoomLock::kWriting);
      for (int64_t n = 0; more && n < kVictimsPerVisit; ++n) {
        const uint32_t row = field.queue.PopVictim(field.rows, steps[id], state_->rows);
        more = row != 0;
        if (!more) break;
        const RowMeta& meta = *state_->rows.Meta(row);
        const uint64_t hash = HashKey(meta.key, meta.field);
        state_->Remove(hash, state_->index.Find(hash, meta.key, meta.field));
        state_->rows.Free(row);
        ++field.evicted;
        any = true;
      }
    }
  }
  if (!any) return;
  RoomGuard guard(room_, RoomLock::kWriting);
  ++epoch_;
}

}  // namespace tf_booster
