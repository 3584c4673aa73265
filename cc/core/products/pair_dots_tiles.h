// Matrices in registers, for levels with multiply-add. Included inside the level's namespace, which has vectors of
// kLanes floats and what is done with them.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_TILES_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_TILES_H_

#define TFB_INLINE __attribute__((always_inline)) inline

constexpr int64_t kTurned = 8;  // Rows and columns of a matrix that is turned at once.

constexpr int64_t Padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

struct Block {
  __m256 row[kTurned];
};

inline Block Load(const float* from, int64_t step) {
  Block b;
  for (int r = 0; r < kTurned; ++r) b.row[r] = _mm256_loadu_ps(from + r * step);
  return b;
}

inline void Store(const Block& b, float* to, int64_t step) {
  for (int r = 0; r < kTurned; ++r) _mm256_storeu_ps(to + r * step, b.row[r]);
}

inline Block Turned(const Block& b) {
  __m256 pairs[kTurned], fours[kTurned];
  for (int i = 0; i < kTurned; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(b.row[i], b.row[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(b.row[i], b.row[i + 1]);
  }
  for (int i = 0; i < kTurned; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  Block out;
  for (int i = 0; i < 4; ++i) {
    out.row[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    out.row[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
  return out;
}

// kRows rows of kVectors vectors, in registers.
template <int kRows, int kVectors>
class Sums {
 public:
  TFB_INLINE Sums() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at_[r][v] = Zero();
    }
  }

  // Row r += *scale(r) * b.
  template <class Scale>
  TFB_INLINE void Add(const float* b, Scale scale) {
    Vector right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = LoadVector(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vector left = Broadcast(scale(r));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at_[r][v] = MultiplyAdd(left, right[v], at_[r][v]);
    }
  }

  // Row r: columns [column, column + kVectors * kLanes) of a row of which [0, ends + r) is wanted, to row(r).
  template <class Row>
  TFB_INLINE void PutLower(int64_t column, int64_t ends, Row row) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const int64_t j = column + v * kLanes, wanted = ends + r - j;
        if (wanted > 0) StoreFirst(row(r) + j, at_[r][v], std::min(wanted, kLanes));
      }
    }
  }

  TFB_INLINE void Put(float* to, int64_t step) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) StoreVector(to + r * step + v * kLanes, at_[r][v]);
    }
  }

 private:
  Vector at_[kRows][kVectors];
};

// Calls tile(vectors, j) for the columns [begin, end), whole vectors: two at a time, and one that is left.
template <class Tile>
TFB_INLINE void ForColumns(int64_t begin, int64_t end, Tile tile) {
  int64_t j = begin;
  for (; j + 2 * kLanes <= end; j += 2 * kLanes) tile(std::integral_constant<int, 2>(), j);
  if (j < end) tile(std::integral_constant<int, 1>(), j);
}

// c[r][begin, end) = sum over k of a[r][k] * b[k][begin, end), for kRows rows; in the order of k.
template <int kRows>
__attribute__((noinline)) void Product(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count,
                                       float* c, int64_t c_step, int64_t begin, int64_t end) {
  ForColumns(
      begin, end, [&](auto vectors, int64_t j) __attribute__((always_inline)) {
        Sums<kRows, vectors.value> sums;
#pragma GCC unroll 2
        for (int64_t k = 0; k < count; ++k) {
          sums.Add(
              b + k * b_step + j, [&](int r) __attribute__((always_inline)) { return a + r * a_step + k; });
        }
        sums.Put(c + j, c_step);
      });
}

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_TILES_H_
