// The distinct values seen so far, numbered in the order of their first occurrence: the hash set inside Unique.
//
// A bucket is one cache line: the 32-bit tags of eight values, and their places + 1; a place of 0 is an empty slot, so
// no value is reserved. All eight tags are compared at once: single slots with linear probing took 12 ns a key where
// buckets take 5, nearly all of it branches that cannot be predicted. The values themselves stand apart, in the order
// of their places. A bucket's home is the top bits of the tag, so growing reads the old buckets and writes the new ones
// in nearly the same order, and needs no second look at the values.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_DISTINCT_SET_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_DISTINCT_SET_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

// Distinct int32 values have distinct tags: every step is a bijection.
inline uint32_t UniqueTag(int32_t x) {
  uint32_t h = static_cast<uint32_t>(x);
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

inline uint32_t UniqueTag(int64_t x) {
  uint64_t h = static_cast<uint64_t>(x) * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  return static_cast<uint32_t>(h >> 32);
}

template <class T, bool kCounts>
class DistinctSet {
 public:
  // `expected`: how many values will be added, duplicates counted. Only a guide for the first size and for growing.
  explicit DistinctSet(int64_t expected) : expected_(expected) {
    int64_t buckets = 8;
    while (buckets * kWidth < 2 * expected && buckets < kFirstBuckets) buckets *= 2;
    Resize(buckets);
  }

  int64_t size() const { return size_; }
  T value(int64_t place) const { return entries_[place].value; }
  int64_t count(int64_t place) const { return entries_[place].count(); }

  // Makes room for `more` values. Called before each block of values, with `added` of them added so far.
  void Reserve(int64_t added, int64_t more) {
    if (size_ + more > limit_) {
      // As many new values as in the last block from here on, at most: under Zipf's law they get rarer. Growing to what
      // is likely in one go spares distinct values two more rounds of moving.
      const double rate =
          static_cast<double>(size_ - last_size_) / static_cast<double>(std::max<int64_t>(added - last_added_, 1));
      const int64_t likely =
          size_ + static_cast<int64_t>(rate * static_cast<double>(std::max<int64_t>(expected_ - added, 0)));
      int64_t buckets = 2 * static_cast<int64_t>(buckets_.size());
      while (MaxLoad(buckets) < std::max(likely, size_ + more)) buckets *= 2;
      Resize(buckets);
    }
    last_size_ = size_;
    last_added_ = added;
  }

  void Prefetch(uint32_t tag) const { __builtin_prefetch(&buckets_[tag >> shift_], 1); }

  // The place of x, new or not. There must be room.
  uint32_t Add(uint32_t tag, T x) {
    for (uint64_t b = tag >> shift_;; b = (b + 1) & mask_) {
      Bucket& bucket = buckets_[b];
      const uint32_t empty = bucket.Match(bucket.places, 0);
      // Slots fill from the first on, so an empty one, whose tag means nothing, is never before a full one.
      uint32_t match = bucket.Match(bucket.tags, tag) & ~empty;
      for (; match != 0; match &= match - 1) {
        const uint32_t place = bucket.places[__builtin_ctz(match)] - 1;
        if (sizeof(T) == 4 || entries_[place].value == x) {
          entries_[place].Increment();
          return place;
        }
      }
      if (empty == 0) continue;
      const uint32_t place = static_cast<uint32_t>(size_++);
      bucket.Put(__builtin_ctz(empty), tag, place + 1);
      entries_[place].Set(x);
      return place;
    }
  }

 private:
  static constexpr int kWidth = 8;
  static constexpr int64_t kFirstBuckets =
      1 << 11;  // 128 KiB: leaves room for the rest in a second-level cache of 512 KiB.

  struct alignas(64) Bucket {
    uint32_t tags[kWidth];
    uint32_t places[kWidth];

    // Bit k: words[k] == word.
    uint32_t Match(const uint32_t* words, uint32_t word) const {
      const __m128i wanted = _mm_set1_epi32(static_cast<int>(word));
      const __m128i* quads = reinterpret_cast<const __m128i*>(words);
      const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(quads), wanted);
      const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(quads + 1), wanted);
      return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(low))) |
             static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(high))) << 4;
    }
    void Put(int slot, uint32_t tag, uint32_t place_plus_1) {
      tags[slot] = tag;
      places[slot] = place_plus_1;
    }
  };

  struct PlainEntry {
    T value;
    void Set(T x) { value = x; }
    void Increment() {}
    int64_t count() const { return 0; }
  };
  struct CountedEntry {
    T value;
    std::make_unsigned_t<T> occurrences;  // As wide as T, so without padding. Unique takes fewer than 2^32 values.
    void Set(T x) { value = x, occurrences = 1; }
    void Increment() { ++occurrences; }
    int64_t count() const { return static_cast<int64_t>(occurrences); }
  };
  using Entry = std::conditional_t<kCounts, CountedEntry, PlainEntry>;

  // At 5 of 8 slots a bucket, one value in 20 goes on to the next bucket.
  static int64_t MaxLoad(int64_t buckets) { return buckets * 5; }

  void Resize(int64_t buckets) {
    ScratchArray<Bucket> old(static_cast<size_t>(buckets));
    std::swap(old, buckets_);
    mask_ = static_cast<uint64_t>(buckets) - 1;
    shift_ = 32 - __builtin_ctzll(static_cast<uint64_t>(buckets));
    limit_ = MaxLoad(buckets);
    for (size_t k = 0; k < old.size(); ++k) {
      const Bucket& bucket = old[k];
      for (int slot = 0; slot < kWidth && bucket.places[slot] != 0; ++slot)
        Move(bucket.tags[slot], bucket.places[slot]);
    }
    ScratchArray<Entry> entries(static_cast<size_t>(limit_), ScratchContents::kUndefined);
    if (size_ > 0) std::memcpy(static_cast<void*>(entries.data()), entries_.data(), size_ * sizeof(Entry));
    entries_ = std::move(entries);
  }

  void Move(uint32_t tag, uint32_t place_plus_1) {
    for (uint64_t b = tag >> shift_;; b = (b + 1) & mask_) {
      Bucket& bucket = buckets_[b];
      const uint32_t empty = bucket.Match(bucket.places, 0);
      if (empty == 0) continue;
      bucket.Put(__builtin_ctz(empty), tag, place_plus_1);
      return;
    }
  }

  const int64_t expected_;
  ScratchArray<Bucket> buckets_;
  ScratchArray<Entry> entries_;  // [limit_], by place.
  uint64_t mask_ = 0;
  int shift_ = 0;
  int64_t limit_ = 0;
  int64_t last_size_ = 0;
  int64_t last_added_ = 0;
  int64_t size_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_DISTINCT_SET_H_
