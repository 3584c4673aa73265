// Fields in: ImportPieces, and what exchanges a field as a whole.
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

constexpr int64_t kEntriesPerVisit = 4096;

}  // namespace

Status CpuTable::ImportPieces(const std::vector<ContentsSource>& sources, ParallelFor& pf) {
  std::vector<uint32_t> fields;
  for (const ContentsSource& source : sources) fields.push_back(source.field);
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Import"));
  std::lock_guard<std::mutex> lock(writer_);
  for (const uint32_t field : fields) edits_.Note(field);
  return Guarded(
      [&] { return fields.size() == state_->num_fields ? ImportAll(sources, pf) : ImportSome(sources, pf); });
}

// Into a new state: what the table had is given back to the system.
Status CpuTable::ImportAll(const std::vector<ContentsSource>& sources, ParallelFor& pf) {
  std::unique_ptr<TableState> state = NewState();
  std::vector<uint32_t> ids;
  for (const ContentsSource& source : sources) ids.push_back(state->active[source.field]);
  RoomLock nobody_reads_yet;
  TFB_RETURN_IF_ERROR(Enter(sources, ids, state.get(), &nobody_reads_yet, pf));
  RoomGuard guard(room_, RoomLock::kWriting);
  state_.swap(state);
  ++epoch_;
  return Status();
}

Status CpuTable::ImportSome(const std::vector<ContentsSource>& sources, ParallelFor& pf) {
  std::vector<uint32_t> fields, ids;
  for (const ContentsSource& source : sources) {
    fields.push_back(source.field);
    ids.push_back(state_->OtherId(state_->active[source.field]));
  }
  const Status status = Guarded([&] { return Enter(sources, ids, state_.get(), &room_, pf); });
  if (status.ok()) Exchange(fields);
  RemoveInactive(fields);
  return status;
}

Status CpuTable::Enter(const std::vector<ContentsSource>& sources, const std::vector<uint32_t>& ids, TableState* state,
                       RoomLock* room, ParallelFor& pf) {
  for (size_t c = 0; c < sources.size(); ++c) {
    const ContentsSource& source = sources[c];
    const FieldState& before = state_->fields[state_->active[source.field]];
    state->fields[ids[c]].Start(source.seed.value_or(before.seed), source.step, before.evicted);
    Repeats repeats = Repeats::kRefused;
    ContentsIn piece;
    for (;;) {
      TFB_RETURN_IF_ERROR(NextPiece(options_, source, &piece));
      if (piece.rows + piece.pending == 0) break;
      TFB_RETURN_IF_ERROR(EnterPiece(piece, ids[c], repeats, state, room, pf));
      repeats = Repeats::kRefusedInTable;
    }
  }
  return Status();
}

Status CpuTable::EnterPiece(const ContentsIn& piece, uint32_t id, Repeats repeats, TableState* state, RoomLock* room,
                            ParallelFor& pf) {
  std::vector<NewKey> keys;
  keys.reserve(piece.rows + piece.pending);
  for (int64_t i = 0; i < piece.rows; ++i) {
    keys.push_back({piece.keys[i], i, piece.frequencies == nullptr ? 1 : piece.frequencies[i],
                    piece.last_steps == nullptr ? piece.step : piece.last_steps[i], id, kEmpty, kEmpty});
  }
  for (int64_t i = 0; i < piece.pending; ++i) {
    keys.push_back(
        {piece.pending_keys[i], i, 0, 0, id, kEmpty, kPendingFlag + static_cast<uint32_t>(piece.pending_counts[i])});
  }
  Insertion insertion(options_, state, config_.memory, std::move(keys));
  TFB_RETURN_IF_ERROR(insertion.Prepare(repeats, pf));
  insertion.FillRows(RowSource{piece.values, &piece.slots}, pf);
  insertion.Publish(room, pf);
  return Status();
}

void CpuTable::Exchange(const std::vector<uint32_t>& fields) {
  TableState& state = *state_;
  RoomGuard guard(room_, RoomLock::kWriting);
  for (const uint32_t field : fields) state.active[field] = state.OtherId(state.active[field]);
  ++epoch_;  // Handles would lead to the old rows.
}

void CpuTable::RemoveInactive(const std::vector<uint32_t>& fields) {
  TableState& state = *state_;
  int64_t left = 0;
  for (const uint32_t field : fields) {
    const FieldState& old = state.fields[state.OtherId(state.active[field])];
    left += old.rows + old.pending;
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
