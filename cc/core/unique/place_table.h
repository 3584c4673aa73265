// The distinct values of one partition: a hash table that fits the second-level cache and adds a value without a branch
// that depends on it.
//
// Buckets of eight values fill from the first slot on; how many a bucket has stands apart, so a table is empty again
// after clearing one byte for each bucket, and no value is reserved. A new value and a known one take the same
// instructions: under Zipf's law, which of the two comes next cannot be predicted. A value is known by its slot while
// the table fills; afterwards sums over the buckets make of slots places without a gap. (With places in the table a key
// touches two lines in place of one: 6.5 ns against 4.)
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_PLACE_TABLE_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_PLACE_TABLE_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cc/core/base/cpu_features.h"
#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

// With a bucket's values in one register. On Granite Rapids a million take 9.7 ns each in place of 11.0 (95 percent
// distinct), and 8.1 in place of 9.1 (Zipf's law); on Zen 4 it won nothing.
#define TFB_WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

// One instruction, and different for all values that differ in 32 neighbouring bits only.
inline uint32_t PartitionHash(int64_t x) { return static_cast<uint32_t>(_mm_crc32_u64(0, static_cast<uint64_t>(x))); }
inline uint32_t PartitionHash(int32_t x) { return _mm_crc32_u32(0, static_cast<uint32_t>(x)); }

template <class T, bool kCounts>
class PlaceTable {
 public:
  // `values`: about how many will be added; more fit after Grow. The same at every level.
  explicit PlaceTable(int64_t values, SimdLevel level = BestSimdLevel()) : wide_(level >= SimdLevel::kAvx512) {
    int64_t buckets = 64;
    while (buckets * kFill < values) buckets *= 2;
    Allocate(buckets);
  }

  void Clear() {
    size_ = 0;
    std::memset(filled_.data(), 0, buckets_);
  }
  void Grow() { Allocate(2 * buckets_); }  // And clears.

  int64_t size() const { return size_; }
  bool HasRoom(int64_t more) const { return size_ + more <= buckets_ * kMostFill; }

  // Adds x[0] to x[n - 1], whose hashes' first `part_bits` bits are one partition's. slots[j] becomes the slot of x[j].
  // There must be room.
  void Add(const T* x, int64_t n, int part_bits, uint32_t* slots) {
    wide_ ? AddWide(x, n, part_bits, slots) : AddPlain(x, n, part_bits, slots);
  }

  // Writes the values by place, and how often each was added; room for size() + 8.
  void Number(T* distinct, uint32_t* occurrences) {
    uint32_t place = 0;
    for (int64_t bucket = 0; bucket < buckets_; ++bucket) {
      starts_[bucket] = place;
      // All eight: a length that varies costs more.
      std::memcpy(distinct + place, keys_.data() + bucket * kWidth, kWidth * sizeof(T));
      if (kCounts) {
        std::memcpy(occurrences + place, occurrences_.data() + bucket * kWidth, kWidth * sizeof(uint32_t));
      }
      place += __builtin_ctz(filled_[bucket] + 1u);
    }
  }
  static constexpr int64_t kOverrun = 8;

  // After Number.
  void PlacesOfSlots(uint32_t* slots, int64_t n) const {
    wide_ ? PlacesOfSlotsWide(slots, n) : PlacesOfSlotsPlain(slots, n);
  }

 private:
  static constexpr uint32_t kWidth = 8;
  // Buckets are fetched from the second-level cache so many values ahead: 0.3 ns a value, though it hashes twice.
  static constexpr int64_t kAhead = 16;
  static constexpr int kFill = 4;      // Values a bucket at first: one in a hundred goes on to the next bucket.
  static constexpr int kMostFill = 6;  // Growing comes before.

  // Bit k of Match: keys[k] == value.
  struct PlainMatcher {
    static uint32_t Match(const int64_t* keys, int64_t value) {
      const __m128i wanted = _mm_set1_epi64x(value);
      const __m128i* pairs = reinterpret_cast<const __m128i*>(keys);
      const __m128i low = _mm_packs_epi32(_mm_cmpeq_epi64(_mm_load_si128(pairs), wanted),
                                          _mm_cmpeq_epi64(_mm_load_si128(pairs + 1), wanted));
      const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi64(_mm_load_si128(pairs + 2), wanted),
                                           _mm_cmpeq_epi64(_mm_load_si128(pairs + 3), wanted));
      return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128())));
    }
    static uint32_t Match(const int32_t* keys, int32_t value) {
      const __m128i wanted = _mm_set1_epi32(value);
      const __m128i* quads = reinterpret_cast<const __m128i*>(keys);
      const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(quads), wanted);
      const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(quads + 1), wanted);
      return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128())));
    }
  };
  struct WideMatcher {
    TFB_WIDE static uint32_t Match(const int64_t* keys, int64_t value) {
      return _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(keys), _mm512_set1_epi64(value));
    }
    TFB_WIDE static uint32_t Match(const int32_t* keys, int32_t value) {
      return _mm256_cmpeq_epi32_mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys)),
                                     _mm256_set1_epi32(value));
    }
  };

  __attribute__((noinline)) void AddPlain(const T* x, int64_t n, int part_bits, uint32_t* slots) {
    AddAll<PlainMatcher>(x, n, part_bits, slots);
  }
  TFB_WIDE __attribute__((noinline)) void AddWide(const T* x, int64_t n, int part_bits, uint32_t* slots) {
    AddAll<WideMatcher>(x, n, part_bits, slots);
  }
  template <class Matcher>
  __attribute__((always_inline)) void AddAll(const T* x, int64_t n, int part_bits, uint32_t* slots) {
    // A store to the bucket of a known value would hold up the next load of that bucket, and frequent values come soon
    // again: such stores go behind the last bucket.
    const uint64_t nowhere = static_cast<uint64_t>(buckets_) * kWidth;
    const int shift = 32 - part_bits - __builtin_ctzll(static_cast<uint64_t>(buckets_));
    const uint64_t mask = static_cast<uint64_t>(buckets_) - 1;
    const auto home = [=](T value) { return (PartitionHash(value) >> shift) & mask; };
    T* const keys = keys_.data();
    uint8_t* const filled_slots = filled_.data();
    int64_t added = 0;
    for (int64_t j = 0; j < n; ++j) {
      __builtin_prefetch(keys + home(x[std::min(n - 1, j + kAhead)]) * kWidth, /*write=*/1);
      const T value = x[j];
      uint64_t bucket = home(value);
      uint32_t filled, match, slot;
      while (true) {
        filled = filled_slots[bucket];
        match = Matcher::Match(keys + bucket * kWidth, value) & filled;
        slot = static_cast<uint32_t>(__builtin_ctz(match | (filled + 1)));
        if (__builtin_expect(slot < kWidth, 1)) break;
        bucket = (bucket + 1) & mask;
      }
      uint64_t is_new = match == 0;
      asm("" : "+r"(is_new));  // Or GCC makes a branch of it, one of three mispredicted under Zipf's law.
      slot += static_cast<uint32_t>(bucket) * kWidth;
      keys[nowhere ^ ((nowhere ^ slot) & (0 - is_new))] = value;
      filled_slots[bucket] = static_cast<uint8_t>(filled << is_new | is_new);
      slots[j] = slot;
      if (kCounts) {
        uint32_t* const occurrences = occurrences_.data() + slot;
        *occurrences = (*occurrences & (is_new - 1)) + 1;
      }
      added += is_new;
    }
    size_ += added;
  }

  void PlacesOfSlotsPlain(uint32_t* slots, int64_t n) const { PlaceAll(slots, n); }
  TFB_WIDE void PlacesOfSlotsWide(uint32_t* slots, int64_t n) const { PlaceAll(slots, n); }
  __attribute__((always_inline)) void PlaceAll(uint32_t* slots, int64_t n) const {
    const uint32_t* const starts = starts_.data();
    for (int64_t j = 0; j < n; ++j) slots[j] = starts[slots[j] / kWidth] + slots[j] % kWidth;
  }

  void Allocate(int64_t buckets) {
    buckets_ = buckets;
    size_ = 0;
    keys_ = ScratchArray<T>(buckets * kWidth + 1, ScratchContents::kUndefined);
    if (kCounts) occurrences_ = ScratchArray<uint32_t>(buckets * kWidth, ScratchContents::kUndefined);
    starts_ = ScratchArray<uint32_t>(buckets, ScratchContents::kUndefined);
    filled_ = ScratchArray<uint8_t>(buckets);
  }

  const bool wide_;
  int64_t buckets_ = 0;
  int64_t size_ = 0;
  ScratchArray<T> keys_;                // [buckets, kWidth], and one more.
  ScratchArray<uint32_t> occurrences_;  // [buckets, kWidth]
  ScratchArray<uint32_t> starts_;       // [buckets]: the place of a bucket's first value.
  ScratchArray<uint8_t> filled_;        // [buckets]
};

#undef TFB_WIDE

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_PLACE_TABLE_H_
