// The readers: Find, FindHandles, Gather.
//
// A find is two cache misses, one for the bucket and one for the row, and nothing else to speak of: 240 ns or more when
// they are waited for, 4 to 6 ns each when many are under way. So each key goes through three stages, and while one is
// copied, the row of another and the bucket of a third are on their way.
#include <algorithm>
#include <atomic>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/base/lines_ahead.h"
#include "cc/core/hash_table/cpu_table_impl.h"
#include "cc/core/hash_table/initial_row.h"
#include "cc/core/hash_table/row_blocks.h"

namespace tf_booster {
namespace {

// How far a key's bucket and row are fetched ahead of its copy. Through the first-level cache a dozen or two of misses
// can be under way, 11.5 ns a random line whatever the distance; through the second-level cache 7.6 ns 24 lines ahead
// and 5.5 ns 48 ahead (Zen 4). At dim 16, uniform, 48 and 24 for 24 and 12 took find from 26 to 24 ns, find handles
// from 19.5 to 16 and gather from 17 to 13; 96 and 24 or 96 and 48 took find to 27 and more. Long rows keep the short
// distances, for a dozen rows of 512 bytes are lines enough (24 and 12, 48 and 24, 96 and 48: 77, 78 and 83 ns);
// stores past the caches, AVX-512 and "rep movsb" changed nothing. What did is CopyRowAndFetch.
//
// That was on Zen 4. On Granite Rapids, whose misses take longer, rows of 128 columns want 48 and 36 (24 and 12, 48 and
// 24, 48 and 36, 54 and 44: uniform 101, 85, 84 and 87 ns, Zipf 63, 61, 59 and 57), those of 64 hardly (57, 55 and 54;
// 39, 43 and 41). All of a row's lines at once, stores past the caches and no fetch of the target were no faster there
// (48 and 36, dim 128: 110, 87 and 94 uniform, 80, 61 and 71 Zipf).
//
// Zen 5 wants them as far ahead at dim 64 (24 and 12, 48 and 24, 56 and 28: uniform 22.3, 19.1 and 18.8 ns, Zipf 16.7,
// 13.0 and 12.6) and at odd dims (24 and 12, 48 and 24: dim 24 25.3 and 22.8, 17.3 and 13.4; 50 26.6 and 24.8, 18.2 and
// 15.7; 200 44 and 45, 27.5 and 28.5). At dim 16 48 and 24, 56 and 32 take 13.4 and 13.1, 9.9 and 9.5; at dim 128 48
// and 36, 48 and 30 26.9 and 26.0, 19.1 and 18.4.
//
// Zen 3 minds little, in turns: 24 and 12 take 32.0 and 21.8 at dim 16, all others up to 56 and 40 27 and 21; at dim 64
// 24 and 12 57 and 38, 48 and 24 60 and 39, 56 and 28 61 and 39.5; dims 24, 128 and 200 the same throughout.
template <int64_t kDim>
constexpr int64_t kHashAhead = kDim == 0 || kDim > 64 ? 48 : 56;
template <int64_t kDim>
constexpr int64_t kProbeAhead = kDim == 0    ? 24
                                : kDim <= 32 ? 32
                                : kDim == 64 ? 28
                                             : 30;
// Keys that take a stage together. One by one, each with the questions whether a stage has begun or ended, dim 16 took
// 9.7 ns a key in the caches, 17.4 uniform, 14.1 by Zipf's law, and handles 12.4; eight at a time, with the ring of
// buckets in place of one of hashes, 7.9, 15.5, 12.7 and 10.3. Long rows want their misses evenly spread: dim 64 26.0
// uniform one by one, 27.6 by eights and 24.6 by fours; dim 128 36, 42 and 39, by twos as one by one.
template <int64_t kDim>
constexpr int64_t kGroup = kDim > 0 && kDim <= 32 ? 8
                           : kDim == 64           ? 4
                                                  : 2;
// The one key in twenty whose probe goes on beyond its first bucket (load 0.5) is settled later, in front of the copy.
template <int64_t kDim>
constexpr int64_t kSettleAhead = kGroup<kDim> == 2 ? 6 : kGroup<kDim>;
constexpr int64_t kNoRows = 1;  // In place of kDim where only buckets are read.
constexpr uint64_t kRing = 64;  // What a stage keeps for the next one.
// Keys of one visit to the reading room: about 50 us, against some 50 ns for entering.
constexpr int64_t kPart = 4096;
// So few keys wait for less than a pipeline that reads buckets takes to start and to end, 60 ns.
constexpr int64_t kFew = 4;

int64_t FindCost(int64_t dim) { return 20 + dim / 4; }

// Rows that are on their way to be copied: those of keys [begin, end) of a Pipeline, null where a key has none.
template <int64_t kDim>
class RowRing {
 public:
  RowRing(int64_t begin, int64_t end, int64_t dim) : begin_(begin), end_(end), dim_(dim) {}

  // The row of key i, from the pipeline's `probe`; `late`: from its `settle`.
  void Put(int64_t i, uint64_t place, const float* row, bool late) {
    rows_[place] = row;
    if (row == nullptr) return;
    if constexpr (kFetchedInCopies<kDim>) {
      if (!late && i >= begin_ + kProbeAhead<kDim>) return;  // Copies of the rows before it fetch it.
    }
    PrefetchRow(row, kDim > 0 ? kDim : dim_);
  }

  // Copies the row of key i to `to`; calls otherwise(to) where it has none. From `finish`.
  template <class Otherwise>
  void Copy(int64_t i, uint64_t place, float* to, Otherwise otherwise) {
    const float* row = rows_[place];
    if constexpr (kFetchedInCopies<kDim>) {
      const int64_t ahead = i + kProbeAhead<kDim>;
      const float* later = ahead < end_ ? rows_[(place + kProbeAhead<kDim>) % kRing] : nullptr;
      if (row != nullptr) return CopyRowAndFetch<kDim>(to, row, later == nullptr ? row : later);
      if (later != nullptr) PrefetchRow(later, kDim);
    } else {
      if (row != nullptr) return CopyRow<kDim>(to, row, dim_);
    }
    otherwise(to);
  }

 private:
  const int64_t begin_, end_, dim_;
  const float* rows_[kRing];
};

// States of keys on their way through a Pipeline, in two steps of which the second is rarely needed.
template <int64_t kDim>
class Probes {
 public:
  explicit Probes(const StripedIndex& index) : index_(index) {}

  void Hash(uint64_t place, int64_t key, uint32_t id) {
    const IndexEntry* const bucket = index_.FirstBucketOf(HashKey(key, id));
    buckets_[place] = bucket;
    FetchLine(bucket);
  }

  // The state, or kEmpty where it is open.
  uint32_t Probe(uint64_t place, int64_t key, uint32_t id) {
    uint32_t state;
    if (__builtin_expect(index_.StateInBucket(buckets_[place], key, id, &state), 1)) return state;
    index_.PrefetchBeyond(HashKey(key, id));
    open_ |= uint64_t{1} << place;
    return kEmpty;
  }

  // The places among the `kGroup` from `place` on for which Probe was not enough, as bits. They are not open after
  // that.
  uint64_t TakeOpen(uint64_t place) {
    const uint64_t bits = open_ & ((uint64_t{1} << kGroup<kDim>)-1) << place;
    open_ ^= bits;
    return bits;
  }

  uint32_t Settle(int64_t key, uint32_t id) const { return index_.StateOf(HashKey(key, id), key, id); }

 private:
  static_assert(kHashAhead<kDim> + kGroup<kDim> <= kRing && kRing <= 64);
  static_assert(kHashAhead<kDim> % kGroup<kDim> == 0 && kProbeAhead<kDim> % kGroup<kDim> == 0);
  const StripedIndex& index_;
  const IndexEntry* buckets_[kRing];
  uint64_t open_ = 0;  // Bit `place`: Settle is to come.
};

// Calls visit(begin, end) for the parts of [begin, end).
template <class Visit>
void ForParts(int64_t begin, int64_t end, Visit visit) {
  for (; begin < end; begin += kPart) visit(begin, std::min(end, begin + kPart));
}

// Calls hash(i, place) for each i in [begin, end) in order, probe(i, place) for the i that is kHashAhead - kProbeAhead
// behind, settle(i, place) for those kHashAhead - kSettleAhead behind that `probes` says are open, and finish(i, place)
// for the one kHashAhead behind; `place` is i's in a ring of kRing.
//
// Inlined by force, for then everything that the stages refer to is in registers.
template <int64_t kDim, class Hash, class Probe, class Settle, class Finish>
__attribute__((always_inline)) inline void Pipeline(int64_t begin, int64_t end, Probes<kDim>* probes, const Hash& hash,
                                                    const Probe& probe, const Settle& settle, const Finish& finish) {
  const int64_t n = end - begin;
  const auto visit = [&](const auto& stage, int64_t i) __attribute__((always_inline)) {
    if (i < 0 || i >= n) return;
    const uint64_t place = static_cast<uint64_t>(i) % kRing;  // Of a group's first key: a multiple of kGroup.
    if (i + kGroup<kDim> <= n) {
#pragma GCC unroll 8
      for (int64_t k = 0; k < kGroup<kDim>; ++k) stage(begin + i + k, place + k);
    } else {
#pragma GCC unroll 1
      for (int64_t k = 0; i + k < n; ++k) stage(begin + i + k, place + k);
    }
  };
  for (int64_t i = -kHashAhead<kDim>; i < n; i += kGroup<kDim>) {
    visit(hash, i + kHashAhead<kDim>);
    visit(probe, i + kProbeAhead<kDim>);
    const int64_t open = i + kSettleAhead<kDim>;
    if (open >= 0) {
      const uint64_t place = static_cast<uint64_t>(open) % kRing;
      for (uint64_t bits = probes->TakeOpen(place); bits != 0; bits &= bits - 1) {
        const uint64_t at = __builtin_ctzll(bits);
        settle(begin + open + static_cast<int64_t>(at - place), at);
      }
    }
    for (int64_t k = std::max<int64_t>(i, 0); k < std::min(n, i + kGroup<kDim>); ++k) {  // Unrolled it is no faster.
      finish(begin + k, static_cast<uint64_t>(k) % kRing);
    }
  }
}

// TableState::IdOf of a batch's keys, with what it reads kept in registers: a store to `found` may, for all that the
// compiler knows, have changed what a pointer leads to.
class Ids {
 public:
  Ids(const TableState& state, const KeyBatch& keys)
      : fields_(keys.fields), active_(state.active.data()), one_(fields_ == nullptr ? active_[keys.field] : 0) {}
  uint32_t operator()(int64_t i) const { return fields_ == nullptr ? one_ : active_[fields_[i]]; }

 private:
  const uint32_t* const fields_;
  const uint32_t* const active_;
  const uint32_t one_;
};

// CpuTable::FindPart.
template <int64_t kDim>
int64_t FindSome(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, int64_t dim, float* out,
                 uint8_t* found, uint32_t* states, uint32_t* missing) {
  const int64_t* const key = keys.keys;
  const Ids id(state, keys);
  Probes<kDim> probes(state.index);
  RowRing<kDim> rows(begin, end, dim);
  InitialRows initial_rows(dim);
  int64_t num_missing = 0;
  const auto note = [&](int64_t i, uint64_t place, uint32_t row, bool late) {
    rows.Put(i, place, IsRow(row) ? state.rows.Values(row) : nullptr, late);
    if (found != nullptr) found[i] = IsRow(row);
    if (states != nullptr) states[i] = row;
  };
  const auto hash = [&](int64_t i, uint64_t place) { probes.Hash(place, key[i], id(i)); };
  const auto probe = [&](int64_t i, uint64_t place) { note(i, place, probes.Probe(place, key[i], id(i)), false); };
  const auto settle = [&](int64_t i, uint64_t place) { note(i, place, probes.Settle(key[i], id(i)), true); };
  const auto finish = [&](int64_t i, uint64_t place) {
    rows.Copy(i, place, out + i * dim, [&](float* to) {
      initial_rows.Add(state.fields[id(i)].initializer, key[i], to);
      if (missing != nullptr) missing[num_missing] = static_cast<uint32_t>(i - begin);
      ++num_missing;
    });
  };
  Pipeline<kDim>(begin, end, &probes, hash, probe, settle, finish);
  return num_missing;
}

}  // namespace

void CpuTable::LocatePart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end,
                          uint32_t* states) const {
  const int64_t* const key = keys.keys;
  const Ids id(state, keys);
  if (end - begin <= kFew) {
    for (int64_t i = begin; i < end; ++i) states[i] = state.index.StateOf(HashKey(key[i], id(i)), key[i], id(i));
    state.rows.ReadAhead(states + begin, end - begin);
    return;
  }
  Probes<kNoRows> probes(state.index);
  const auto hash = [&](int64_t i, uint64_t place) { probes.Hash(place, key[i], id(i)); };
  const auto probe = [&](int64_t i, uint64_t place) { states[i] = probes.Probe(place, key[i], id(i)); };
  const auto settle = [&](int64_t i, uint64_t) { states[i] = probes.Settle(key[i], id(i)); };
  Pipeline<kNoRows>(begin, end, &probes, hash, probe, settle, [](int64_t, uint64_t) {});
  state.rows.ReadAhead(states + begin, end - begin);
}

int64_t CpuTable::FindPart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, float* out,
                           uint8_t* found, uint32_t* states, uint32_t* missing) const {
  if (state.rows.uses_disk()) {
    uint32_t located[kPart];
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      LocatePart(state, PartOf(keys, first, last - first), 0, last - first, located);
    });
  }
  int64_t num_missing = 0;
  DispatchDim(options_.dim, [&](auto dim) {
    num_missing = FindSome<dim.value>(state, keys, begin, end, options_.dim, out, found, states, missing);
  });
  return num_missing;
}

Status CpuTable::Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  pf.Run(keys.size, FindCost(options_.dim), [&](int64_t begin, int64_t end) {
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      RoomGuard guard(room_, RoomLock::kReading);
      FindPart(*state_, keys, first, last, out, found, nullptr, nullptr);
    });
  });
  return Status();
}

Status CpuTable::FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  pf.Run(keys.size, FindCost(0), [&](int64_t begin, int64_t end) {
    uint32_t states[kPart];
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      RoomGuard guard(room_, RoomLock::kReading);
      const KeyBatch part = PartOf(keys, first, last - first);
      LocatePart(*state_, part, 0, part.size, states);
      for (int64_t i = 0; i < part.size; ++i)
        handles[first + i] = IsRow(states[i]) ? HandleOf(states[i], epoch_) : kNoRow;
    });
  });
  return Status();
}

Status CpuTable::Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                        ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  constexpr int64_t kCodeMask = (int64_t{1} << 40) - 1;
  const int64_t dim = options_.dim;
  const int64_t* const key = keys.keys;
  const int64_t size = keys.size;
  std::atomic<int64_t> wrong{0};
  const auto gather_some = [&](auto constant, const TableState& state, const int64_t* codes, int64_t n, float* out) {
    const Ids id(state, keys);
    const FreshRows fresh_row(epoch_, state.readable_end);
    const auto locate = [&](int64_t begin, int64_t count, const float** rows) {
      // Almost always all handles are fresh; the keys of others are probed for together.
      int64_t places[kRowBlock], open_keys[kRowBlock], num_open = 0;
      uint32_t open_fields[kRowBlock], states[kRowBlock];
      for (int64_t k = 0; k < count; ++k) {
        const int64_t place = (codes[begin + k] & kCodeMask) - 1;
        const bool known = static_cast<uint64_t>(place) < static_cast<uint64_t>(size);
        const uint32_t row = known && handles != nullptr ? fresh_row(handles[place]) : 0;
        rows[k] = row == 0 ? nullptr : state.rows.Values(row);
        if (__builtin_expect(row != 0, 1)) continue;
        if (place >= size) wrong = place + 1;
        if (!known) continue;
        places[num_open] = k;
        open_keys[num_open] = key[place];
        open_fields[num_open++] = FieldOf(keys, place);
      }
      if (num_open == 0) return;
      LocatePart(state, {open_keys, open_fields, num_open}, 0, num_open, states);
      for (int64_t j = 0; j < num_open; ++j) {
        if (IsRow(states[j])) rows[places[j]] = state.rows.Values(states[j]);
      }
    };
    InitialRows initial_rows(dim);
    const auto without_row = [&](int64_t i, float* to) {
      const int64_t code = codes[i] & kCodeMask;
      if (code == 0 || code > size) {
        std::fill_n(to, dim, 0.0f);
      } else {
        initial_rows.Add(state.fields[id(code - 1)].initializer, key[code - 1], to);
      }
    };
    CopyByBlocks<constant.value>(n, dim, out, locate, without_row);
  };
  // All parts are one range, so that many small ones share the threads as one large one does.
  std::vector<int64_t> starts;
  starts.reserve(parts.size() + 1);
  starts.push_back(0);
  for (const GatherPart& part : parts) starts.push_back(starts.back() + part.size);
  pf.Run(starts.back(), FindCost(dim), [&](int64_t begin, int64_t end) {
    size_t p = std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin() - 1;
    while (begin < end) {
      const int64_t visit_end = std::min(end, begin + kPart);
      RoomGuard guard(room_, RoomLock::kReading);
      while (begin < visit_end) {
        const int64_t first = begin - starts[p], n = std::min(visit_end, starts[p + 1]) - begin;
        DispatchDim(dim, [&](auto constant) {
          gather_some(constant, *state_, parts[p].codes + first, n, parts[p].out + first * dim);
        });
        begin += n;
        while (p + 1 < parts.size() && begin == starts[p + 1]) ++p;
      }
    }
  });
  if (wrong == 0) return Status();
  return Status(StatusCode::kInvalidArgument,
                "Table '" + options_.name + "': code " + std::to_string(wrong.load()) + " names no key, there are " +
                    std::to_string(keys.size) + "; gather with the keys and handles of the probe that made the codes");
}

}  // namespace tf_booster
