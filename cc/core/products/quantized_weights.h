// A matrix of weights rounded to integers of 8 or 16 bits, in the order in which processors multiply them.
//
// Each column has a scale of its own, its largest absolute value over kMaxWeight, and is symmetric: 0 is 0. 16 bits
// hold 12: so many products fit a sum of 32 bits that it is added up as float32 once in 256 terms.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_WEIGHTS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/products/quantized_level.h"

namespace tf_booster {

enum class QuantizedType : int { kInt8 = 0, kInt16 = 1 };

// What the formats are. An activation is an integer of [0, kMaxInput], of which its row's zero point is subtracted.
struct Int8Format {
  static constexpr int32_t kMaxInput = 255, kMaxWeight = 127;
  static constexpr int64_t kGroup = 4;      // Terms in 32 bits.
  static constexpr int64_t kBlock = 65536;  // Terms whose sum fits 32 bits: 255 * 127 * 65536 < 2^31.
};
struct Int16Format {
  static constexpr int32_t kMaxInput = 4095, kMaxWeight = 2047;
  static constexpr int64_t kGroup = 2;
  static constexpr int64_t kBlock = 256;  // 4095 * 2047 * 256 < 2^31.
};

constexpr int64_t kQuantizedLanes = 16;  // Columns of a vector of weights, which is 64 bytes.
constexpr int64_t kPanelVectors = 4;
constexpr int64_t kPanel = kPanelVectors * kQuantizedLanes;  // Columns that are multiplied together.

// Rows and columns whose values range less than this are multiplied in float32: their scale's inverse may overflow.
constexpr float kSmallestRange = 0x1p-100f;
// Rows that range more are, too: a sum of integers times their scale may overflow where the product would not.
constexpr float kLargestRange = 0x1p60f;

class QuantizedWeights {
 public:
  // b: [k, n], or its transpose [n, k]. It must stay as it is: columns with elements that are not finite, or all below
  // 2^-100 and not 0, and rows of activations like that are multiplied in float32, by it.
  QuantizedWeights(QuantizedType type, const float* b, int64_t k, int64_t n, bool transposed, ParallelFor& pf,
                   QuantizedLevel level = BestQuantizedLevel());

  QuantizedType type() const { return type_; }
  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t groups() const { return groups_; }  // Of kGroup terms of a column, the last filled up with zeros.
  int64_t vectors() const { return vectors_; }
  // Element (i, j) as it was.
  float at(int64_t i, int64_t j) const { return transposed_ ? b_[j * k_ + i] : b_[i * n_ + j]; }

  bool transposed() const { return transposed_; }
  const float* original() const { return b_; }

  // Columns [kPanel * p, kPanel * (p + 1)), as far as there are any: for each group a vector of kGroup terms of each of
  // 16 columns, then the next 16.
  const char* panel(int64_t p) const { return data_.get() + p * kPanel * groups_ * 4; }
  const float* scales() const { return scales_.data(); }  // [vectors * 16]; 0 of a column that is 0 or float32.
  // Of block t of kBlock terms: the sums of columns. [vectors * 16]
  const int32_t* sums(int64_t t) const { return sums_.data() + t * vectors_ * kQuantizedLanes; }
  const std::vector<int64_t>& float_columns() const { return float_columns_; }  // In their order.
  int64_t bytes() const { return groups_ * vectors_ * 64; }

 private:
  struct Delete {
    void operator()(char* data) const { ::operator delete[](data, std::align_val_t{64}); }
  };

  QuantizedType type_;
  const float* b_;
  int64_t k_, n_;
  bool transposed_;
  int64_t groups_, vectors_;
  std::unique_ptr<char[], Delete> data_;
  std::vector<float> scales_;
  std::vector<int32_t> sums_;
  std::vector<int64_t> float_columns_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_WEIGHTS_H_
