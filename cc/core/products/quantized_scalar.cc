// Quantised products by loops that any processor runs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cc/core/products/quantized_levels.h"
#include "cc/core/products/quantized_rounding.h"

namespace tf_booster {
namespace scalar_quantized {
namespace {

constexpr int kTileRows = 1;

// sums[r * kPanel + j]: of row r of the activations, `a_step` bytes from one to the next, with column j of kVectors
// * 16.
template <class Format, int kRows, int kVectors>
void Tile(const char* a, int64_t a_step, const char* weights, int64_t groups, int32_t* sums) {
  constexpr int64_t kColumns = kVectors * kQuantizedLanes, kGroup = Format::kGroup;
  for (int r = 0; r < kRows; ++r) {
    std::fill_n(sums + r * kPanel, kColumns, 0);
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t j = 0; j < kColumns; ++j) {
        const char *x = a + r * a_step + g * 4, *w = weights + (g * kColumns + j) * 4;
        for (int64_t t = 0; t < kGroup; ++t) {
          if constexpr (kGroup == 4) {
            sums[r * kPanel + j] += static_cast<uint8_t>(x[t]) * static_cast<int8_t>(w[t]);
          } else {
            int16_t input, weight;
            std::memcpy(&input, x + 2 * t, sizeof(input));
            std::memcpy(&weight, w + 2 * t, sizeof(weight));
            sums[r * kPanel + j] += input * weight;
          }
        }
      }
    }
  }
}

// In this order.
#include "cc/core/products/quantized_rows.h"

#include "cc/core/products/quantized_pack.h"

#include "cc/core/products/quantized_outliers.h"

#include "cc/core/products/quantized_loops.h"

}  // namespace
}  // namespace scalar_quantized

const QuantizedLoops kScalarQuantized = {scalar_quantized::PackPanel, scalar_quantized::Multiply};

}  // namespace tf_booster
