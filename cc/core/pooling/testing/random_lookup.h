// A lookup of random ids, for tests of pooling.
#ifndef TF_BOOSTER_CC_CORE_POOLING_TESTING_RANDOM_LOOKUP_H_
#define TF_BOOSTER_CC_CORE_POOLING_TESTING_RANDOM_LOOKUP_H_

#include <random>

#include "cc/core/gpu/card_or_host.h"
#include "cc/core/pooling/segment_pooling.h"

namespace tf_booster {
namespace testing {

// `rows` rows of up to `longest` of the `distinct` embeddings of `dim` columns, with weights of both signs.
template <class T>
struct RandomLookup {
  gpu::Array<int32_t> splits, idx;
  gpu::Array<float> weights;
  gpu::Array<char> zero;  // Of bools.
  int64_t distinct, dim;
  gpu::Array<T> embeddings, upstream;

  RandomLookup(int seed, int64_t rows, int64_t longest, int64_t distinct, int64_t dim) : distinct(distinct), dim(dim) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    zero.resize(rows);
    splits.push_back(0);
    for (int64_t r = 0; r < rows; ++r) {
      zero[r] = random() % 7 == 0;
      for (int64_t i = random() % (longest + 1); i > 0; --i) {
        idx.push_back(static_cast<int32_t>(random() % distinct));
        weights.push_back(normal(random));
      }
      splits.push_back(static_cast<int32_t>(idx.size()));
    }
    for (int64_t i = 0; i < distinct * dim; ++i) embeddings.push_back(normal(random));
    for (int64_t i = 0; i < rows * dim; ++i) upstream.push_back(normal(random));
  }

  PoolingSegments Segments(Combiner combiner, bool weighted, bool zeroed) const {
    PoolingSegments s;
    s.combiner = combiner;
    s.rows = static_cast<int64_t>(splits.size()) - 1;
    s.row_splits = splits.data();
    s.idx = idx.data();
    s.zero_rows = zeroed ? reinterpret_cast<const bool*>(zero.data()) : nullptr;
    s.weights = weighted ? weights.data() : nullptr;
    s.distinct = distinct;
    s.dim = dim;
    return s;
  }
};

}  // namespace testing
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_TESTING_RANDOM_LOOKUP_H_
