// Of a table with rows in host memory, or on a disk: those that are used swap places with idle ones that are nearer, as
// pages do under a clock's hand. A row that a step used since the last turn is in use, and one that is not is idle; no
// order among them is looked for.
//
//   MarkMoving   a bit for each row that is where it should not be: idle ones nearby, used ones far away
//   CountMoving  (sum) their number in each word
//   ListMoving   as many of both as there are of the fewer
//   SwapRows     a pair of each: values, counts, entries of the index
//   CommitSwap   handles that were given out lead to other rows
//
// Between card and host nobody waits: how many rows move is known on the card alone.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_SWAP_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_SWAP_BODIES_H_

#include "cc/core/hash_table/gpu/eviction_bodies.h"

namespace tf_booster {
namespace gpu {

// In the card's memory.
struct SwapArrays {
  uint64_t* moving = nullptr;  // [words], zeros
  int32_t* counts = nullptr;   // [words]
  int32_t* sums = nullptr;     // [words], inclusive
  uint32_t* idle = nullptr;    // [most], nearby
  uint32_t* used = nullptr;    // [most], far away
  char* sum_scratch = nullptr;
};

// Rows from `from` to `end` - 1, of which some may not have been taken yet.
struct RowRange {
  int64_t from, end;
  TFB_HOST_DEVICE int64_t words() const { return CeilDiv(end - from, kRowsOfWord); }
};

struct SwapBody {
  DeviceState state;
  SwapArrays arrays;
  RowRange near, far;  // Words of 64 rows each, those of `far` behind those of `near`.
  int64_t most;        // Pairs.
  int64_t idle_steps;  // A row is idle that none of the last steps used, so many,
  int64_t used_steps;  // and used if one of so many did, which are no more.
  int64_t clock;       // The step of all fields, or -1 if they differ.

  TFB_HOST_DEVICE int64_t Words() const { return near.words() + far.words(); }
  // Unit: a bit of a word. Its row, or 0.
  TFB_HOST_DEVICE uint32_t RowOfUnit(int64_t unit) const {
    const int64_t near_units = near.words() * kRowsOfWord;
    const bool is_near = unit < near_units;
    const int64_t row = is_near ? near.from + unit : far.from + unit - near_units;
    const bool exists = row < (is_near ? near.end : far.end) && row < static_cast<int64_t>(state.counters->end);
    return exists && *state.rows.Entry(static_cast<uint32_t>(row)) < kLeavingRow ? static_cast<uint32_t>(row) : 0;
  }
  // A key that was seen once is most likely not seen soon, however new it is.
  TFB_HOST_DEVICE bool Moves(uint32_t row) const {
    const RowCounts counts = state.rows.Counts(row);
    const int64_t now = clock >= 0 ? clock : state.steps[state.IdOfRow(row)];
    const int64_t unused = now - counts.last_step;  // Steps.
    return row < near.end && row >= near.from ? unused >= idle_steps : unused < used_steps && counts.frequency > 1;
  }
  // Both have rows.
  TFB_HOST_DEVICE int64_t Idle() const { return arrays.sums[near.words() - 1]; }
  TFB_HOST_DEVICE int64_t Used() const { return arrays.sums[Words() - 1] - Idle(); }
  TFB_HOST_DEVICE int64_t Pairs() const { return Min(Min(Idle(), Used()), most); }
};

// Unit: a bit of a word.
struct MarkMoving : SwapBody {
  explicit MarkMoving(const SwapBody& body) : SwapBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const uint32_t row = RowOfUnit(unit);
    if (row != 0 && Moves(row)) AtomicOr(arrays.moving + unit / kRowsOfWord, EvictionBody::BitOf(unit));
  }
};

// Unit: a word.
struct CountMoving : SwapBody {
  explicit CountMoving(const SwapBody& body) : SwapBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t word) const { arrays.counts[word] = BitCount(arrays.moving[word]); }
};

// Unit: a word. Of more rows than are listed, those behind the ones of the last turn: the clock's hand goes on. (It
// does so by their number, which is near enough; which rows these were nobody remembers.)
struct ListMoving : SwapBody {
  explicit ListMoving(const SwapBody& body) : SwapBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t word) const {
    const bool is_near = word < near.words();
    const int64_t all = is_near ? Idle() : Used(), pairs = Pairs();
    if (all == 0 || pairs == 0) return;
    const int64_t begin = static_cast<int64_t>(state.counters->swapped % static_cast<uint64_t>(all));
    int64_t rank = arrays.sums[word] - arrays.counts[word] - (is_near ? 0 : Idle());
    for (uint64_t rest = arrays.moving[word]; rest != 0; rest &= rest - 1, ++rank) {
      const int64_t place = rank >= begin ? rank - begin : rank - begin + all;
      if (place >= pairs) continue;
      const int64_t unit = word * kRowsOfWord + BitNumber(rest & (~rest + 1));
      (is_near ? arrays.idle : arrays.used)[place] = RowOfUnit(unit);
    }
  }
};

// Unit: a pair, from `first` on; a group.
struct SwapRows : SwapBody {
  int64_t first = 0;
  char* copies = nullptr;  // Of the used rows, which are exchanged in their place; null: the rows themselves.
  explicit SwapRows(const SwapBody& body) : SwapBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const int64_t pair = first + unit;
    if (pair >= Pairs()) return;
    const Group group;
    const uint32_t a = arrays.idle[pair], b = arrays.used[pair];
    auto* const values_a = reinterpret_cast<Word16*>(state.rows.Values(a));
    auto* const values_b = copies == nullptr ? reinterpret_cast<Word16*>(state.rows.Values(b))
                                             : reinterpret_cast<Word16*>(copies + unit * state.rows.stride_bytes);
    group.ForEach(state.rows.stride_bytes / static_cast<int64_t>(sizeof(Word16)), [&](int64_t w) {
      const Word16 of_a = values_a[w], of_b = values_b[w];
      StorePack(values_a + w, of_b);
      StorePack(values_b + w, of_a);
    });
    group.Once([&] {
      const RowCounts counts_a = state.rows.Counts(a), counts_b = state.rows.Counts(b);
      state.rows.SetCounts(a, counts_b);
      state.rows.SetCounts(b, counts_a);
      const uint32_t entry_a = *state.rows.Entry(a), entry_b = *state.rows.Entry(b);
      Place(entry_a, b);
      Place(entry_b, a);
    });
  }
  TFB_HOST_DEVICE void Place(uint32_t entry, uint32_t row) const {
    uint64_t* const tag = &state.index.entries[entry].tag;
    StoreRelaxed(tag, MakeTag(LowOf(*tag), row));
    *state.rows.Entry(row) = entry;
  }
};

// One unit.
struct CommitSwap : SwapBody {
  explicit CommitSwap(const SwapBody& body) : SwapBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t) const {
    if (Pairs() > 0) ++state.counters->epoch;
    state.counters->swapped += static_cast<uint64_t>(Pairs());
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_SWAP_BODIES_H_
