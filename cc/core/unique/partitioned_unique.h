// Unique of many values: they are parted by their hash first, so that each partition's table fits the second-level
// cache and threads share no part of the work.
//
//   1. Each chunk of x is sorted by partition, within its own stretch of the scratch arrays.
//   2. Each partition goes through its runs, in the order of the chunks, and numbers its values; the numbers go where
//   the
//      values of the run were.
//   3. Each chunk takes the numbers of its values back: it meets those of each run in the order in which it wrote them.
//
// Nothing depends on the number of threads, the result neither.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_PARTITIONED_UNIQUE_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_PARTITIONED_UNIQUE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/unique/place_table.h"
#include "cc/core/unique/scratch_array.h"

namespace tf_booster {

template <class T, bool kCounts>
class PartitionedUnique {
 public:
  // `likely`: about how many values are distinct; more are found, too.
  PartitionedUnique(const T* x, int64_t n, int64_t likely, ParallelFor* pf)
      : x_(x),
        n_(n),
        likely_(likely),
        pf_(*pf),
        chunks_((n + kChunk - 1) / kChunk),
        part_bits_(PartBits(n)),
        parts_(int64_t{1} << part_bits_),
        part_of_(n, ScratchContents::kUndefined),
        sorted_(n, ScratchContents::kUndefined),
        places_(n, ScratchContents::kUndefined),
        distinct_(n + parts_ * PlaceTable<T, kCounts>::kOverrun, ScratchContents::kUndefined),
        occurrences_(kCounts ? n + parts_ * PlaceTable<T, kCounts>::kOverrun : 0, ScratchContents::kUndefined),
        run_ends_(chunks_ * parts_),
        part_starts_(parts_ + 1),
        value_starts_(parts_ + 1) {
    ForEach(chunks_, n_ * 2, [this](int64_t chunk) { SortChunk(chunk); });
    for (int64_t part = 0; part < parts_; ++part) {
      int64_t size = 0;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) size += RunEnd(chunk, part) - RunBegin(chunk, part);
      part_starts_[part + 1] = part_starts_[part] + size + PlaceTable<T, kCounts>::kOverrun;
    }
    NumberParts();
    for (int64_t part = 0; part < parts_; ++part) value_starts_[part + 1] += value_starts_[part];
  }

  int64_t size() const { return value_starts_[parts_]; }

  // idx[i] = first + the place of x[i] in values. Once.
  template <class Index>
  void Write(int64_t first, Index* idx, T* values, int64_t* counts) {
    ForEach(chunks_, n_ * 2, [=](int64_t chunk) {
      for (int64_t part = parts_ * chunk / chunks_; part < parts_ * (chunk + 1) / chunks_; ++part) {
        const int64_t begin = value_starts_[part], size = value_starts_[part + 1] - begin;
        std::copy_n(distinct_.data() + part_starts_[part], size, values + begin);
        if (kCounts) std::copy_n(occurrences_.data() + part_starts_[part], size, counts + begin);
      }
      WriteIdx(chunk, first, idx);
    });
  }

 private:
  // A chunk's values and their copy are 320 KiB of int64, which the second-level cache holds from the first look at
  // them to the second. Not a power of two: then the runs that are written to at once would lie in the same few cache
  // sets.
  static constexpr int64_t kChunk = 20000;
  // Values a partition on average. If they differ, their table takes 512 KiB. With half or a quarter of it a million
  // values take 9 or 14 percent longer, as there are more runs to write to at once than the first-level cache has room
  // for. On Granite Rapids, its caches full of other things, half and double of both sizes are within the noise of 3
  // percent, and so is leaving distinct_ out (8.5 to 9.4 ns a value, all distinct; 7.0 to 7.2 run after run).
  static constexpr int64_t kPartSize = 1 << 15;
  // What is read or written in 32 places at once is fetched in a row before, since no hardware prefetcher follows so
  // many: what SortChunk writes (a million values: 1.2 ms of 12.5), and what WriteIdx reads (0.7 ms). The same for the
  // next run of a partition won nothing.
  static constexpr int64_t kLineBytes = 64;
  static constexpr int64_t kLineValues = kLineBytes / sizeof(T);
  static constexpr int kMaxPartBits = 8;  // Part numbers are bytes.

  static int PartBits(int64_t n) {
    int bits = 1;
    while (bits < kMaxPartBits && (n >> bits) > kPartSize) ++bits;
    return bits;
  }

  int64_t ChunkEnd(int64_t chunk) const { return std::min(n_, (chunk + 1) * kChunk); }
  int64_t RunBegin(int64_t chunk, int64_t part) const {
    return part == 0 ? chunk * kChunk : chunk * kChunk + run_ends_[chunk * parts_ + part - 1];
  }
  int64_t RunEnd(int64_t chunk, int64_t part) const { return chunk * kChunk + run_ends_[chunk * parts_ + part]; }

  // visit(0) to visit(total - 1), each by whichever thread is free: frequent values make partitions unequal.
  template <class Visit>
  void ForEach(int64_t total, int64_t cost_ns, Visit visit) {
    std::atomic<int64_t> next{0};
    const int64_t threads = std::min<int64_t>(pf_.num_threads(), total);
    pf_.Run(threads, cost_ns / threads, [&](int64_t, int64_t) {
      for (int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < total;) visit(k);
    });
  }

  void SortChunk(int64_t chunk) {
    const int64_t begin = chunk * kChunk, size = ChunkEnd(chunk) - begin;
    const T* const x = x_ + begin;
    uint8_t* const part_of = part_of_.data() + begin;
    T* const sorted = sorted_.data() + begin;
    const int shift = 32 - part_bits_;
    uint32_t next[1 << kMaxPartBits] = {};
    for (int64_t line = 0; line < size; line += kLineValues) {
      __builtin_prefetch(sorted + line, /*write=*/1);
      for (int64_t i = line; i < std::min(size, line + kLineValues); ++i) {
        part_of[i] = static_cast<uint8_t>(PartitionHash(x[i]) >> shift);
        ++next[part_of[i]];
      }
    }
    uint32_t sum = 0;
    for (int64_t part = 0; part < parts_; ++part) {
      const uint32_t run = next[part];
      next[part] = sum;
      sum += run;
      run_ends_[chunk * parts_ + part] = sum;
    }
    for (int64_t i = 0; i < size; ++i) sorted[next[part_of[i]]++] = x[i];
  }

  void NumberParts() {
    std::atomic<int64_t> next{0};
    const int64_t threads = std::min<int64_t>(pf_.num_threads(), parts_);
    pf_.Run(threads, n_ * 5 / threads, [&](int64_t, int64_t) {
      int64_t part = next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts_) return;
      // Half the table where half are distinct: five percent less by Zipf's law.
      PlaceTable<T, kCounts> table(likely_ >> part_bits_);
      for (; part < parts_; part = next.fetch_add(1, std::memory_order_relaxed)) {
        NumberPart(part, &table);
      }
    });
  }

  void NumberPart(int64_t part, PlaceTable<T, kCounts>* table) {
    table->Clear();
    // Should too many values be of one partition, it begins anew with a larger table.
    for (int64_t chunk = 0; chunk < chunks_;) {
      const int64_t begin = RunBegin(chunk, part), size = RunEnd(chunk, part) - begin;
      if (table->HasRoom(size)) {
        table->Add(sorted_.data() + begin, size, part_bits_, places_.data() + begin);
        ++chunk;
      } else {
        table->Grow();
        chunk = 0;
      }
    }
    table->Number(distinct_.data() + part_starts_[part], kCounts ? occurrences_.data() + part_starts_[part] : nullptr);
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const int64_t begin = RunBegin(chunk, part);
      table->PlacesOfSlots(places_.data() + begin, RunEnd(chunk, part) - begin);
    }
    value_starts_[part + 1] = table->size();
  }

  template <class Index>
  void WriteIdx(int64_t chunk, int64_t first, Index* idx) const {
    const int64_t end = ChunkEnd(chunk);
    const uint32_t* next[1 << kMaxPartBits];
    Index bases[1 << kMaxPartBits];
    for (int64_t part = 0; part < parts_; ++part) {
      next[part] = places_.data() + RunBegin(chunk, part);
      bases[part] = static_cast<Index>(first + value_starts_[part]);
    }
    for (int64_t i = chunk * kChunk; i < end; i += kLineBytes / sizeof(uint32_t)) __builtin_prefetch(&places_[i]);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const uint8_t part = part_of_[i];
      idx[i] = bases[part] + static_cast<Index>(*next[part]++);
    }
  }

  const T* const x_;
  const int64_t n_;
  const int64_t likely_;
  ParallelFor& pf_;
  const int64_t chunks_;
  const int part_bits_;
  const int64_t parts_;
  ScratchArray<uint8_t> part_of_;  // [n]
  ScratchArray<T> sorted_;         // [n]: a chunk's values by partition.
  ScratchArray<uint32_t> places_;  // [n]: of the values in sorted_, within their partition.
  ScratchArray<T> distinct_;       // From part_starts_[part] on: the values of a partition.
  ScratchArray<uint32_t> occurrences_;
  std::vector<uint32_t> run_ends_;  // [chunk, part]: from the beginning of the chunk.
  std::vector<int64_t> part_starts_;
  std::vector<int64_t> value_starts_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_PARTITIONED_UNIQUE_H_
