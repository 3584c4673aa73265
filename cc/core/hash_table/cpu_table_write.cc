// The writers that users call by name: FindOrInsert, InsertOrAssign, Erase.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "cc/core/hash_table/cpu_table_impl.h"
#include "cc/core/hash_table/early_insertion.h"
#include "cc/core/hash_table/row_copy.h"
#include "cc/core/hash_table/shared_insertion.h"

namespace tf_booster {
namespace {

constexpr int64_t kKeysPerVisit = 2048;
// So few keys are not worth a second thread.
constexpr int64_t kKeysForOneThread = 2048;

// Places of a batch, sorted by the stripe of their key and then by place: equal keys meet in one thread, in batch
// order.
struct ByStripe {
  std::vector<int64_t> places;
  std::array<int64_t, kStripes + 1> begin{};

  ByStripe(const TableState& state, const KeyBatch& keys) : places(keys.size) {
    const auto stripe = [&](int64_t i) { return StripeOf(HashKey(keys.keys[i], state.IdOf(keys, i))); };
    for (int64_t i = 0; i < keys.size; ++i) ++begin[stripe(i) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::array<int64_t, kStripes> next;
    for (int s = 0; s < kStripes; ++s) next[s] = begin[s];
    for (int64_t i = 0; i < keys.size; ++i) places[next[stripe(i)]++] = i;
  }

  // Calls visit(place) for all places, each stripe's in order by one thread, in the writing room.
  template <class Visit>
  void ForEach(RoomLock& room, int64_t cost_ns, ParallelFor& pf, Visit visit) const {
    pf.Run(kStripes, cost_ns * static_cast<int64_t>(places.size()) / kStripes + 1, [&](int64_t first, int64_t last) {
      for (int64_t p = begin[first]; p < begin[last]; p += kKeysPerVisit) {
        RoomGuard guard(room, RoomLock::kWriting);
        for (int64_t q = p; q < std::min(begin[last], p + kKeysPerVisit); ++q) visit(places[q]);
      }
    });
  }
};

// Calls visit(part, begin, end) for the parts of a batch, on pf's threads.
template <class Visit>
void ForParts(int64_t batch, int64_t cost_ns, ParallelFor& pf, Visit visit) {
  constexpr int64_t kPart = MissingKeys::kPart;
  pf.Run((batch + kPart - 1) / kPart, cost_ns * std::min(batch, kPart), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) visit(p, p * kPart, std::min(batch, (p + 1) * kPart));
  });
}

// Places in [begin, end) whose key has no row, less `begin`.
int64_t PlacesWithoutRow(const uint32_t* states, int64_t begin, int64_t end, uint32_t* places) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) {
    places[count] = static_cast<uint32_t>(i - begin);
    count += !IsRow(states[i]);
  }
  return count;
}

}  // namespace

void CpuTable::LocateByHandles(const KeyBatch& keys, const RowHandle* handles, bool probe_unknown, int64_t begin,
                               int64_t end, uint32_t* states) const {
  constexpr int64_t kChunk = 512;
  int64_t places[kChunk], stale_keys[kChunk];
  uint32_t stale_fields[kChunk], stale_states[kChunk];
  const FreshRows fresh_row(epoch_, state_->readable_end);
  for (; begin < end; begin += kChunk) {
    const int64_t chunk_end = std::min(end, begin + kChunk);
    uint32_t any_stale = 0;  // Almost always there is none, and keys need not be looked at.
    for (int64_t i = begin; i < chunk_end; ++i) {
      states[i] = fresh_row(handles[i]);
      any_stale |= states[i] == 0;
    }
    if (any_stale == 0) continue;
    KeyBatch stale = {stale_keys, stale_fields, 0};
    for (int64_t i = begin; i < chunk_end; ++i) {
      places[stale.size] = i;
      stale_keys[stale.size] = keys.keys[i];
      stale_fields[stale.size] = FieldOf(keys, i);
      stale.size += states[i] == 0 && (probe_unknown || handles[i] != kNoRow);
    }
    LocatePart(*state_, stale, 0, stale.size, stale_states);
    for (int64_t j = 0; j < stale.size; ++j) states[places[j]] = stale_states[j];
  }
}

void CpuTable::Locate(const KeyBatch& keys, const RowHandle* handles, bool probe_unknown, uint32_t* states,
                      ParallelFor& pf) const {
  pf.Run(keys.size, 10, [&](int64_t begin, int64_t end) {
    if (handles == nullptr) {
      LocatePart(*state_, keys, begin, end, states);
    } else {
      LocateByHandles(keys, handles, probe_unknown, begin, end, states);
    }
  });
}

Status CpuTable::InsertMissing(const KeyBatch& keys, const float* values, uint32_t* states, const MissingKeys& parts,
                               bool give_rows, ParallelFor& pf) {
  std::vector<int64_t> first(parts.num_parts() + 1, 0);
  std::partial_sum(parts.counts.begin(), parts.counts.end(), first.begin() + 1);
  if (first.back() == 0) return Status();
  std::vector<NewKey> missing(first.back());
  std::vector<int64_t> steps;
  for (const FieldState& field : state_->fields) steps.push_back(field.step);
  pf.Run(parts.num_parts(), 1 + 10 * first.back() / parts.num_parts(), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t j = 0; j < parts.counts[p]; ++j) {
        const int64_t i = p * parts.kPart + parts.places[p * parts.kPart + j];
        const uint32_t id = state_->IdOf(keys, i);
        missing[first[p] + j] = {keys.keys[i], i, 1, steps[id], id, states == nullptr ? kEmpty : states[i], kEmpty};
      }
    }
  });
  Insertion insertion(options_, state_.get(), config_.memory, std::move(missing));
  TFB_RETURN_IF_ERROR(insertion.Prepare(Repeats::kAllowed, pf));
  insertion.FillRows(RowSource{values, nullptr}, pf);
  insertion.Publish(&room_, pf);
  if (!give_rows) return Status();
  for (const NewKey& key : insertion.keys()) states[key.position] = insertion.RowOf(key);
  return Status();
}

bool CpuTable::InsertAsFound(const KeyBatch& keys, float* out, CertainRoom* space) {
  EarlyInsertion insertion(options_, state_.get(), &room_, keys, out, space);
  const int64_t part = std::min(keys.size, EarlyInsertion::PartSize(options_.dim));
  const auto missing = NewUninitialized<uint32_t>(part);
  for (int64_t begin = 0; begin < keys.size; begin += part) {
    const int64_t end = std::min(keys.size, begin + part);
    const int64_t count = FindPart(*state_, keys, begin, end, out, nullptr, nullptr, missing.get());
    if (insertion.Add(begin, missing.get(), count)) continue;
    if (insertion.Undo()) {
      RoomGuard guard(room_, RoomLock::kWriting);
      ++epoch_;
    }
    return false;
  }
  insertion.Finish(config_.memory);
  return true;
}

bool CpuTable::InsertWithoutRow(const KeyBatch& keys, const NewRows& start, bool of_update, uint32_t* states,
                                ParallelFor& pf) {
  CertainRoom space(state_.get(), config_.memory);
  if (!space.MayHave(1)) return false;
  MissingKeys missing(keys.size);
  SharedInsertion insertion(options_, state_.get(), &room_, keys, start, missing);
  ForParts(keys.size, 1, pf, [&](int64_t p, int64_t begin, int64_t end) {
    missing.counts[p] = PlacesWithoutRow(states, begin, end, missing.places.get() + begin);
    insertion.Sort(p);
  });
  if (!space.Take(insertion.CountStripes()) || !insertion.Enter(of_update, pf)) return false;
  insertion.Complete(config_.memory, states, pf);
  return true;
}

Status CpuTable::FindOrInsert(const KeyBatch& keys, float* out, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  std::lock_guard<std::mutex> lock(writer_);
  edits_.NoteAll();
  return Guarded([&] {
    CertainRoom space(state_.get(), config_.memory);
    const bool alone = pf.num_threads() == 1 || keys.size <= kKeysForOneThread;
    const bool room = space.MayHave(1);
    if (alone && room && InsertAsFound(keys, out, &space)) return Status();
    const bool shared = !alone && room;
    const auto states = NewUninitialized<uint32_t>(shared ? 0 : keys.size);
    uint32_t* const before = shared ? nullptr : states.get();
    MissingKeys missing(keys.size);
    std::unique_ptr<SharedInsertion> insertion;
    if (shared) insertion.reset(new SharedInsertion(options_, state_.get(), &room_, keys, {out}, missing));
    ForParts(keys.size, 20 + options_.dim / 4, pf, [&](int64_t p, int64_t begin, int64_t end) {
      missing.counts[p] = FindPart(*state_, keys, begin, end, out, nullptr, before, missing.places.get() + begin);
      if (shared) insertion->Sort(p);
    });
    if (shared && space.Take(insertion->CountStripes())) {
      insertion->Enter(/*of_update=*/false, pf);
      insertion->Complete(config_.memory, nullptr, pf);
      return Status();
    }
    // `out` has the initial values already.
    return InsertMissing(keys, out, before, missing, /*give_rows=*/false, pf);
  });
}

void CpuTable::AssignInOrder(const float* values, const uint32_t* states, int64_t size) {
  constexpr int64_t kAhead = 24;
  const int64_t dim = options_.dim;
  const auto row = [&](int64_t i) { return state_->rows.Values(states[i]); };
  for (int64_t i = 0; i < std::min(kAhead, size); ++i) PrefetchRow(row(i), dim);
  for (int64_t visit = 0; visit < size; visit += kKeysPerVisit) {
    RoomGuard guard(room_, RoomLock::kWriting);
    for (int64_t i = visit; i < std::min(size, visit + kKeysPerVisit); ++i) {
      if (i + kAhead < size) PrefetchRow(row(i + kAhead), dim);
      std::memcpy(row(i), values + i * dim, dim * sizeof(float));
    }
  }
}

Status CpuTable::InsertOrAssign(const KeyBatch& keys, const float* values, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  std::lock_guard<std::mutex> lock(writer_);
  edits_.NoteAll();
  return Guarded([&] {
    const auto states = NewUninitialized<uint32_t>(keys.size);
    Locate(keys, nullptr, /*probe_unknown=*/true, states.get(), pf);
    if (!InsertWithoutRow(keys, {values}, /*of_update=*/false, states.get(), pf)) {
      MissingKeys missing(keys.size);
      ForParts(keys.size, 1, pf, [&](int64_t p, int64_t begin, int64_t end) {
        missing.counts[p] = PlacesWithoutRow(states.get(), begin, end, missing.places.get() + begin);
      });
      TFB_RETURN_IF_ERROR(InsertMissing(keys, values, states.get(), missing, /*give_rows=*/true, pf));
    }
    if (pf.num_threads() == 1 || keys.size <= kKeysForOneThread) {
      AssignInOrder(values, states.get(), keys.size);
      return Status();
    }
    const ByStripe by_stripe(*state_, keys);
    const int64_t dim = options_.dim;
    by_stripe.ForEach(room_, 20 + dim / 4, pf, [&](int64_t i) {
      std::memcpy(state_->rows.Values(states[i]), values + i * dim, dim * sizeof(float));
    });
    return Status();
  });
}

Status CpuTable::Erase(const KeyBatch& keys, int64_t* erased, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  std::lock_guard<std::mutex> lock(writer_);
  edits_.NoteAll();
  return Guarded([&] {
    const ByStripe by_stripe(*state_, keys);
    const auto rows = NewUninitialized<uint32_t>(keys.size);
    by_stripe.ForEach(room_, 50, pf, [&](int64_t i) {
      const uint32_t id = state_->IdOf(keys, i);
      const uint64_t hash = HashKey(keys.keys[i], id);
      IndexEntry* entry = state_->index.Find(hash, keys.keys[i], id);
      rows[i] = entry == nullptr ? 0 : state_->Remove(hash, entry);
    });
    int64_t count = 0;
    RoomGuard guard(room_, RoomLock::kWriting);
    for (int64_t i = 0; i < keys.size; ++i) {
      if (rows[i] == 0) continue;
      state_->rows.Free(rows[i]);
      ++count;
    }
    epoch_ += count > 0;
    if (erased != nullptr) *erased = count;
    return Status();
  });
}

}  // namespace tf_booster
