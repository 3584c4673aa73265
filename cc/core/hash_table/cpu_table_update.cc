// One training step: count, admit, update, evict.
#include <algorithm>
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

// Keys that are handed to the update at once. While they are updated the metas of the next ones are fetched (metas
// before their own rows, at the speed of the misses, cost Adam of dim 16 5 ns a row more), and at the end the first
// rows of those: so memory works while the next list is made and counted. With 1024 keys a visit, or 256 KiB of rows,
// and every visit's first rows fetched by itself, Adam took 24.7, 67 and 110 ns a row at dims 16, 64 and 128 in place
// of 20.6, 60 and 106; 128 keys are as good as 64.
constexpr int64_t kVisit = 64;
constexpr int64_t kVictimsPerVisit = 512;
constexpr int64_t kMetasAhead = 64;  // Of a scan for victims: their misses are under way at once.

// The next admitted keys of a part of a batch: those of a visit, and behind them those of the visit after it.
class AdmittedKeys {
 public:
  AdmittedKeys(const RowStore& store, const uint32_t* states, const int64_t* counts, int64_t begin, int64_t end)
      : store_(store), states_(states), counts_(counts), next_(begin), end_(end) {
    Fill();
  }

  // Moves on to the visit behind the present one.
  void Advance() {
    begin_ += size();
    if (begin_ + 2 * kVisit > kRoom) {
      const auto move = [&](auto* array) { std::copy(array + begin_, array + filled_, array); };
      move(positions_);
      move(rows_);
      move(metas_);
      filled_ -= begin_;
      begin_ = 0;
    }
    Fill();
  }

  int64_t size() const { return std::min(filled_ - begin_, kVisit); }
  int64_t following() const { return filled_ - begin_ - size(); }
  const int64_t* positions() const { return positions_ + begin_; }
  float* const* rows() const { return rows_ + begin_; }
  RowMeta* Meta(int64_t j) const { return static_cast<RowMeta*>(metas_[begin_ + j]); }
  LinesAhead FollowingMetas() const { return {metas_ + begin_ + size(), following()}; }

 private:
  static constexpr int64_t kRoom = 8 * kVisit;

  void Fill() {
    // In registers, which members are not: stores to the arrays may change them.
    int64_t next = next_, filled = filled_;
    for (; next < end_ && filled < begin_ + 2 * kVisit; ++next) {
      const uint32_t row = states_[next];
      if (!IsRow(row)) continue;
      positions_[filled] = next;
      rows_[filled] = store_.Values(row);
      metas_[filled] = store_.Meta(row);
      ++filled;
    }
    if (counts_ != nullptr) {
      // Those of the visit behind, for the processor's prefetcher loses them between two visits: Adam of dim 16 takes 1
      // ns a row less on Granite Rapids. (There all counting costs 5 to 6 of 39 ns. Blocks of eight rows, each with the
      // line of its metas behind it, were no faster: 39.1 where metas in arrays of their own took 38.4.)
      for (int64_t i = next; i < std::min(end_, next + kVisit); i += 8) FetchLine(counts_ + i);
    }
    next_ = next;
    filled_ = filled;
  }

  const RowStore& store_;
  const uint32_t* const states_;
  const int64_t* const counts_;
  int64_t next_;
  const int64_t end_;
  int64_t begin_ = 0, filled_ = 0;
  int64_t positions_[kRoom];
  float* rows_[kRoom];
  void* metas_[kRoom];  // RowMeta, as LinesAhead wants them.
};

// Whether all keys have a row, as almost always. Without a branch for each.
bool AllRows(const uint32_t* states, int64_t size) {
  uint32_t others = 0;
  for (int64_t i = 0; i < size; ++i) others |= !IsRow(states[i]);
  return others == 0;
}

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
  int64_t sightings = 0;
  TFB_RETURN_IF_ERROR(CheckCounts(options_, batch, &sightings));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    const KeyBatch& keys = batch.keys;
    std::vector<int64_t> steps;
    TFB_RETURN_IF_ERROR(NewSteps(batch, &steps));
    const auto states = NewUninitialized<uint32_t>(keys.size);
    // Keys that the lookup did not know are entered without being probed for, and found there if others entered them.
    const bool direct = batch.handles != nullptr && admits_all_;
    Locate(keys, batch.handles, /*probe_unknown=*/!direct, states.get(), pf);
    state_->rows.ReserveCounts(0, sightings, *std::max_element(steps.begin(), steps.end()));
    bool all_rows = AllRows(states.get(), keys.size);
    if (!all_rows && direct) {
      if (InsertWithoutRow(keys, {nullptr, /*frequency=*/0}, /*of_update=*/true, states.get(), pf)) {
        all_rows = true;
      } else {
        Locate(keys, batch.handles, /*probe_unknown=*/true, states.get(), pf);
      }
    }
    std::vector<NewKey> missing;
    for (int64_t i = all_rows ? keys.size : 0; i < keys.size; ++i) {
      if (IsRow(states[i])) continue;
      const uint32_t id = state_->IdOf(keys, i), before = states[i];
      const Admission admission = Admit(PendingCount(before), batch.counts == nullptr ? 1 : batch.counts[i],
                                        state_->fields[id].options->min_frequency);
      // UpdateRows adds the batch's own sightings to those before it.
      missing.push_back({keys.keys[i], i, PendingCount(before), steps[id], id, before,
                         admission.admitted ? kEmpty : admission.PendingState()});
    }
    if (!missing.empty()) {
      Insertion insertion(options_, state_.get(), config_.memory, std::move(missing));
      TFB_RETURN_IF_ERROR(insertion.Prepare(Repeats::kRefused, pf));
      insertion.FillRows(RowSource(), pf);
      insertion.Publish(&room_, pf);
      for (const NewKey& key : insertion.keys()) states[key.position] = insertion.RowOf(key);
    }
    for (size_t id = 0; id < steps.size(); ++id) {
      if (steps[id] != 0) state_->fields[id].step = steps[id];
    }
    UpdateRows(batch, states.get(), steps, update, pf);
    Evict(steps);
    try {
      row_swap_.AfterUpdate(keys, states.get(), state_.get(), &room_, &epoch_);
    } catch (const std::bad_alloc&) {  // The step is done; rows move in another turn.
    }
    return Status();
  });
}

void CpuTable::UpdateRows(const UpdateBatch& batch, const uint32_t* states, const std::vector<int64_t>& steps,
                          RowUpdateFn update, ParallelFor& pf) {
  RowStore& store = state_->rows;
  const int64_t* const counts = batch.counts;
  const uint32_t* const fields = state_->active.size() > 1 ? batch.keys.fields : nullptr;
  const int64_t one_step = steps[state_->active[batch.keys.field]];  // Where there are no fields.
  pf.Run(batch.keys.size, 20 + store.layout().values() / 4, [&](int64_t begin, int64_t end) {
    AdmittedKeys keys(store, states, counts, begin, end);
    for (int64_t j = 0; j < keys.size(); ++j) FetchLine(keys.Meta(j));
    for (bool first = true; keys.size() > 0; keys.Advance(), first = false) {
      const int64_t size = keys.size();
      RoomGuard guard(room_, RoomLock::kWriting);
      for (int64_t j = 0; j < size; ++j) {
        const int64_t place = keys.positions()[j];
        store.AddSightings(counts == nullptr ? 1 : counts[place],
                           fields == nullptr ? one_step : steps[state_->active[fields[place]]], keys.Meta(j));
      }
      update({keys.positions(), keys.rows(), size, keys.following(), first, keys.FollowingMetas()});
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
  const LeftKeysRing& left = left_keys_[state_->FieldOf(id)].ring;
  RoomGuard guard(room_, RoomLock::kWriting);
  int64_t victims = 0, key = 0;
  for (; victims < kVictimsPerVisit; ++victims) {
    if (!field.queue.PopVictim(field.rows, step, state_->index, state_->rows, &key)) break;
    const uint64_t hash = HashKey(key, id);
    state_->rows.Free(state_->Remove(hash, state_->index.Find(hash, key, id)));
    if (left.size > 0) left.keys[(field.evicted + victims) % left.size] = key;
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
