// The few elements of a row of activations that are so large that the others would be rounded away beside them: numbers
// that the program did not normalise, beside embeddings. They are multiplied in float32. Included inside a level's
// namespace.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_

// Whether a row may have any: its largest element is 32 times as large as the mean. A row whose elements are nine
// tenths zeros, behind a Relu, is seldom like that.
inline bool MayHaveOutliers(float largest, float sum, int64_t k) {
  return largest > sum * (32.0f / static_cast<float>(k));
}

// The bits that the outliers of the finite row x have at least: at most k / 32 elements. Their largest is by its
// exponent at least three above the largest element that stays, which is 4 to 16 times. 0 where there are none.
// largest: the bits of the largest of all, which is not 0.
inline uint32_t OutliersFrom(const float* x, int64_t k, uint32_t largest) {
  uint32_t from = (largest >> 23) << 23, found = 0;
  while (from > 0) {
    // Two loops of their own, and counts of -1, are what gcc vectorises.
    int32_t count = 0;
    for (int64_t i = 0; i < k; ++i) count -= static_cast<int32_t>(MagnitudeBits(x[i]) - from) >> 31;
    if (k - count > k / 32) break;
    uint32_t below = 0;
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t bits = MagnitudeBits(x[i]);
      below = std::max(below, bits & static_cast<uint32_t>(static_cast<int32_t>(bits - from) >> 31));
    }
    found = from;
    from = (below >> 23) << 23;
  }
  // `from` has the largest exponent that is none of an outlier's.
  return found > 0 && (largest >> 23) - (from >> 23) >= 3 ? found : 0;
}

// columns[j] += x[i] * weights(i, j) for the outliers, one after the other, some at a time.
inline void AddOutliers(const float* x, const int64_t* places, int64_t count, const QuantizedWeights& weights,
                        float* columns) {
  const int64_t n = weights.n();
  int64_t t = 0;
  if (!weights.transposed()) {
    const float* const b = weights.original();
    for (; t + 4 <= count; t += 4) {
      const float x0 = x[places[t]], x1 = x[places[t + 1]], x2 = x[places[t + 2]], x3 = x[places[t + 3]];
      const float *b0 = b + places[t] * n, *b1 = b + places[t + 1] * n, *b2 = b + places[t + 2] * n,
                  *b3 = b + places[t + 3] * n;
      for (int64_t j = 0; j < n; ++j) columns[j] = columns[j] + x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
    }
    for (; t < count; ++t) {
      const float x0 = x[places[t]], *b0 = b + places[t] * n;
      for (int64_t j = 0; j < n; ++j) columns[j] += x0 * b0[j];
    }
  }
  for (; t < count; ++t) {
    for (int64_t j = 0; j < n; ++j) columns[j] += x[places[t]] * weights.at(places[t], j);
  }
}

// Row x without its outliers, which are added to bias r of the scratch memory; x where it has none.
inline const float* TakeOutliers(const float* x, int64_t r, uint32_t largest, const QuantizedWeights& weights,
                                 RowScratch& scratch) {
  constexpr int64_t kLanes = 16;
  const int64_t k = weights.k();
  const uint32_t from = OutliersFrom(x, k, largest);
  if (from == 0) return x;
  float* const rest = scratch.rest();
  int64_t* const places = scratch.places();
  int64_t count = 0;
  for (int64_t i = 0; i < k; ++i) rest[i] = MagnitudeBits(x[i]) >= from ? 0.0f : x[i];
  for (int64_t begin = 0; begin < k; begin += kLanes) {
    const int64_t end = std::min(k, begin + kLanes);
    uint32_t highest = 0;
    for (int64_t i = begin; i < end; ++i) highest = std::max(highest, MagnitudeBits(x[i]));
    if (highest < from) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (MagnitudeBits(x[i]) >= from) places[count++] = i;
    }
  }
  AddOutliers(x, places, count, weights, scratch.OwnBias(r));
  return rest;
}

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_OUTLIERS_H_
