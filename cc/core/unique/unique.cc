#include "cc/core/unique/unique.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/unique/distinct_set.h"
#include "cc/core/unique/few_values.h"
#include "cc/core/unique/narrow_values.h"
#include "cc/core/unique/partitioned_unique.h"

namespace tf_booster {
namespace {

constexpr int64_t kBlock = 1024;             // Tags are computed for so many values at a time; 4 KiB of them.
constexpr int64_t kAhead = 16;               // Slots are prefetched so many values before they are needed.
constexpr int64_t kValuesPerPart = 1 << 14;  // Fewer are not worth a thread.
constexpr int kMaxPartBits = 4;              // Every part reads all values, at 0.7 ns each: more parts win nothing.

// From here on many distinct values' tables are beyond the second-level cache, and parting them first pays: a million
// take 11.0, 11.0 and 9.7 ms in place of 13.1, 15.5 and 12.4 (all distinct, 95 percent, 25 percent by Zipf's law).
constexpr int64_t kManyValues = 1 << 19;
// Should fewer than one in three of the first so many values be distinct, their table is small and the simple ways take
// half the time. Under Zipf's law it is every second one.
constexpr int64_t kSample = 1 << 14;
constexpr int64_t kSampleDistinct = kSample / 3;

// Adds `count` values with their tags; their places go to place_of(j).
template <class Set, class ValueFn, class PlaceFn>
void AddBlock(Set& set, const uint32_t* tags, int64_t count, ValueFn value, PlaceFn put_place) {
  for (int64_t j = 0; j < std::min(count, kAhead); ++j) set.Prefetch(tags[j]);
  int64_t j = 0;
  for (; j + kAhead < count; ++j) {
    set.Prefetch(tags[j + kAhead]);
    put_place(j, set.Add(tags[j], value(j)));
  }
  for (; j < count; ++j) put_place(j, set.Add(tags[j], value(j)));
}

template <class T, class Index, bool kCounts>
void UniqueOfAll(const T* x, int64_t n, int64_t first, Index* idx, DistinctSet<T, kCounts>& set) {
  uint32_t tags[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const T* values = x + begin;
    Index* out = idx + begin;
    for (int64_t j = 0; j < count; ++j) tags[j] = UniqueTag(values[j]);
    set.Reserve(begin, count);
    AddBlock(
        set, tags, count, [&](int64_t j) { return values[j]; },
        [&](int64_t j, uint32_t place) { out[j] = static_cast<Index>(first + place); });
  }
}

// Of all values, only those whose tags end in `part`. Leaves (place << part_bits) | part in idx.
template <class T, class Index, bool kCounts>
void UniqueOfPart(const T* x, int64_t n, uint32_t part, int part_bits, Index* idx, DistinctSet<T, kCounts>& set) {
  const uint32_t part_mask = (1u << part_bits) - 1;
  uint32_t tags[kBlock], own[kBlock];
  int64_t added = 0;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  // Each part starts elsewhere, so that no two threads write to the same line of idx at the same time.
  const int64_t first_block = blocks * part >> part_bits;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = (first_block + b < blocks ? first_block + b : first_block + b - blocks) * kBlock;
    const T* values = x + begin;
    Index* out = idx + begin;
    int64_t count = 0;
    for (int64_t j = 0; j < std::min(kBlock, n - begin); ++j) {
      const uint32_t tag = UniqueTag(values[j]);
      tags[count] = tag;
      own[count] = static_cast<uint32_t>(j);
      count += (tag & part_mask) == part;  // No branch: it would be mispredicted every other time.
    }
    set.Reserve(added, count);
    added += count;
    AddBlock(
        set, tags, count, [&](int64_t j) { return values[own[j]]; },
        [&](int64_t j, uint32_t place) { out[own[j]] = (static_cast<Index>(place) << part_bits) | part; });
  }
}

// How many of many values are distinct, rather too many than too few; 0 for few.
template <class T>
int64_t LikelyDistinct(const T* x, int64_t n) {
  if (n < kManyValues) return 0;
  DistinctSet<T, false> set(kSample);
  std::vector<int32_t> idx(kSample);
  UniqueOfAll(x, kSample, 0, idx.data(), set);
  return set.size() > kSampleDistinct ? n / kSample * set.size() : 0;
}

template <class T, bool kCounts>
void CopyOut(const DistinctSet<T, kCounts>& set, T* values, int64_t* counts) {
  for (int64_t place = 0; place < set.size(); ++place) {
    values[place] = set.value(place);
    if (kCounts) counts[place] = set.count(place);
  }
}

template <class T, class Index, bool kCounts>
Status UniqueByPartitions(const T* x, int64_t n, int64_t likely, int64_t first, Index* idx,
                          UniqueAllocateFn<T> allocate, ParallelFor& pf) {
  PartitionedUnique<T, kCounts> unique(x, n, likely, &pf);
  T* values = nullptr;
  int64_t* counts = nullptr;
  TFB_RETURN_IF_ERROR(allocate(unique.size(), &values, kCounts ? &counts : nullptr));
  unique.Write(first, idx, values, counts);
  return Status();
}

template <class T, class Index, bool kCounts>
Status UniqueByParts(const T* x, int64_t n, int64_t first, Index* idx, UniqueAllocateFn<T> allocate, ParallelFor& pf) {
  int part_bits = 0;
  while (part_bits < kMaxPartBits && (2 << part_bits) <= pf.num_threads() && n >= kValuesPerPart << (part_bits + 1) &&
         n <= std::numeric_limits<Index>::max() >> (part_bits + 1)) {
    ++part_bits;
  }
  const int64_t parts = int64_t{1} << part_bits;
  std::vector<std::optional<DistinctSet<T, kCounts>>> sets(parts);
  pf.Run(parts, n * 6 / parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      auto& set = sets[part].emplace(n / parts);
      if (parts == 1) {
        UniqueOfAll(x, n, first, idx, set);
      } else {
        UniqueOfPart(x, n, static_cast<uint32_t>(part), part_bits, idx, set);
      }
    }
  });

  std::vector<int64_t> starts(parts + 1, 0);
  for (int64_t part = 0; part < parts; ++part) starts[part + 1] = starts[part] + sets[part]->size();
  T* values = nullptr;
  int64_t* counts = nullptr;
  TFB_RETURN_IF_ERROR(allocate(starts[parts], &values, kCounts ? &counts : nullptr));
  pf.Run(parts, starts[parts] / parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      CopyOut(*sets[part], values + starts[part], kCounts ? counts + starts[part] : nullptr);
      sets[part].reset();
    }
  });
  if (parts == 1) return Status();
  Index bases[1 << kMaxPartBits];
  for (int64_t part = 0; part < parts; ++part) bases[part] = static_cast<Index>(first + starts[part]);
  pf.Run(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) idx[i] = bases[idx[i] & (parts - 1)] + (idx[i] >> part_bits);
  });
  return Status();
}

// FewValues or NarrowValues, as they were made.
template <class T, class Found>
Status Written(const Found& found, bool with_counts, UniqueAllocateFn<T> allocate) {
  T* values = nullptr;
  int64_t* counts = nullptr;
  TFB_RETURN_IF_ERROR(allocate(found.size(), &values, with_counts ? &counts : nullptr));
  found.CopyTo(values, counts);
  return Status();
}

template <class T, class Index, bool kCounts>
Status UniqueImpl(const T* x, int64_t n, const UniqueOptions& options, Index* idx, UniqueAllocateFn<T> allocate,
                  ParallelFor& pf) {
  if (n <= kFewValues) return Written<T>(FewValues<T, kCounts>(x, n, options.first, idx), kCounts, allocate);
  // Beyond that the array would leave the second-level cache, and several threads are faster.
  if (n < 2 * kValuesPerPart) {
    if (const NarrowRange<T> range = NarrowRangeOf(x, n); range.size > 0) {
      return Written<T>(NarrowValues<T, kCounts>(x, n, range, options.first, idx), kCounts, allocate);
    }
  }
  if (options.in_order) {
    SerialFor serial;
    return UniqueByParts<T, Index, kCounts>(x, n, options.first, idx, allocate, serial);
  }
  if (const int64_t likely = LikelyDistinct(x, n); likely > 0) {
    return UniqueByPartitions<T, Index, kCounts>(x, n, likely, options.first, idx, allocate, pf);
  }
  return UniqueByParts<T, Index, kCounts>(x, n, options.first, idx, allocate, pf);
}

}  // namespace

template <class T, class Index>
Status Unique(const T* x, int64_t n, const UniqueOptions& options, Index* idx, UniqueAllocateFn<T> allocate,
              ParallelFor& pf) {
  // Places within a set have 32 bits.
  const int64_t most = std::min<int64_t>(std::numeric_limits<Index>::max(), std::numeric_limits<uint32_t>::max() - 1);
  if (n > most || options.first < 0 || options.first > std::numeric_limits<Index>::max() - n) {
    return Status(StatusCode::kInvalidArgument, "x has " + std::to_string(n) + " values but at most " +
                                                    std::to_string(most) +
                                                    " can be numbered with this type of idx; use int64, or split x");
  }
  if (options.with_counts) return UniqueImpl<T, Index, true>(x, n, options, idx, allocate, pf);
  return UniqueImpl<T, Index, false>(x, n, options, idx, allocate, pf);
}

#define TFB_UNIQUE(T, Index) \
  template Status Unique<T, Index>(const T*, int64_t, const UniqueOptions&, Index*, UniqueAllocateFn<T>, ParallelFor&)
TFB_UNIQUE(int32_t, int32_t);
TFB_UNIQUE(int32_t, int64_t);
TFB_UNIQUE(int64_t, int32_t);
TFB_UNIQUE(int64_t, int64_t);
#undef TFB_UNIQUE

}  // namespace tf_booster
