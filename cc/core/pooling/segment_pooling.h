// The end of a sparse lookup: rows of embeddings summed up by the rows of a batch, and the gradient of that.
//
// The order of the additions is that of TensorFlow's CPU kernels (SparseSegmentSum/Mean/SqrtN and their gradients; with
// weights: gather, multiply, SegmentSum, divide), so results are the same bit for bit, on any number of threads.
#ifndef TF_BOOSTER_CC_CORE_POOLING_SEGMENT_POOLING_H_
#define TF_BOOSTER_CC_CORE_POOLING_SEGMENT_POOLING_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

enum class Combiner { kSum, kMean, kSqrtN };

// One lookup. T: float or double.
struct PoolingSegments {
  Combiner combiner = Combiner::kSum;
  int64_t rows = 0;                     // Of the batch.
  const int32_t* row_splits = nullptr;  // [rows + 1]: row r has the places [row_splits[r], row_splits[r + 1]).
  const int32_t* idx = nullptr;         // [row_splits[rows]]: which of the `distinct` embeddings is at a place.
  const bool* zero_rows = nullptr;      // [rows]: rows whose result is zeros whatever is at their places; or null.
  const float* weights = nullptr;       // [row_splits[rows]], or null.
  int64_t distinct = 0;
  int64_t dim = 0;
};

// pooled [rows, dim] from embeddings [distinct, dim].
template <class T>
struct PoolingJob {
  PoolingSegments segments;
  const T* embeddings = nullptr;
  T* pooled = nullptr;
  int64_t pooled_step = 0;  // From a row of `pooled` to the next, which may be columns of a wider matrix; 0: dim.
  const int64_t* wide_idx = nullptr;  // In place of the segments' idx.
  bool far_apart = false;             // Embeddings are much memory and come in no order: those of a whole Variable.

  int64_t step() const { return pooled_step == 0 ? segments.dim : pooled_step; }
};

// gradient [distinct, dim] of the embeddings, from that of `pooled` [rows, dim].
template <class T>
struct PoolingGradientJob {
  PoolingSegments segments;
  const T* pooled_gradient = nullptr;
  T* gradient = nullptr;
  int64_t pooled_gradient_step = 0;  // As pooled_step.

  int64_t step() const { return pooled_gradient_step == 0 ? segments.dim : pooled_gradient_step; }
};

// Every idx must be in [0, distinct), row_splits must begin with 0 and not fall: CheckSegments tells.
template <class T>
void Pool(const std::vector<PoolingJob<T>>& jobs, ParallelFor& pf);

// The same for jobs of equally many rows, some rows of all of them at a time: where their results lie beside each other
// in one matrix. Calls also(begin, end) on the same rows.
template <class T>
void PoolByRows(const std::vector<PoolingJob<T>>& jobs, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also);

template <class T>
void PoolGradient(const std::vector<PoolingGradientJob<T>>& jobs, ParallelFor& pf);

// Whether `segments` may be given to Pool: the splits lie within [0, ids] and rise, each idx lies in [0, distinct).
bool CheckSegments(const PoolingSegments& segments, int64_t ids);

// The same of the splits alone.
bool CheckSplits(const PoolingSegments& segments, int64_t ids);

// The first place of `ids` whose idx (or wide_idx, unless that is null) is not in [0, distinct); -1 if there is none.
int64_t PlaceOutside(const PoolingSegments& segments, const int64_t* wide_idx, int64_t ids);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_SEGMENT_POOLING_H_
