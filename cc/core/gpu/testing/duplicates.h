// Rows with given numbers of duplicates, and the sums that row_groups.h promises for them, added the slow way.
#ifndef TF_BOOSTER_CC_CORE_GPU_TESTING_DUPLICATES_H_
#define TF_BOOSTER_CC_CORE_GPU_TESTING_DUPLICATES_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tf_booster {
namespace testing {

// Around the four terms that are asked for at once and the 64 of a piece, up to several pieces.
inline std::vector<int64_t> ManyDuplicates() { return {1, 3, 200, 4, 0, 5, 63, 2, 64, 65, 450, 8}; }

// The same from `first` on and round to there: each number is once that of the last row, whose terms are at the very
// end of what is sorted.
inline std::vector<int64_t> Rotated(std::vector<int64_t> counts, int64_t first) {
  std::rotate(counts.begin(), counts.begin() + first, counts.end());
  return counts;
}

// Row r counts[r] times, in any order.
template <class Indices>
Indices RowsWithDuplicates(const std::vector<int64_t>& counts, int seed) {
  Indices rows;
  for (size_t r = 0; r < counts.size(); ++r) rows.insert(rows.end(), counts[r], static_cast<int>(r));
  std::shuffle(rows.begin(), rows.end(), std::mt19937(seed));
  return rows;
}

// The sum of a row's terms: the first 64 one after another, then the sums of each of the next 64 pieces of 64, then
// those of blocks of 64 pieces; sums of pieces and of blocks are made in the same way.
template <class T>
T SumInPieces(const std::vector<T>& terms) {
  const auto in_turn = [](const std::vector<T>& some, size_t begin, size_t end) {
    T sum = some[begin];
    for (size_t i = begin + 1; i < std::min(end, some.size()); ++i) sum += some[i];
    return sum;
  };
  if (terms.empty()) return T(0);
  std::vector<T> pieces, blocks;
  for (size_t begin = 0; begin < terms.size(); begin += 64) pieces.push_back(in_turn(terms, begin, begin + 64));
  blocks.push_back(in_turn(pieces, 0, 65));
  for (size_t begin = 65; begin < pieces.size(); begin += 64) blocks.push_back(in_turn(pieces, begin, begin + 64));
  return in_turn(blocks, 0, blocks.size());
}

// Numbers of both signs and many sizes, whose sums have other bits in another order.
template <class T>
T NumberOfAnySize(std::mt19937* random) {
  // Drawn one after another: in one expression the compiler may choose the order.
  const T fraction = static_cast<T>((*random)() % 100000 + 1) / T(1 << 16) / T(3);
  const T size = static_cast<T>(1 << (*random)() % 8);
  return (*random)() % 2 == 0 ? fraction * size : -fraction * size;
}

}  // namespace testing
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_TESTING_DUPLICATES_H_
