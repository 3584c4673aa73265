// The readers: Find, FindHandles, Gather.
//
// A find is two cache misses, one for the bucket and one for the row, and nothing else to speak of: 240 ns or more when
// they are waited for, 4 to 6 ns each when many are under way. So each key goes through three stages, and while one is
// copied, the row of another and the bucket of a third are on their way.
#include <algorithm>
#include <atomic>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/hash_table/cpu_table_impl.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

// How far a key's bucket and row are fetched ahead of its copy. Through the first-level cache a dozen or two of misses
// can be under way, 11.5 ns a random line whatever the distance; through the second-level cache 7.6 ns 24 lines ahead
// and 5.5 ns 48 ahead (Zen 4). At dim 16, uniform, 48 and 24 for 24 and 12 took find from 26 to 24 ns, find handles
// from 19.5 to 16 and gather from 17 to 13; 96 and 24 or 96 and 48 took find to 27 and more. Long rows keep the short
// distances, for a dozen rows of 512 bytes are lines enough (24 and 12, 48 and 24, 96 and 48: 77, 78 and 83 ns);
// stores past the caches, AVX-512 and "rep movsb" changed nothing. What did is CopyRowAndFetch.
template <int64_t kDim>
constexpr int64_t kHashAhead = kDim > 0 && kDim <= 32 ? 48 : 24;
template <int64_t kDim>
constexpr int64_t kProbeAhead = kHashAhead<kDim> / 2;
constexpr int64_t kNoRows = 1;  // In place of kDim where only buckets are read.
template <int64_t kDim>
constexpr uint64_t kRing = kHashAhead<kDim> == 48 ? 64 : 32;  // What a stage keeps for the next one.
// Keys of one visit to the reading room: about 50 us, against some 50 ns for entering.
constexpr int64_t kPart = 4096;

int64_t FindCost(int64_t dim) { return 20 + dim / 4; }

// Rows that are on their way to be copied: those of keys [begin, end) of a Pipeline, null where a key has none.
template <int64_t kDim>
class RowRing {
 public:
  RowRing(int64_t begin, int64_t end, int64_t dim) : begin_(begin), end_(end), dim_(dim) {}

  // The row of key i, from the pipeline's `probe`.
  void Put(int64_t i, uint64_t place, const float* row) {
    rows_[place] = row;
    if (row == nullptr) return;
    if constexpr (kFetchedInCopies<kDim>) {
      if (i >= begin_ + kProbeAhead<kDim>) return;  // Copies of the rows before it fetch it.
    }
    PrefetchRow(row, dim_);
  }

  // Copies the row of key i to `to`; calls otherwise(to) where it has none. From `finish`.
  template <class Otherwise>
  void Copy(int64_t i, uint64_t place, float* to, Otherwise otherwise) {
    const float* row = rows_[place];
    if constexpr (kFetchedInCopies<kDim>) {
      const int64_t ahead = i + kProbeAhead<kDim>;
      const float* later = ahead < end_ ? rows_[static_cast<uint64_t>(ahead) % kRing<kDim>] : nullptr;
      if (row != nullptr) return CopyRowAndFetch<kDim>(to, row, later == nullptr ? row : later);
      if (later != nullptr) PrefetchRow(later, dim_);
    } else {
      if (row != nullptr) return CopyRow<kDim>(to, row, dim_);
    }
    otherwise(to);
  }

 private:
  const int64_t begin_, end_, dim_;
  const float* rows_[kRing<kDim>];
};

// Calls visit(begin, end) for the parts of [begin, end).
template <class Visit>
void ForParts(int64_t begin, int64_t end, Visit visit) {
  for (; begin < end; begin += kPart) visit(begin, std::min(end, begin + kPart));
}

// Calls hash(i, place) for each i in [begin, end) in order, probe(i, place) for the i that is kHashAhead - kProbeAhead
// behind, and finish(i, place) for the one kHashAhead behind; `place` is i's in a ring of kRing<kDim>.
template <int64_t kDim, class Hash, class Probe, class Finish>
inline void Pipeline(int64_t begin, int64_t end, Hash hash, Probe probe, Finish finish) {
  const auto place = [](int64_t i) { return static_cast<uint64_t>(i) % kRing<kDim>; };
  for (int64_t i = begin - kHashAhead<kDim>; i < end; ++i) {
    const int64_t to_hash = i + kHashAhead<kDim>, to_probe = i + kProbeAhead<kDim>;
    if (to_hash < end) hash(to_hash, place(to_hash));
    if (to_probe >= begin && to_probe < end) probe(to_probe, place(to_probe));
    if (i >= begin) finish(i, place(i));
  }
}

}  // namespace

void CpuTable::LocatePart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end,
                          uint32_t* states) const {
  uint64_t hashes[kRing<kNoRows>];
  const auto hash = [&](int64_t i, uint64_t place) {
    hashes[place] = HashKey(keys.keys[i], state.IdOf(keys, i));
    state.index.Prefetch(hashes[place]);
  };
  const auto probe = [&](int64_t i, uint64_t place) {
    states[i] = state.index.StateOf(hashes[place], keys.keys[i], state.IdOf(keys, i));
  };
  Pipeline<kNoRows>(begin, end, hash, probe, [](int64_t, uint64_t) {});
}

int64_t CpuTable::FindPart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, float* out,
                           uint8_t* found, uint32_t* states, uint32_t* missing) const {
  const int64_t dim = options_.dim;
  int64_t num_missing = 0;
  DispatchDim(dim, [&](auto constant) {
    uint64_t hashes[kRing<constant.value>];
    RowRing<constant.value> rows(begin, end, dim);
    const auto hash = [&](int64_t i, uint64_t place) {
      hashes[place] = HashKey(keys.keys[i], state.IdOf(keys, i));
      state.index.Prefetch(hashes[place]);
    };
    const auto probe = [&](int64_t i, uint64_t place) {
      const uint32_t row = state.index.StateOf(hashes[place], keys.keys[i], state.IdOf(keys, i));
      rows.Put(i, place, IsRow(row) ? state.rows.Values(row) : nullptr);
      if (found != nullptr) found[i] = IsRow(row);
      if (states != nullptr) states[i] = row;
    };
    const auto finish = [&](int64_t i, uint64_t place) {
      rows.Copy(i, place, out + i * dim, [&](float* to) {
        InitialRow(state.fields[state.IdOf(keys, i)].initializer, keys.keys[i], dim, to);
        if (missing != nullptr) missing[num_missing] = static_cast<uint32_t>(i - begin);
        ++num_missing;
      });
    };
    Pipeline<constant.value>(begin, end, hash, probe, finish);
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
      for (int64_t i = 0; i < part.size; ++i) handles[first + i] = IsRow(states[i]) ? HandleOf(states[i]) : kNoRow;
    });
  });
  return Status();
}

Status CpuTable::Gather(const KeyBatch& keys, const RowHandle* handles, const std::vector<GatherPart>& parts,
                        ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  constexpr int64_t kCodeMask = (int64_t{1} << 40) - 1;
  const int64_t dim = options_.dim;
  std::atomic<int64_t> wrong{0};
  const auto gather_some = [&](auto constant, const TableState& state, const int64_t* codes, int64_t n, float* out) {
    uint64_t hashes[kRing<constant.value>];
    RowRing<constant.value> rows(0, n, dim);
    const auto fresh_row = [&](int64_t k) { return handles == nullptr ? 0 : FreshRow(state, handles[k]); };
    const auto hash = [&](int64_t i, uint64_t place) {
      const int64_t code = codes[i] & kCodeMask;
      if (code > keys.size) wrong = code;
      if (code == 0 || code > keys.size || fresh_row(code - 1) != 0) return;
      hashes[place] = HashKey(keys.keys[code - 1], state.IdOf(keys, code - 1));
      state.index.Prefetch(hashes[place]);
    };
    const auto probe = [&](int64_t i, uint64_t place) {
      const int64_t code = codes[i] & kCodeMask, k = code - 1;
      uint32_t row = 0;
      if (code != 0 && code <= keys.size) {
        row = fresh_row(k);
        if (row == 0) row = state.index.StateOf(hashes[place], keys.keys[k], state.IdOf(keys, k));
      }
      rows.Put(i, place, IsRow(row) ? state.rows.Values(row) : nullptr);
    };
    const auto copy = [&](int64_t i, uint64_t place) {
      const int64_t code = codes[i] & kCodeMask;
      rows.Copy(i, place, out + i * dim, [&](float* to) {
        if (code == 0 || code > keys.size) {
          std::fill_n(to, dim, 0.0f);
        } else {
          InitialRow(state.fields[state.IdOf(keys, code - 1)].initializer, keys.keys[code - 1], dim, to);
        }
      });
    };
    Pipeline<constant.value>(0, n, hash, probe, copy);
  };
  // All parts are one range, so that many small ones share the threads as one large one does.
  std::vector<int64_t> starts = {0};
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
