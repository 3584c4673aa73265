// Dot products of pairs of vectors within each example, as a DLRM makes them of its embeddings, and their gradient.
//
// From ops that is a batched product of all vectors with all, [rows, fields, fields], of which a gather keeps less than
// half; its gradient scatters that back between two transposes and multiplies twice. Here an example's vectors are read
// once, from wherever they lie, and what is between them and the dots stays in the first-level cache.
// pair_dots_loops.h has the algorithm.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Some of the vectors of all examples: [rows, fields * dim], packed. Parts one after another are the fields 0, 1, …
template <class Float>
struct FieldPart {
  Float* data = nullptr;
  int64_t fields = 0;
};

// The dots of all examples: [rows, pairs], a row's beside each other, `step` floats from one row's to the next's. They
// may be columns of a wider matrix.
template <class Float>
struct DotColumns {
  Float* data = nullptr;
  int64_t step = 0;
};

// Which pairs, in which order.
class PairPlan {
 public:
  // pairs: place p has the dot of the fields i and j where pairs[p] = i * fields + j; no two are equal.
  PairPlan(int64_t fields, const std::vector<int64_t>& pairs);

  // Pairs of one i with consecutive j: places [place, place + length) are (row, column), (row, column + 1), …
  struct Run {
    int64_t row, column, place, length;
  };

  int64_t fields() const { return fields_; }
  int64_t size() const { return size_; }
  const std::vector<Run>& runs() const { return runs_; }  // By place.
  const std::vector<Run>& runs_by_row() const { return runs_by_row_; }
  // Columns that rows [4 * g, 4 * g + 4) need: [begin, end).
  const std::vector<int64_t>& begins() const { return begins_; }
  const std::vector<int64_t>& ends() const { return ends_; }
  // Where the run of each row begins, if they are all pairs (i, j < i), each row's in the order of j; or empty.
  const std::vector<int64_t>& lower() const { return lower_; }

 private:
  int64_t fields_, size_;
  std::vector<Run> runs_, runs_by_row_;
  std::vector<int64_t> begins_, ends_, lower_;
};

// The highest level that has loops of its own and that this machine runs: kScalar, kAvx2 (and FMA) or kAvx512. The last
// two give the same bits; kScalar rounds products before it adds them.
SimdLevel PairDotsLevel();

// Writes nothing but the dots. Each is one sum in the order of the vectors' elements, whatever the number of threads.
// Calls also(begin, end) on the same rows, some at a time. level: one that this machine runs.
void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              DotColumns<float> dots, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also,
              SimdLevel level = PairDotsLevel());
void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              DotColumns<float> dots, ParallelFor& pf, SimdLevel level = PairDotsLevel());

// The gradients of `parts`, written to `gradients`, from that of the dots. Each is one sum in the order of the fields.
void DotPairsGradient(const PairPlan& plan, int64_t rows, int64_t dim, DotColumns<const float> gradient,
                      const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients,
                      ParallelFor& pf, SimdLevel level = PairDotsLevel());

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_
