// How a batch's new keys get into a table on the card. As on the host, all that can fail comes before anything is seen:
//
//   Claim      finds each key's row, or claims a vacancy, or claims its pending entry
//   Resolve    which place of the batch owns each claim (the first with that key), and whether it gets a row
//   (sum)      over the owners that get one: the rank of each, in batch order
//              here the host may stop and ask for slabs, and the batch may still be taken back by Unclaim
//   Publish    rows by rank, metas, entries; Spread tells equal keys; Fill writes the rows, by rank; Commit the
//   counters
//
// So row numbers follow from the batch alone, whatever the scheduling; where in the index a key stands does not, and
// nothing depends on that.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_INSERT_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_INSERT_BODIES_H_

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

inline constexpr uint32_t kNoPlace = 0xFFFFFFFFu;

// Of each key of a batch, in scratch memory.
struct InsertArrays {
  uint32_t* rows = nullptr;           // Its row, in the end; 0 for a pending key.
  const uint32_t* places = nullptr;   // The row that has its values while the batch is under way (disk_bodies.h).
  uint64_t* entries = nullptr;        // Of those that claim: the entry; else all ones.
  uint32_t* owners = nullptr;         // The first place with this key, of those that claim.
  int32_t* gets_row = nullptr;        // 1 for owners that are admitted,
  int32_t* ranks = nullptr;           // and the inclusive sum of these.
  uint32_t* new_places = nullptr;     // The owner of each rank.
  uint32_t* before = nullptr;         // Of an owner whose key was pending: the entry's state then; else 0.
  uint64_t* listed = nullptr;         // The pending entries that were claimed, in any order,
  uint32_t* listed_states = nullptr;  // and their states. Null where the table has no pending keys.
};
inline constexpr uint64_t kNoEntry = ~uint64_t{0};

// What the batch's keys are inserted as. All null: admitted at once, with frequency 1.
struct InsertRule {
  bool filter = false;                      // Keys pass the admission filter,
  const int64_t* counts = nullptr;          // seen so often, or once; and their frequency starts at what was before.
  const int64_t* frequencies = nullptr;     // Or so.
  const int64_t* last_steps = nullptr;      // Null: the field's step.
  const int64_t* pending_counts = nullptr;  // No key is admitted; it was seen so often.
  bool may_repeat = true;                   // Equal keys of the batch get one row.
  bool distinct = false;                    // Of two equal keys of the batch one is reported.
  bool absent = false;                      // As is one that the table has.
};

struct InsertBody {
  DeviceState state;
  DeviceKeys keys;
  InsertArrays batch;
  InsertRule rule;

  TFB_HOST_DEVICE void ReportDuplicate(int64_t i) const {
    RaiseTo(&state.counters->duplicate, static_cast<uint64_t>(i) + 1);
  }
  TFB_HOST_DEVICE bool Owns(int64_t i) const {
    return batch.entries[i] != kNoEntry && batch.owners[i] == static_cast<uint32_t>(i);
  }
  TFB_HOST_DEVICE uint32_t RowOfRank(uint64_t rank) const {
    const uint64_t free = state.counters->free;
    return rank < free ? *state.rows.FreeRow(free - 1 - rank)
                       : static_cast<uint32_t>(state.counters->end + rank - free);
  }
};

// Unit: a key.
struct Claim : InsertBody {
  DeviceHandles handles;
  Claim(const InsertBody& body, const DeviceHandles& h) : InsertBody(body), handles(h) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t id = keys.IdOf(state, i);
    uint32_t row = handles.FreshRow(state, i);
    uint64_t entry = kNoEntry;
    if (row == 0 && id != kNoField) {
      entry = ClaimEntry(keys.keys[i], id, static_cast<uint32_t>(i), &row);
      if (row != 0 && rule.absent) ReportDuplicate(i);
    }
    batch.rows[i] = row;
    batch.entries[i] = entry;
  }

  // The entry that the key has a claim on; or kNoEntry, and its row.
  TFB_HOST_DEVICE uint64_t ClaimEntry(int64_t key, uint32_t id, uint32_t place, uint32_t* row) const {
    const auto is_ours = [&](const DeviceEntry& entry) {
      const uint32_t low = LowOf(entry.tag);
      if (IsLive(StateOf(entry.tag))) return entry.key == static_cast<uint64_t>(key) && low == id;
      return IsClaimed(entry.tag) && keys.keys[low] == key && keys.IdOf(state, low) == id;
    };
    for (;;) {  // Until a compare-and-swap succeeds; each failure is some other key's success.
      const Probe probe = ProbeFor<true>(state.index, HashKey(key, id), is_ours);
      if (probe.entry >= 0 && IsRow(StateOf(probe.tag))) {
        *row = StateOf(probe.tag);
        return kNoEntry;
      }
      const int64_t entry = probe.entry >= 0 ? probe.entry : probe.vacancy;
      const uint64_t seen = probe.entry >= 0 ? probe.tag : probe.vacant;
      if (Take(entry, seen, place)) return static_cast<uint64_t>(entry);
    }
  }

  // Claims an entry whose tag was seen to be `seen`, or lowers the place of a claim on it. Whether it did.
  TFB_HOST_DEVICE bool Take(int64_t entry, uint64_t seen, uint32_t place) const {
    uint64_t* tag = &state.index.entries[entry].tag;
    if (IsClaimed(seen)) {
      while (LowOf(seen) > place) {
        const uint64_t now = AtomicCompareExchange(tag, seen, MakeTag(place, StateOf(seen)));
        if (now == seen) break;
        seen = now;  // Claimed by the same key still.
      }
      return true;
    }
    const uint32_t before = StateOf(seen);
    const uint32_t claimed = IsPending(before) ? kClaimedPending : before == kEmpty ? kClaimedEmpty : kClaimedTombstone;
    if (AtomicCompareExchange(tag, seen, MakeTag(place, claimed)) != seen) return false;
    if (IsPending(before)) {
      const uint64_t k = AtomicAdd(&state.counters->listed, uint64_t{1});
      batch.listed[k] = static_cast<uint64_t>(entry);
      batch.listed_states[k] = before;
    }
    return true;
  }
};

// Unit: a place of the list of pending entries.
struct WriteBefore : InsertBody {
  explicit WriteBefore(const InsertBody& body) : InsertBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t k) const {
    if (static_cast<uint64_t>(k) >= state.counters->listed) return;
    batch.before[LowOf(state.index.entries[batch.listed[k]].tag)] = batch.listed_states[k];
  }
};

// What becomes of an owner's key.
TFB_HOST_DEVICE Admission AdmissionOf(const InsertBody& body, int64_t i) {
  if (body.rule.pending_counts != nullptr) return {false, body.rule.pending_counts[i]};
  if (!body.rule.filter) return {true, 1};
  return Admit(PendingCount(body.batch.before[i]), body.rule.counts == nullptr ? 1 : body.rule.counts[i],
               body.state.fields[body.keys.IdOf(body.state, i)].min_frequency);
}

// Unit: a key.
struct Resolve : InsertBody {
  explicit Resolve(const InsertBody& body) : InsertBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    batch.gets_row[i] = 0;
    if (batch.entries[i] == kNoEntry) return;
    const uint32_t owner = LowOf(state.index.entries[batch.entries[i]].tag);
    batch.owners[i] = owner;
    if (owner != static_cast<uint32_t>(i)) {
      if (rule.distinct) ReportDuplicate(i);
      return;
    }
    if (rule.absent && batch.before[i] != 0) ReportDuplicate(i);
    if (!AdmissionOf(*this, i).admitted) return;
    batch.gets_row[i] = 1;
    CountAt(state.batch_rows, keys.IdOf(state, i), 1);
  }
};

// Unit: a key. The table as it was before Claim.
struct Unclaim : InsertBody {
  explicit Unclaim(const InsertBody& body) : InsertBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (!Owns(i)) return;
    uint64_t* tag = &state.index.entries[batch.entries[i]].tag;
    const uint32_t claimed = StateOf(*tag);
    if (claimed == kClaimedPending) {
      *tag = MakeTag(keys.IdOf(state, i), batch.before[i]);
    } else {
      *tag = MakeTag(0, claimed == kClaimedEmpty ? kEmpty : kTombstone);
    }
  }
};

// Unit: a key.
struct Publish : InsertBody {
  explicit Publish(const InsertBody& body) : InsertBody(body) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (!Owns(i)) return;
    const uint32_t id = keys.IdOf(state, i);
    DeviceEntry& entry = state.index.entries[batch.entries[i]];
    const uint32_t claimed = StateOf(entry.tag);
    if (claimed == kClaimedEmpty) CountAt(&state.counters->used, 0, 1);
    uint32_t becomes;
    if (batch.gets_row[i] != 0) {
      becomes = RowOfRank(static_cast<uint64_t>(batch.ranks[i] - 1));
      batch.rows[i] = becomes;
      batch.new_places[batch.ranks[i] - 1] = static_cast<uint32_t>(i);
      *state.rows.Entry(becomes) = static_cast<uint32_t>(batch.entries[i]);
      const int64_t frequency = rule.filter                   ? int64_t{PendingCount(batch.before[i])}
                                : rule.frequencies != nullptr ? rule.frequencies[i]
                                                              : 1;
      state.rows.SetCounts(becomes, {frequency, rule.last_steps != nullptr ? rule.last_steps[i] : state.steps[id]});
      CountAt(state.field_rows, id, 1);
      if (claimed == kClaimedPending) CountAt(state.field_pending, id, -1);
    } else {
      becomes = AdmissionOf(*this, i).PendingState();
      if (claimed != kClaimedPending) CountAt(state.field_pending, id, 1);
    }
    entry.key = static_cast<uint64_t>(keys.keys[i]);
    entry.tag = MakeTag(id, becomes);
  }
};

// Unit: a key. Equal keys of a batch get their owner's row.
struct Spread : InsertBody {
  explicit Spread(const InsertBody& body) : InsertBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (batch.entries[i] != kNoEntry && !Owns(i)) batch.rows[i] = batch.rows[batch.owners[i]];
  }
};

// What new rows start with. Null values: the initial ones; else row i of [n, dim]. Null slots, or a null entry: the
// slot's initial value; else the same of slot s.
struct DeviceRowSource {
  const float* values = nullptr;
  const float* const* slots = nullptr;
};

// Unit: a rank of those that there are; a group.
struct FillNewRows : InsertBody {
  DeviceRowSource source;
  FillNewRows(const InsertBody& body, const DeviceRowSource& s) : InsertBody(body), source(s) {}

  TFB_HOST_DEVICE void operator()(int64_t rank) const {
    const Group group;
    const int64_t i = batch.new_places[rank];
    const int64_t dim = state.rows.dim;
    float* row = state.rows.Values(batch.places[i]);
    if (source.values != nullptr) {
      CopyFloats(group, dim, source.values + i * dim, row);
    } else {
      InitialRowBy(group, state.fields[keys.IdOf(state, i)].initializer, keys.keys[i], dim, row);
    }
    for (int64_t s = 0; s < state.rows.num_slots; ++s) {
      float* slot = row + (1 + s) * dim;
      const float* from = source.slots == nullptr ? nullptr : source.slots[s];
      if (from == nullptr) {
        FillWith(group, state.slot_initial_values[s], dim, slot);
      } else {
        CopyFloats(group, dim, from + i * dim, slot);
      }
    }
  }
};

// One unit.
struct CommitRows {
  DeviceCounters* counters;
  const int32_t* total;  // How many rows were taken.

  TFB_HOST_DEVICE void operator()(int64_t) const {
    const uint64_t taken = static_cast<uint64_t>(*total);
    const uint64_t reused = taken < counters->free ? taken : counters->free;
    counters->free -= reused;
    counters->end += taken - reused;
  }
};

// One unit, before a Rehash, which counts the entries; or the way back.
struct ExchangeUsed {
  DeviceCounters* counters;
  bool back;
  TFB_HOST_DEVICE void operator()(int64_t) const {
    if (!back) counters->outgrown = counters->used;
    counters->used = back ? counters->outgrown : 0;
  }
};

// Unit: an entry of the index that is outgrown.
struct Rehash {
  DeviceIndex from, to;
  DeviceRows rows;
  DeviceCounters* counters;
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t before = StateOf(from.entries[i].tag);
    if (!IsLive(before)) return;
    const int64_t place = Reenter(to, from.entries[i]);
    if (IsRow(before)) *rows.Entry(before) = static_cast<uint32_t>(place);
    CountAt(&counters->used, 0, 1);
  }
};

// Unit: an entry of the index that was outgrown, and is the table's again.
struct Relink {
  DeviceIndex index;
  DeviceRows rows;
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t row = StateOf(index.entries[i].tag);
    if (IsRow(row)) *rows.Entry(row) = static_cast<uint32_t>(i);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_INSERT_BODIES_H_
