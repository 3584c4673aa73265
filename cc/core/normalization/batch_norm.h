// Batch normalization by the statistics of the batch (S. Ioffe and C. Szegedy, 2015), and its gradient:
//
//   mean = sum of x / rows, variance = sum of (x - mean)^2 / rows, y = (x - mean) / sqrt(variance + epsilon) * gamma +
//   beta
//
// TensorFlow makes it of 13 ops forward and 28 backward, of which about ten each go over the whole batch. Here x is
// read three times forward and twice backward, by parts of rows.
#ifndef TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_H_
#define TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_H_

#include <cstdint>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// x: [rows, units], packed. gamma, beta: [units] each, or null: none.
struct BatchNormInput {
  const float* x = nullptr;
  int64_t rows = 0, units = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
};

// y: as x. mean, variance: [units]. Without rows NaN, as TensorFlow has it.
struct BatchNormOutput {
  float* y = nullptr;
  float* mean = nullptr;
  float* variance = nullptr;
};

// x, gamma and epsilon as they were forward, mean and variance as they came out; dy: as x.
struct BatchNormGradInput {
  const float* dy = nullptr;
  const float* x = nullptr;
  int64_t rows = 0, units = 0;
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* gamma = nullptr;
  float epsilon = 0;
};

// dx: as x. dgamma, dbeta: [units].
struct BatchNormGradOutput {
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
};

// How many floats of memory each of the two functions below needs beside inputs and outputs.
int64_t BatchNormScratch(int64_t rows, int64_t units);

// The bits do not depend on the number of threads. Arrays must not overlap.
void BatchNorm(const BatchNormInput& in, const BatchNormOutput& out, float* scratch, ParallelFor& pf);
void BatchNormGrad(const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_H_
