// Comparisons of what parsers return, for tests.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_TESTING_SAME_RESULTS_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_TESTING_SAME_RESULTS_H_

#include <vector>

#include "cc/core/base/test.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {
namespace testing {

inline bool Same(const tensorflow::Tensor& a, const tensorflow::Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() != tensorflow::DT_STRING) return a.tensor_data() == b.tensor_data();
  for (int64_t i = 0; i < a.NumElements(); ++i) {
    if (a.flat<tensorflow::tstring>()(i) != b.flat<tensorflow::tstring>()(i)) return false;
  }
  return true;
}

inline void ExpectSame(const std::vector<tensorflow::Tensor>& ours, const std::vector<tensorflow::Tensor>& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(Same(ours[i], theirs[i]));
}

inline void ExpectSame(const tensorflow::example::Result& ours, const tensorflow::example::Result& theirs) {
  ExpectSame(ours.dense_values, theirs.dense_values);
  ExpectSame(ours.sparse_indices, theirs.sparse_indices);
  ExpectSame(ours.sparse_values, theirs.sparse_values);
  ExpectSame(ours.sparse_shapes, theirs.sparse_shapes);
  ExpectSame(ours.ragged_values, theirs.ragged_values);
  ExpectSame(ours.ragged_splits, theirs.ragged_splits);
  ExpectSame(ours.ragged_outer_splits, theirs.ragged_outer_splits);
}

}  // namespace testing
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_TESTING_SAME_RESULTS_H_
