// Which occurrences each row has, for many tensors of row numbers at once: the front of sums of duplicates, on the GPU.
//
// All (job, row) pairs are sorted by one stable radix sort, so that a row's occurrences stand together, in the order in
// which they came. A sum over them then has an order that ids alone decide, never scheduling. Up to 64 terms are added
// one after another: the CPU's order, bit for bit. A **long** row's are added in pieces of 64, the pieces in blocks of
// 64, and then the blocks, so that many threads work on a row that half the batch has. TensorFlow's own GPU kernels add
// with atomics, in any order, so nothing is lost by it.
#ifndef TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_
#define TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/row_parts.h"
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
  int32_t mod_parts = 1;  // Above 1: indices are ids of a table in so many parts by "mod", and rows their places.

  TFB_HOST_DEVICE int64_t RowAt(int64_t i) const {
    const int64_t row = static_cast<int64_t>(indices[i]);
    if (row < 0 || row >= rows) return rows;
    return mod_parts == 1 ? row : RowParts{mod_parts, rows, true}.PlaceOf(row);
  }
};

// The occurrences of one job, sorted. A view of the card's memory. Key: uint64_t, or uint32_t where keys are below
// 2^32: the sort takes two thirds of the time then.
template <class Key>
struct SortedGroups {
  const Key* keys = nullptr;       // [size], rising: first_key + row.
  const int32_t* order = nullptr;  // [size]: first_place + place in `indices`.
  int32_t* head_of = nullptr;      // [rows]: 1 + where in `keys` the row begins, 0 for none; or null.
  Key first_key = 0;
  int64_t first_place = 0;
  int64_t size = 0;
  int64_t rows = 0;

  // What stands at a position.
  struct Position {
    Key key;
    int64_t place;
  };
  TFB_HOST_DEVICE Position At(int64_t k) const { return {keys[k], place(k)}; }

  // Whether position k is the first one of a row. Both keys are asked for at once.
  TFB_HOST_DEVICE bool is_head(int64_t k) const {
    const Key before = keys[k == 0 ? 0 : k - 1], key = keys[k];
    return static_cast<uint64_t>(key - first_key) < static_cast<uint64_t>(rows) && (k == 0 || key != before);
  }
  TFB_HOST_DEVICE int64_t row(int64_t k) const { return static_cast<int64_t>(keys[k] - first_key); }
  TFB_HOST_DEVICE int64_t place(int64_t k) const { return order[k] - first_place; }
  TFB_HOST_DEVICE bool has(int64_t k, Key key) const { return k < size && keys[k] == key; }

  // The same for rows [first, first + count) alone: others have no head.
  SortedGroups OfRows(int64_t first, int64_t count) const {
    SortedGroups some = *this;
    some.first_key += static_cast<Key>(first);
    some.rows = count;
    if (head_of != nullptr) some.head_of += first;
    return some;
  }
};
using RowGroups = SortedGroups<uint64_t>;

// Terms of a piece, and of a block of pieces.
inline constexpr int64_t kPiece = 64;
inline constexpr int64_t kBlock = 64 * kPiece;

// Partial sums of long rows stand by where they begin: by the window of kPiece positions, or of kBlock, which no two of
// a kind share.
//
//   [windows]  of a long row's first piece, then of its first block, by the window of its head
//   [windows]  of its further pieces
//   [windows of blocks]  of its further blocks
TFB_HOST_DEVICE int64_t WindowsOf(int64_t size) { return size / kPiece + 1; }
inline int64_t NumPartials(int64_t size) { return 2 * WindowsOf(size) + size / kBlock + 1; }
// How many units StorePartial has for pieces and for blocks: as many as there are places for their sums.
inline int64_t PieceUnits(int64_t size) { return size > kPiece ? 2 * WindowsOf(size) : 0; }
inline int64_t BlockUnits(int64_t size) { return size > kPiece ? NumPartials(size) - WindowsOf(size) : 0; }

// Where the row of position k begins, which is not before `low`. Without head_of 20 loads wait for each other, in a
// million.
template <class Key>
TFB_HOST_DEVICE int64_t HeadOf(const SortedGroups<Key>& groups, int64_t k, int64_t low = 0) {
  if (groups.head_of != nullptr) return groups.head_of[groups.row(k)] - 1;
  const Key key = groups.keys[k];
  int64_t high = k;  // It is in [low, high].
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (groups.keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The head of the long row that begins in a window of kPiece positions; -1 for none. Such a row has the window's last
// position and the next one's first.
template <class Key>
TFB_HOST_DEVICE int64_t LongRowIn(const SortedGroups<Key>& groups, int64_t window) {
  const int64_t begin = window * kPiece, next = begin + kPiece;
  if (next >= groups.size) return -1;
  const Key key = groups.keys[next];
  if (groups.keys[next - 1] != key || groups.row(next) >= groups.rows) return -1;
  if (begin > 0 && groups.keys[begin - 1] == key) return -1;
  const int64_t head = HeadOf(groups, next, begin);
  return groups.has(head + kPiece, key) ? head : -1;
}

// Where in a window of kLength positions a row is cut that begins before it; -1 for nowhere.
template <int64_t kLength, class Key>
TFB_HOST_DEVICE int64_t CutIn(const SortedGroups<Key>& groups, int64_t window) {
  const int64_t begin = window * kLength;
  if (window == 0 || begin >= groups.size) return -1;
  const Key key = groups.keys[begin - 1];
  if (groups.keys[begin] != key || groups.row(begin) >= groups.rows) return -1;
  const int64_t head = HeadOf(groups, begin - 1);
  const int64_t cut = head + CeilDiv(begin - head, kLength) * kLength;
  return groups.has(cut, key) ? cut : -1;
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
    const int64_t place = job.first_place + i;
    keys[place] = job.first_key + static_cast<uint64_t>(job.numbers.RowAt(i));
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

// The arrays of a sort, as a Scratch gives them.
template <class Queue, class Key>
struct RowSort {
  Key* keys;       // To be filled,
  int32_t* order;  // with 0, 1, ….
  Key* sorted_keys;
  int32_t* sorted_order;
  void* scratch;

  RowSort(int64_t size, Scratch* memory)
      : keys(memory->Take<Key>(size)),
        order(memory->Take<int32_t>(size)),
        sorted_keys(memory->Take<Key>(size)),
        sorted_order(memory->Take<int32_t>(size)),
        scratch(memory->Take<char>(Queue::template SortBytes<Key>(size))) {}

  // end: above all keys.
  void Run(Queue& queue, int64_t size, uint64_t end) const {
    int bits = 1;
    while (bits < 64 && (end >> bits) != 0) ++bits;
    queue.Sort(keys, sorted_keys, order, sorted_order, size, bits, scratch);
  }
};

// Sorts the occurrences of all jobs. with_heads: head_of is wanted. A Scratch of null only measures.
template <class Queue, class Index>
std::vector<RowGroups> GroupRows(Queue* queue, const std::vector<RowNumbers<Index>>& jobs, bool with_heads,
                                 Scratch* scratch) {
  const int64_t total = TotalSize(jobs);
  const RowSort<Queue, uint64_t> sort(total, scratch);
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
    groups.push_back({sort.sorted_keys == nullptr ? nullptr : sort.sorted_keys + place,
                      sort.sorted_order == nullptr ? nullptr : sort.sorted_order + place, head_of, key, place,
                      job.units, job.rows});
    head_jobs.push_back({groups.back(), job.units});
    key += static_cast<uint64_t>(job.rows) + 1;  // One for those outside.
    place += job.units;
    if (head_of != nullptr) head_of += job.rows;
  }
  if (queue == nullptr) return groups;
  ForEachUnit(*queue, key_jobs, WriteKeys{sort.keys, sort.order});
  sort.Run(*queue, total, key);
  if (with_heads) {
    queue->Zero(heads, rows * static_cast<int64_t>(sizeof(int32_t)));
    ForEachUnit(*queue, head_jobs, WriteHeads());
  }
  return groups;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ROW_GROUPS_H_
