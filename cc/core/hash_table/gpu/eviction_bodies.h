// Which rows of a field leave, on the card: those of the lowest (score, hash), as cc/core/hash_table/eviction.h has it.
// The host is not asked: kernels that turn out to have nothing to do return at once.
//
// For max_rows the victims are selected by digits, not sorted. The first digit is the score's bin, found by a look
// through the metas; a second look takes the rows of lower bins, and those of the bin where the number is reached as
// candidates, a bit each. Two more digits of 16 bits are of what is left of the score and of the hash. What ties still
// is one row, unless keys were made to tie, and is ranked pair by pair. For max_idle_steps one look tells.
//
// Victims are bits as well, so they are freed in the order of row numbers, whatever the scheduling.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_

#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

inline constexpr int kDigitBits = 16;
inline constexpr int64_t kDigits = int64_t{1} << kDigitBits;
inline constexpr int kLevels = 3;  // The score's bin and two digits.
inline constexpr int64_t kRowsOfWord = 64;

// Bins of how far a score is above the lowest one: of one score each up to 2^15, then 512 for each doubling; 57,856 in
// all.
struct ScoreBin {
  static constexpr int kExactBits = 15, kStepBits = 9;
  uint64_t number;
  uint64_t lowest;
  int width_bits;

  TFB_HOST_DEVICE static ScoreBin Of(uint64_t distance) {
    constexpr uint64_t kExact = uint64_t{1} << kExactBits, kSteps = uint64_t{1} << kStepBits;
    if (distance < kExact) return {distance, distance, 0};
#if defined(__CUDA_ARCH__)
    const int exponent = 63 - __clzll(static_cast<long long>(distance));
#else
    const int exponent = 63 - __builtin_clzll(distance);
#endif
    const int width_bits = exponent - kStepBits;
    const uint64_t step = distance >> width_bits;
    return {kExact + static_cast<uint64_t>(exponent - kExactBits) * kSteps + step - kSteps, step << width_bits,
            width_bits};
  }
};

// The bin or digit where the number of victims is reached, and how many rows of it leave; 0: nothing is chosen.
struct Choice {
  uint64_t digit;
  uint64_t wanted;
};

// What an eviction works with, in the card's memory. All before `sums`, in this order, is of zeros before each field.
struct EvictionArrays {
  Choice* choices = nullptr;       // [kLevels]
  uint64_t* not_lowest = nullptr;  // ~ the lowest score of those that stay; 0 where none does.
  uint64_t* ties = nullptr;
  int32_t* counts = nullptr;       // [kLevels, kDigits]
  uint64_t* victims = nullptr;     // A bit for each row from kFirstRow on,
  uint64_t* candidates = nullptr;  // as here.
  int32_t* sums = nullptr;         // [kDigits]
  int32_t* freed = nullptr;        // Of each word of victims: how many,
  int32_t* ranks = nullptr;        // and the inclusive sum of these.
  char* sum_scratch = nullptr;
};

struct EvictionBody {
  DeviceState state;
  EvictionArrays arrays;
  uint32_t id;
  bool by_frequency;
  int64_t max_rows;     // Or 0, and
  int64_t last_victim;  // the highest score that leaves.
  LeftKeysRing left;    // In the card's memory; where keys go that leave.

  TFB_HOST_DEVICE uint64_t Wanted() const {
    const int64_t rows = static_cast<int64_t>(state.field_rows[id]);
    return rows > max_rows ? static_cast<uint64_t>(rows - max_rows) : 0;
  }
  // No row of the field has a lower score; for LFU new rows may have any.
  TFB_HOST_DEVICE uint64_t Lowest() const { return by_frequency ? 0 : state.lowest_scores[id]; }

  struct Rank {
    uint64_t score, hash;
    TFB_HOST_DEVICE bool operator<(const Rank& other) const {
      return score != other.score ? score < other.score : hash < other.hash;
    }
  };
  TFB_HOST_DEVICE static uint32_t RowAt(int64_t r) { return static_cast<uint32_t>(kFirstRow + r); }
  TFB_HOST_DEVICE bool IsOfField(int64_t r) const {
    if (static_cast<uint64_t>(kFirstRow + r) >= state.counters->end) return false;
    // One field's rows are what is not free; among several the index knows.
    return state.num_fields == 1 ? *state.rows.Entry(RowAt(r)) < kLeavingRow : state.IdOfRow(RowAt(r)) == id;
  }
  TFB_HOST_DEVICE uint64_t Score(int64_t r) const {
    const RowCounts counts = state.rows.Counts(RowAt(r));
    return static_cast<uint64_t>(by_frequency ? counts.frequency : counts.last_step);
  }
  TFB_HOST_DEVICE Rank RankOf(int64_t r) const { return {Score(r), HashKey(KeyAt(r), 0)}; }
  TFB_HOST_DEVICE int64_t KeyAt(int64_t r) const { return static_cast<int64_t>(state.EntryOf(RowAt(r)).key); }
  TFB_HOST_DEVICE ScoreBin BinOf(int64_t r) const { return ScoreBin::Of(Score(r) - Lowest()); }

  // Of what orders the rows of a bin: the score's lower bits, then the hash. level: 1 or 2.
  TFB_HOST_DEVICE uint64_t DigitOf(int64_t r, int level) const {
    const Rank rank = RankOf(r);
    const uint64_t distance = rank.score - Lowest();
    const ScoreBin bin = ScoreBin::Of(distance);
    const uint64_t order = bin.width_bits == 0
                               ? rank.hash
                               : (distance - bin.lowest) << (64 - bin.width_bits) | rank.hash >> bin.width_bits;
    return order >> (64 - kDigitBits * level) & (kDigits - 1);
  }
  TFB_HOST_DEVICE void CountDigit(int64_t r, int level) const {
    CountAt(arrays.counts, level * kDigits + static_cast<int64_t>(DigitOf(r, level)), 1);
  }
  TFB_HOST_DEVICE static uint64_t BitOf(int64_t r) { return uint64_t{1} << (r % kRowsOfWord); }
  TFB_HOST_DEVICE void Mark(uint64_t* bits, int64_t r) const { AtomicOr(bits + r / kRowsOfWord, BitOf(r)); }
};

// Unit: a row.
struct CountScores : EvictionBody {
  explicit CountScores(const EvictionBody& body) : EvictionBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    if (Wanted() == 0 || !IsOfField(r)) return;
    CountAt(arrays.counts, static_cast<int64_t>(BinOf(r).number), 1);
  }
};

// Unit: a bin or digit of a level whose counts are summed.
struct Choose : EvictionBody {
  int level;
  Choose(const EvictionBody& body, int l) : EvictionBody(body), level(l) {}
  TFB_HOST_DEVICE void operator()(int64_t digit) const {
    const int64_t wanted = static_cast<int64_t>(level == 0 ? Wanted() : arrays.choices[level - 1].wanted);
    const int64_t below = digit == 0 ? 0 : arrays.sums[digit - 1];
    if (below >= wanted || arrays.sums[digit] < wanted) return;
    arrays.choices[level] = {static_cast<uint64_t>(digit), static_cast<uint64_t>(wanted - below)};
  }
};

// Unit: a row.
struct SiftRows : EvictionBody {
  explicit SiftRows(const EvictionBody& body) : EvictionBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    if (arrays.choices[0].wanted == 0 || !IsOfField(r)) return;
    const uint64_t bin = BinOf(r).number, chosen = arrays.choices[0].digit;
    if (bin > chosen) return;
    Mark(bin < chosen ? arrays.victims : arrays.candidates, r);
    if (bin == chosen) CountDigit(r, 1);
  }
};

// Unit: a word of candidates. Those below the level's choice leave, those above stay; of the others the next digit is
// counted, or, behind the last one, they are listed above the stack of free rows, which has room for all rows.
struct SiftCandidates : EvictionBody {
  int level;
  SiftCandidates(const EvictionBody& body, int l) : EvictionBody(body), level(l) {}
  TFB_HOST_DEVICE void operator()(int64_t word) const {
    const uint64_t chosen = arrays.choices[level].digit;
    uint64_t rest = arrays.candidates[word], left = 0;
    for (; rest != 0; rest &= rest - 1) {
      const uint64_t bit = rest & (~rest + 1);
      const int64_t r = word * kRowsOfWord + BitNumber(bit);
      const uint64_t digit = DigitOf(r, level);
      if (digit < chosen) arrays.victims[word] |= bit;
      if (digit != chosen) continue;
      left |= bit;
      if (level + 1 < kLevels) {
        CountDigit(r, level + 1);
      } else {
        *state.rows.FreeRow(state.counters->free + AtomicAdd(arrays.ties, uint64_t{1})) = RowAt(r);
      }
    }
    arrays.candidates[word] = left;
  }
};

// Unit: a place of the list of ties, which is shorter than there are units.
struct RankTies : EvictionBody {
  explicit RankTies(const EvictionBody& body) : EvictionBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t k) const {
    const int64_t ties = static_cast<int64_t>(*arrays.ties);
    if (k >= ties) return;
    const int64_t mine = Tie(k);
    const Rank rank = RankOf(mine);
    uint64_t before = 0;
    for (int64_t i = 0; i < ties; ++i) before += RankOf(Tie(i)) < rank;
    if (before < arrays.choices[kLevels - 1].wanted) Mark(arrays.victims, mine);
  }
  TFB_HOST_DEVICE int64_t Tie(int64_t k) const {
    return int64_t{*state.rows.FreeRow(state.counters->free + static_cast<uint64_t>(k))} - kFirstRow;
  }
};

// Unit: a row. All that are too old leave; of the others the lowest score is kept, so that the next looks can be
// spared.
struct FindIdle : EvictionBody {
  explicit FindIdle(const EvictionBody& body) : EvictionBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    const uint64_t last = static_cast<uint64_t>(last_victim);
    if (Lowest() > last || !IsOfField(r)) return;
    const uint64_t score = Score(r);
    if (score <= last) {
      Mark(arrays.victims, r);
    } else {
      RaiseTo(arrays.not_lowest, ~score);
    }
  }
};

// Unit: a word of victims.
struct CountVictims : EvictionBody {
  explicit CountVictims(const EvictionBody& body) : EvictionBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t word) const { arrays.freed[word] = BitCount(arrays.victims[word]); }
};

// Unit: a word of victims.
struct FreeVictims : EvictionBody {
  const int32_t* total;
  FreeVictims(const EvictionBody& body, const int32_t* t) : EvictionBody(body), total(t) {}
  TFB_HOST_DEVICE void operator()(int64_t word) const {
    int64_t rank = arrays.ranks[word] - arrays.freed[word];
    for (uint64_t rest = arrays.victims[word]; rest != 0; rest &= rest - 1) {
      const int64_t r = word * kRowsOfWord + BitNumber(rest & (~rest + 1));
      if (*total - rank <= left.size) {  // Of more than there is room for, the last.
        left.keys[(static_cast<int64_t>(state.field_evicted[id]) + rank) % left.size] = KeyAt(r);
      }
      FreeOne(state, RowAt(r), static_cast<uint64_t>(rank++));
    }
  }
};

// One unit.
struct CommitEvicted : EvictionBody {
  const int32_t* total;
  CommitEvicted(const EvictionBody& body, const int32_t* t) : EvictionBody(body), total(t) {}
  TFB_HOST_DEVICE void operator()(int64_t) const {
    CommitFreed{state.counters, total}(0);
    state.field_evicted[id] += static_cast<uint64_t>(*total);
    uint64_t& lowest = state.lowest_scores[id];
    if (by_frequency) return;
    if (max_rows > 0) {
      if (arrays.choices[0].wanted > 0) lowest += LowestOf(arrays.choices[0].digit);
    } else if (lowest <= static_cast<uint64_t>(last_victim)) {
      lowest = *arrays.not_lowest != 0 ? ~*arrays.not_lowest : static_cast<uint64_t>(last_victim) + 1;
    }
    // Rows that come are of this step or later ones; rows that were imported may be of any.
    lowest = lowest < static_cast<uint64_t>(state.steps[id]) ? lowest : static_cast<uint64_t>(state.steps[id]);
  }
  // Where a bin begins.
  TFB_HOST_DEVICE static uint64_t LowestOf(uint64_t bin) {
    constexpr uint64_t kExact = uint64_t{1} << ScoreBin::kExactBits, kSteps = uint64_t{1} << ScoreBin::kStepBits;
    if (bin < kExact) return bin;
    const uint64_t doubling = (bin - kExact) / kSteps, step = (bin - kExact) % kSteps;
    return (kSteps + step) << (doubling + ScoreBin::kExactBits - ScoreBin::kStepBits);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EVICTION_BODIES_H_
