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

// The sum of a row's terms: in pieces of 64, these in blocks of 64, and then the blocks, each one after another.
template <class T>
T SumInPieces(std::vector<T> terms) {
  if (terms.empty()) return T(0);
  for (const size_t length : {size_t{64}, size_t{64}, terms.size()}) {
    std::vector<T> sums;
    for (size_t i = 0; i < terms.size(); ++i)
      i % length == 0 ? sums.push_back(terms[i]) : void(sums.back() += terms[i]);
    terms = sums;
  }
  return terms[0];
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
