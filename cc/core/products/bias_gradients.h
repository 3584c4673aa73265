// The gradients of many biases, and of the Relus behind them, as one loop: what ReluGrad and BiasAddGrad compute.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_BIAS_GRADIENTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_BIAS_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// bias [columns]: sums over rows of `gradient` = upstream * (relu > 0). Matrices are [rows, columns], packed,
// but upstream and relu may be some columns of wider ones.
struct BiasGradient {
  int64_t rows = 0, columns = 0;
  const float* upstream = nullptr;
  const float* relu = nullptr;  // The Relu's result; null without a Relu: then `gradient` is upstream, and not written.
  float* gradient = nullptr;
  float* bias = nullptr;
  int64_t upstream_step = 0, relu_step = 0;  // From a row to the next, in floats; 0: columns.
};

// A sum takes its rows four at a time, in blocks of 512 that are added up: the same bits on any number of threads.
void SumBiasGradients(const std::vector<BiasGradient>& gradients, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_BIAS_GRADIENTS_H_
