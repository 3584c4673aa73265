// The arithmetic of batch normalization, once for host and device: the order in which rows are added up, and
// TensorFlow's formulas around the sums (tf.nn.moments, tf.nn.batch_normalization and what tf.gradients makes of them).
#ifndef TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_FORMULAS_H_
#define TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_FORMULAS_H_

#include <cstdint>

#include "cc/core/base/exact_math.h"
#include "cc/core/base/host_device.h"

namespace tf_booster {

// Rows are summed in parts, each by one thread, and the sums of the parts in their order: neither depends on how many
// threads there are. So few parts that each of a card's threads can add them up anew, which saves a launch.
inline constexpr int64_t kMostBatchParts = 64;
inline constexpr int64_t kRowsOfGroup = 8;

// Of all parts but the last: a multiple of kRowsOfGroup.
TFB_HOST_DEVICE int64_t RowsOfBatchPart(int64_t rows) {
  const int64_t even = (rows + kMostBatchParts * kRowsOfGroup - 1) / (kMostBatchParts * kRowsOfGroup) * kRowsOfGroup;
  return even < 4 * kRowsOfGroup ? 4 * kRowsOfGroup : even;
}
TFB_HOST_DEVICE int64_t NumBatchParts(int64_t rows) {
  const int64_t of_part = RowsOfBatchPart(rows);
  return (rows + of_part - 1) / of_part;
}

// Eight rows in pairs: a part of n rows has n / 8 + 3 roundings one behind another, where a sum row by row has n.
TFB_HOST_DEVICE float SumOfGroup(float a, float b, float c, float d, float e, float f, float g, float h) {
  return ((a + b) + (c + d)) + ((e + f) + (g + h));
}

TFB_HOST_DEVICE float SquaredDeviation(float x, float mean) {
  const float deviation = x - mean;
  return deviation * deviation;
}

// Of one unit, from its moments: y = x * factor + shift.
struct UnitScale {
  float inverse;  // 1 / sqrt(variance + epsilon)
  float factor;   // inverse * gamma
};

TFB_HOST_DEVICE UnitScale ScaleOfUnit(float variance, float epsilon, const float* gamma) {
  UnitScale scale;
  scale.inverse = exact::Div(1.0f, exact::Sqrt(variance + epsilon));
  scale.factor = gamma == nullptr ? scale.inverse : scale.inverse * *gamma;
  return scale;
}

TFB_HOST_DEVICE float ShiftOfUnit(float mean, float factor, const float* beta) {
  return beta == nullptr ? -mean * factor : *beta - mean * factor;
}

TFB_HOST_DEVICE float Normalized(float x, float factor, float shift) { return x * factor + shift; }

// Of one unit, from the sums over rows of dy and of (x - mean) * dy: dx = (dy * factor + (x - mean) * slope) + shift.
// TensorFlow sums x * dy and subtracts mean times the sum of dy: the same number, of which few digits are left where
// the mean is large.
struct UnitGradient {
  float factor, slope, shift;
  float gamma;  // The gradient of gamma. That of beta is the sum of dy.
};

TFB_HOST_DEVICE UnitGradient GradientOfUnit(float sum, float product_sum, int64_t rows, UnitScale scale,
                                            const float* gamma) {
  const float of_inverse = gamma == nullptr ? product_sum : product_sum * *gamma, n = static_cast<float>(rows);
  const float of_variance = (-0.5f * (of_inverse * scale.inverse)) * (scale.inverse * scale.inverse);
  UnitGradient gradient;
  gradient.factor = scale.factor;
  gradient.slope = 2.0f * exact::Div(of_variance, n);
  gradient.shift = exact::Div(-sum * scale.factor, n);
  gradient.gamma = product_sum * scale.inverse;
  return gradient;
}

TFB_HOST_DEVICE float GradientOfElement(float dy, float x, float mean, const UnitGradient& unit) {
  return (dy * unit.factor + unit.slope * (x - mean)) + unit.shift;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_FORMULAS_H_
