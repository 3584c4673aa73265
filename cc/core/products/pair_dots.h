// Dot products of pairs of vectors within each example, as a DLRM makes them of its embeddings, and their gradient.
//
// From ops that is a batched product of all vectors with all, [rows, fields, fields], of which a gather keeps less than
// half; its gradient scatters that back between two transposes and multiplies twice. Here an example's vectors are read
// once, from wherever they lie, and what is between them and the dots stays in the first-level cache.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// Some of the vectors of all examples: [rows, fields * dim], packed. Parts one after another are the fields 0, 1, …
template <class Float>
struct FieldPart {
  Float* data = nullptr;
  int64_t fields = 0;
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
  int64_t padded() const { return padded_; }  // fields, rounded up to whole vectors.
  int64_t size() const { return size_; }
  const std::vector<Run>& runs() const { return runs_; }  // By place.
  const std::vector<Run>& runs_by_row() const { return runs_by_row_; }
  // Columns that rows [4 * g, 4 * g + 4) need, as whole vectors: [begin, end) in floats.
  const std::vector<int64_t>& begins() const { return begins_; }
  const std::vector<int64_t>& ends() const { return ends_; }

 private:
  int64_t fields_, padded_, size_;
  std::vector<Run> runs_, runs_by_row_;
  std::vector<int64_t> begins_, ends_;
};

// dots: [rows, plan.size()]. Each is one sum in the order of the vectors' elements, whatever the number of threads.
void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              float* dots, ParallelFor& pf);

// The gradients of `parts`, written to `gradients`, from that of the dots, [rows, plan.size()].
void DotPairsGradient(const PairPlan& plan, int64_t rows, int64_t dim, const float* gradient,
                      const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients,
                      ParallelFor& pf);

// The same by loops that any processor runs: what these do without FMA. For tests.
void DotPairsPlainly(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
                     float* dots);
void DotPairsGradientPlainly(const PairPlan& plan, int64_t rows, int64_t dim, const float* gradient,
                             const std::vector<FieldPart<const float>>& parts,
                             const std::vector<FieldPart<float>>& gradients);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_H_
