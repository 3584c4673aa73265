// Products of rows with packed weights. Included inside a level's namespace, behind what it has of its own:
//
//   kTileRows                       rows that are multiplied together
//   Tile<Format, rows, vectors>()   sums of products of integers: quantized_scalar.cc says which
//   RangeOf(), RoundRow<Format>()   quantized_rows.h
//   TakeOutliers()                  quantized_outliers.h
//
// 48 rows at a time are rounded, and stay in the first or second cache while one panel of weights after the other meets
// them; a panel of 64 columns stays in the second while the tiles of these rows go over it.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LOOPS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LOOPS_H_

// What a row was rounded with: element = scale * (integer - zero).
struct RowFormat {
  float scale = 0;
  int32_t zero = 0;
};

// Row r of the block. False where it is to be multiplied in float32; what is rounded is zeros then.
template <class Format>
bool QuantizeRow(const float* x, int64_t r, const QuantizedWeights& weights, RowScratch& scratch, RowFormat* format) {
  const int64_t k = weights.k(), bytes = weights.groups() * 4;
  char* const to = scratch.rounded(r);
  *format = {};
  scratch.ResetBias(r);
  Range range = RangeOf(x, k);
  float largest;
  std::memcpy(&largest, &range.largest, sizeof(largest));
  if (range.largest < kInfinityBits && MayHaveOutliers(largest, range.sum, k)) {
    x = TakeOutliers(x, r, range.largest, weights, scratch);
    range = RangeOf(x, k);
  }
  const float width = range.high - range.low;
  const bool fits = range.largest < kInfinityBits && width <= kLargestRange;
  if (!fits || width < kSmallestRange) {
    std::memset(to, 0, bytes);
    return fits && width == 0;
  }
  const float inverse = Format::kMaxInput / width;
  format->scale = width / Format::kMaxInput;
  format->zero = RoundToInt(-range.low * inverse);
  RoundRow<Format>(x, k, inverse, format->zero, to);  // Behind the last element anything may be: its weights are 0.
  return true;
}

template <class Format, int kVectors, int kRows = kTileRows>
void TileOf(int64_t rows, const char* a, int64_t a_step, const char* weights, int64_t groups, int32_t* sums) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOf<Format, kVectors, kRows - 1>(rows, a, a_step, weights, groups, sums);
  }
  Tile<Format, kRows, kVectors>(a, a_step, weights, groups, sums);
}

template <class Format>
void TileOf(int64_t rows, int64_t vectors, const char* a, int64_t a_step, const char* weights, int64_t groups,
            int32_t* sums) {
  if (vectors == 4) return TileOf<Format, 4>(rows, a, a_step, weights, groups, sums);
  if (vectors == 3) return TileOf<Format, 3>(rows, a, a_step, weights, groups, sums);
  if (vectors == 2) return TileOf<Format, 2>(rows, a, a_step, weights, groups, sums);
  TileOf<Format, 1>(rows, a, a_step, weights, groups, sums);
}

// What becomes of sums of integers: the products of one row with some columns.
struct Ending {
  const int32_t* column_sums;
  const float *scales, *bias;
  float floor;  // 0 with Relu, else minus infinity. A NaN passes.
};

// One block of terms.
inline void PutRow(const int32_t* sums, RowFormat row, const Ending& e, int64_t columns, float* c) {
  const auto put = [&](int64_t j, int32_t sum) __attribute__((always_inline)) {
    const float value = static_cast<float>(sum) * row.scale * e.scales[j] + e.bias[j];
    c[j] = e.floor > value ? e.floor : value;
  };
  if (row.zero == 0) {  // Behind a Relu.
    for (int64_t j = 0; j < columns; ++j) put(j, sums[j]);
  } else {
    for (int64_t j = 0; j < columns; ++j) put(j, sums[j] - row.zero * e.column_sums[j]);
  }
}

// Several: their sums are added up first.
inline void AddRow(const int32_t* sums, RowFormat row, const int32_t* column_sums, int64_t columns, float* total) {
  for (int64_t j = 0; j < columns; ++j) total[j] += static_cast<float>(sums[j] - row.zero * column_sums[j]);
}
inline void PutTotal(const float* total, RowFormat row, const Ending& e, int64_t columns, float* c) {
  for (int64_t j = 0; j < columns; ++j) {
    const float value = total[j] * row.scale * e.scales[j] + e.bias[j];
    c[j] = e.floor > value ? e.floor : value;
  }
}

// Rows [first, first + rows) of the product, at most kTileRows, in one panel.
template <class Format>
void MultiplyTile(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t panel, int64_t first,
                  int64_t rows, const char* a, const RowFormat* formats, const float* const* biases) {
  alignas(64) int32_t sums[kTileRows * kPanel];
  const int64_t column = panel * kPanel, columns = std::min(kPanel, weights.n() - column);
  const int64_t vectors = std::min(kPanelVectors, weights.vectors() - panel * kPanelVectors);
  const int64_t a_step = weights.groups() * 4, block = Format::kBlock / Format::kGroup;
  float* const c = product.c + first * weights.n() + column;
  const auto ending = [&](int64_t r) {
    const float floor = product.relu ? 0.0f : -std::numeric_limits<float>::infinity();
    return Ending{weights.sums(0) + column, weights.scales() + column, biases[r] + column, floor};
  };
  if (weights.groups() <= block) {
    TileOf<Format>(rows, vectors, a, a_step, weights.panel(panel), weights.groups(), sums);
    for (int64_t r = 0; r < rows; ++r) {
      if (columns == kPanel) {
        PutRow(sums + r * kPanel, formats[r], ending(r), kPanel, c + r * weights.n());
      } else {
        PutRow(sums + r * kPanel, formats[r], ending(r), columns, c + r * weights.n());
      }
    }
    return;
  }
  alignas(64) float totals[kTileRows * kPanel] = {};
  for (int64_t begin = 0, t = 0; begin < weights.groups(); begin += block, ++t) {
    TileOf<Format>(rows, vectors, a + begin * 4, a_step, weights.panel(panel) + begin * vectors * 64,
                   std::min(block, weights.groups() - begin), sums);
    for (int64_t r = 0; r < rows; ++r) {
      AddRow(sums + r * kPanel, formats[r], weights.sums(t) + column, vectors * kQuantizedLanes, totals + r * kPanel);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    PutTotal(totals + r * kPanel, formats[r], ending(r), columns, c + r * weights.n());
  }
}

template <class Format>
void MultiplyRows(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t begin, int64_t end,
                  RowScratch& scratch) {
  RowFormat formats[kRowBlock];
  bool in_float[kRowBlock];
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, end - first);
    for (int64_t r = 0; r < rows; ++r) {
      const float* const x = product.a + (first + r) * weights.k();
      in_float[r] = !QuantizeRow<Format>(x, r, weights, scratch, &formats[r]);
    }
    for (int64_t panel = 0; panel * kPanel < weights.n(); ++panel) {
      for (int64_t r = 0; r < rows; r += kTileRows) {
        MultiplyTile<Format>(product, weights, panel, first + r, std::min<int64_t>(kTileRows, rows - r),
                             scratch.rounded(r), formats + r, scratch.biases() + r);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (in_float[r]) {
        MultiplyFloatRow(product, weights, first + r);
      } else {
        MultiplyFloatColumns(product, weights, first + r);
      }
    }
  }
}

inline void Multiply(const QuantizedProduct& product, const QuantizedWeights& weights, int64_t begin, int64_t end,
                     RowScratch& scratch) {
  if (weights.type() == QuantizedType::kInt8) return MultiplyRows<Int8Format>(product, weights, begin, end, scratch);
  MultiplyRows<Int16Format>(product, weights, begin, end, scratch);
}

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_LOOPS_H_
