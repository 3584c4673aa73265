// Fields in: Import, and what exchanges a field as a whole.
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

constexpr int64_t kEntriesPerVisit = 4096;

}  // namespace

Status CpuTable::Import(const std::vector<ContentsIn>& contents, ParallelFor& pf) {
  std::vector<uint32_t> fields;
  for (const ContentsIn& in : contents) fields.push_back(in.field);
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Import"));
  for (const ContentsIn& in : contents) TFB_RETURN_IF_ERROR(CheckContents(options_, in));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded(
      [&] { return fields.size() == state_->num_fields ? ImportAll(contents, pf) : ImportSome(contents, pf); });
}

// Into a new state: what the table had is given back to the system.
Status CpuTable::ImportAll(const std::vector<ContentsIn>& contents, ParallelFor& pf) {
  std::unique_ptr<TableState> state = NewState();
  std::vector<uint32_t> ids;
  for (const ContentsIn& in : contents) ids.push_back(state->active[in.field]);
  RoomLock nobody_reads_yet;
  TFB_RETURN_IF_ERROR(Enter(contents, ids, state.get(), &nobody_reads_yet, pf));
  RoomGuard guard(room_, RoomLock::kWriting);
  state_.swap(state);
  ++epoch_;
  return Status();
}

Status CpuTable::ImportSome(const std::vector<ContentsIn>& contents, ParallelFor& pf) {
  std::vector<uint32_t> fields, ids;
  for (const ContentsIn& in : contents) {
    fields.push_back(in.field);
    ids.push_back(state_->OtherId(state_->active[in.field]));
  }
  TFB_RETURN_IF_ERROR(Enter(contents, ids, state_.get(), &room_, pf));
  Exchange(fields);
  return Status();
}

Status CpuTable::Enter(const std::vector<ContentsIn>& contents, const std::vector<uint32_t>& ids, TableState* state,
                       RoomLock* room, ParallelFor& pf) {
  std::vector<RowSource> sources(state->fields.size());
  std::vector<NewKey> keys;
  int64_t total = 0;
  for (const ContentsIn& in : contents) total += in.rows + in.pending;
  keys.reserve(total);
  for (size_t c = 0; c < contents.size(); ++c) {
    const ContentsIn& in = contents[c];
    const uint32_t id = ids[c];
    const FieldState& before = state_->fields[state_->active[in.field]];
    state->fields[id].Start(in.seed.value_or(before.seed), in.step, before.evicted);
    sources[id] = {in.values, &in.slots};
    for (int64_t i = 0; i < in.rows; ++i) {
      keys.push_back({in.keys[i], i, in.frequencies == nullptr ? 1 : in.frequencies[i],
                      in.last_steps == nullptr ? in.step : in.last_steps[i], id, kEmpty, kEmpty});
    }
    for (int64_t i = 0; i < in.pending; ++i) {
      keys.push_back(
          {in.pending_keys[i], i, 0, 0, id, kEmpty, kPendingFlag + static_cast<uint32_t>(in.pending_counts[i])});
    }
  }
  Insertion insertion(options_, state, config_.memory, std::move(keys));
  TFB_RETURN_IF_ERROR(insertion.Prepare(/*distinct=*/true, pf));
  insertion.FillRows(sources, pf);
  insertion.Publish(room, pf);
  return Status();
}

void CpuTable::Exchange(const std::vector<uint32_t>& fields) {
  TableState& state = *state_;
  int64_t left = 0;
  {
    RoomGuard guard(room_, RoomLock::kWriting);
    for (const uint32_t field : fields) {
      const uint32_t old_id = state.active[field];
      left += state.fields[old_id].rows + state.fields[old_id].pending;
      state.active[field] = state.OtherId(old_id);
    }
    ++epoch_;  // Handles would lead to the old rows.
  }
  const auto is_old = [&](uint32_t id) { return state.active[state.FieldOf(id)] != id; };
  for (int s = 0; left > 0 && s < kStripes; ++s) {
    for (int64_t begin = 0; begin < state.index.stripe_capacity(s); begin += kEntriesPerVisit) {
      RoomGuard guard(room_, RoomLock::kWriting);
      const int64_t end = std::min(begin + kEntriesPerVisit, state.index.stripe_capacity(s));
      state.index.ForEachOfPart(s, begin, end, [&](IndexEntry* entry) {
        if (!is_old(entry->field)) return;
        const uint32_t row = state.Remove(HashKey(entry->key, entry->field), entry);
        if (row != 0) state.rows.Free(row);
        --left;
      });
    }
  }
  for (const uint32_t field : fields) state.fields[state.OtherId(state.active[field])].queue.Clear();
}

}  // namespace tf_booster
