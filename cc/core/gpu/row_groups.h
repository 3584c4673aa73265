// Which occurrences each row has, for many tensors of row numbers at once: the front of sums of duplicates, on the GPU.
//
// All (job, row) pairs are sorted by one stable radix sort, so that a row's occurrences stand together, in the order in
// which they came. A sum over them then has an order that ids alone decide, never scheduling: the first 64 terms one
// after another, then the sums of each further 64. Up to 64 duplicates that is the CPU's order, bit for bit; beyond,
// the pieces let many threads work on a row that half the batch has. TensorFlow's own GPU kernels add with atomics, in
// any order, so nothing is lost by it.
#ifndef TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_
#define TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_

#include <cstdint>
#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/scratch.h"

namespace tf_booster {
namespace gpu {

// Row numbers of one job. Those outside [0, rows) are nobody's.
template <class Index>
struct RowNumbers {
  const Index* indices = nullptr;  // [units]
  int64_t units = 0;
  int64_t rows = 0;
};

// The occurrences of one job, sorted. A view of the card's memory.
struct RowGroups {
  const uint64_t* keys = nullptr;  // [size], rising: first_key + row.
  const int32_t* order = nullptr;  // [size]: first_place + place in `indices`.
  int32_t* head_of = nullptr;      // [rows]: 1 + where in `keys` the row begins, 0 for none; or null.
  uint64_t first_key = 0;
  int64_t first_place = 0;
  int64_t size = 0;
  int64_t rows = 0;

  // What stands at a position.
  struct Position {
    uint64_t key;
    int64_t place;
  };
  TFB_HOST_DEVICE Position At(int64_t k) const { return {keys[k], place(k)}; }

  // Whether position k is the first one of a row. Both keys are asked for at once.
  TFB_HOST_DEVICE bool is_head(int64_t k) const {
    const uint64_t before = keys[k == 0 ? 0 : k - 1], key = keys[k];
    return static_cast<int64_t>(key - first_key) < rows && (k == 0 || key != before);
  }
  TFB_HOST_DEVICE int64_t row(int64_t k) const { return static_cast<int64_t>(keys[k] - first_key); }
  TFB_HOST_DEVICE int64_t place(int64_t k) const { return order[k] - first_place; }
  TFB_HOST_DEVICE bool has(int64_t k, uint64_t key) const { return k < size && keys[k] == key; }
};

inline constexpr int64_t kPiece = 64;

// How many columns of partial sums SumOfRow wants for a job: one a whole piece.
inline int64_t NumPieces(int64_t size) { return size / kPiece + 1; }

// Where in block `block` of 64 positions a piece begins that is not the first of its row; -1 for nowhere. There is at
// most one: it is a multiple of 64 behind the row's head, which stands in an earlier block.
TFB_HOST_DEVICE int64_t LaterPiece(const RowGroups& groups, int64_t block) {
  const int64_t begin = block * kPiece;
  if (block == 0 || !groups.has(begin, groups.keys[begin - 1])) return -1;
  const uint64_t key = groups.keys[begin - 1];
  int64_t low = 0, high = begin - 1;  // The first position with the key is in [low, high].
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (groups.keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const int64_t piece = low + CeilDiv(begin - low, kPiece) * kPiece;
  return groups.has(piece, key) && groups.row(piece) < groups.rows ? piece : -1;
}

template <class Index>
struct KeyJob {
  RowNumbers<Index> numbers;
  uint64_t first_key;
  int64_t first_place;
  int64_t units;
};

struct WriteKeys {
  uint64_t* keys;
  int32_t* order;

  template <class Index>
  TFB_HOST_DEVICE void operator()(const KeyJob<Index>& job, int64_t i) const {
    const int64_t row = static_cast<int64_t>(job.numbers.indices[i]);
    const bool inside = row >= 0 && row < job.numbers.rows;
    const int64_t place = job.first_place + i;
    keys[place] = job.first_key + static_cast<uint64_t>(inside ? row : job.numbers.rows);
    order[place] = static_cast<int32_t>(place);
  }
};

struct HeadJob {
  RowGroups groups;
  int64_t units;
};

struct WriteHeads {
  TFB_HOST_DEVICE void operator()(const HeadJob& job, int64_t k) const {
    if (job.groups.is_head(k)) job.groups.head_of[job.groups.row(k)] = static_cast<int32_t>(k + 1);
  }
};

// The sum of the sizes, which must be below 2^31.
template <class Index>
int64_t TotalSize(const std::vector<RowNumbers<Index>>& jobs) {
  int64_t total = 0;
  for (const auto& job : jobs) total += job.units;
  return total;
}

// Sorts the occurrences of all jobs. with_heads: head_of is wanted. A Scratch of null only measures.
template <class Queue, class Index>
std::vector<RowGroups> GroupRows(Queue* queue, const std::vector<RowNumbers<Index>>& jobs, bool with_heads,
                                 Scratch* scratch) {
  const int64_t total = TotalSize(jobs);
  uint64_t* const keys = scratch->Take<uint64_t>(total);
  int32_t* const order = scratch->Take<int32_t>(total);
  uint64_t* const sorted_keys = scratch->Take<uint64_t>(total);
  int32_t* const sorted_order = scratch->Take<int32_t>(total);
  void* const sort_scratch = scratch->Take<char>(Queue::SortBytes(total));
  std::vector<RowGroups> groups;
  std::vector<KeyJob<Index>> key_jobs;
  std::vector<HeadJob> head_jobs;
  uint64_t key = 0;
  int64_t place = 0, rows = 0;
  for (const auto& job : jobs) rows += job.rows;
  int32_t* const heads = with_heads ? scratch->Take<int32_t>(rows) : nullptr;
  int32_t* head_of = heads;
  for (const auto& job : jobs) {
    key_jobs.push_back({job, key, place, job.units});
    groups.push_back({sorted_keys == nullptr ? nullptr : sorted_keys + place,
                      sorted_order == nullptr ? nullptr : sorted_order + place, head_of, key, place, job.units,
                      job.rows});
    head_jobs.push_back({groups.back(), job.units});
    key += static_cast<uint64_t>(job.rows) + 1;  // One for those outside.
    place += job.units;
    if (head_of != nullptr) head_of += job.rows;
  }
  if (queue == nullptr) return groups;
  int bits = 1;
  while (bits < 64 && (key >> bits) != 0) ++bits;
  ForEachUnit(*queue, key_jobs, WriteKeys{keys, order});
  queue->Sort(keys, sorted_keys, order, sorted_order, total, bits, sort_scratch);
  if (with_heads) {
    queue->Zero(heads, rows * static_cast<int64_t>(sizeof(int32_t)));
    ForEachUnit(*queue, head_jobs, WriteHeads());
  }
  return groups;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_
