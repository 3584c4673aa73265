#include "cc/core/products/small_products.h"

#include <immintrin.h>

#include <algorithm>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/job_ranges.h"
#include "cc/core/base/target.h"
#include "cc/core/products/turned.h"

namespace tf_booster {
namespace {

constexpr int64_t kBlock = 512;  // Of k: what one sum is made of before it is added to the others.
constexpr int kLanes = 8;

// A product with the right matrix as it is read: [k, n]. Element (i, k) of the left one is a[i * row + k * column].
struct Operands {
  int64_t m, n, k;
  const float* a;
  int64_t row, column;
  const float* b;
  const float* bias;
  bool relu;
  float* c;
  int64_t step;  // Between rows of c.
};

using RowsFunction = void (*)(const Operands& p, int64_t begin, int64_t end);

void PlainRows(const Operands& p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float* const c = p.c + i * p.step;
    for (int64_t first = 0; first < p.n; first += kLanes) {
      const int64_t lanes = std::min<int64_t>(kLanes, p.n - first);
      float total[kLanes] = {};
      for (int64_t start = 0; start < p.k; start += kBlock) {
        float sum[kLanes] = {};
        for (int64_t k = start; k < std::min(p.k, start + kBlock); ++k) {
          const float a = p.a[i * p.row + k * p.column];
          for (int64_t j = 0; j < lanes; ++j) sum[j] += a * p.b[k * p.n + first + j];
        }
        for (int64_t j = 0; j < lanes; ++j) total[j] += sum[j];
      }
      for (int64_t j = 0; j < lanes; ++j) {
        const float value = p.bias == nullptr ? total[j] : total[j] + p.bias[first + j];
        c[first + j] = p.relu && value < 0 ? 0 : value;
      }
    }
  }
}

TFB_BEGIN_TARGET("avx2,fma")

// The first `lanes` of 8 lanes, which may be more than 8.
inline __m256i Mask(int64_t lanes) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(std::min<int64_t>(lanes, kLanes))), places);
}

// kRows rows from row i on, kVectors vectors of columns from column j on; kMasked: the last of them is not full.
//
// Unrolled by hand, so to speak: otherwise GCC 12 keeps the sums in memory, and a layer of 8 by 8 takes half as long
// again.
template <int kRows, int kVectors, bool kMasked, bool kManyBlocks>
inline void Tile(const Operands& p, int64_t i, int64_t j) {
  const __m256i mask = Mask(p.n - j - (kVectors - 1) * kLanes);
  const auto load = [&](const float* from, int v) {
    return kMasked && v == kVectors - 1 ? _mm256_maskload_ps(from + v * kLanes, mask)
                                        : _mm256_loadu_ps(from + v * kLanes);
  };
  __m256 total[kRows * kVectors];
#pragma GCC unroll 8
  for (__m256& t : total) t = _mm256_setzero_ps();
  const float* a = p.a + i * p.row;
  const float* b = p.b + j;
  int64_t left = p.k;
  do {
    __m256 sum[kRows * kVectors];
#pragma GCC unroll 8
    for (__m256& s : sum) s = _mm256_setzero_ps();
    for (int64_t k = std::min(left, kBlock); k > 0; --k, a += p.column, b += p.n) {
      __m256 right[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) right[v] = load(b, v);
#pragma GCC unroll 8
      for (int s = 0; s < kRows * kVectors; ++s) {
        const __m256 element = _mm256_broadcast_ss(a + s / kVectors * p.row);
        sum[s] = _mm256_fmadd_ps(element, right[s % kVectors], sum[s]);
      }
    }
#pragma GCC unroll 8
    for (int s = 0; s < kRows * kVectors; ++s) total[s] = _mm256_add_ps(total[s], sum[s]);
    left -= kBlock;
  } while (kManyBlocks && left > 0);
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const __m256 bias = p.bias == nullptr ? _mm256_setzero_ps() : load(p.bias + j, v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m256 value = total[r * kVectors + v];
      if (p.bias != nullptr) value = _mm256_add_ps(value, bias);
      // Of two numbers one of which is NaN, max gives the second.
      if (p.relu) value = _mm256_max_ps(_mm256_setzero_ps(), value);
      float* const c = p.c + (i + r) * p.step + j + v * kLanes;
      if (kMasked && v == kVectors - 1) {
        _mm256_maskstore_ps(c, mask, value);
      } else {
        _mm256_storeu_ps(c, value);
      }
    }
  }
}

// Eight sums at a time, as many as hide that a multiply-add takes four cycles and two begin in each.
template <int kVectors, bool kMasked, bool kManyBlocks>
inline void ColumnsOf(const Operands& p, int64_t begin, int64_t end, int64_t j) {
  constexpr int kRows = 8 / kVectors;
  int64_t i = begin;
  for (; i + kRows <= end; i += kRows) Tile<kRows, kVectors, kMasked, kManyBlocks>(p, i, j);
  for (; i < end; ++i) Tile<1, kVectors, kMasked, kManyBlocks>(p, i, j);
}

template <int kVectors, bool kMasked>
inline void Columns(const Operands& p, int64_t begin, int64_t end, int64_t j) {
  if (p.k <= kBlock) {
    ColumnsOf<kVectors, kMasked, false>(p, begin, end, j);
  } else {
    ColumnsOf<kVectors, kMasked, true>(p, begin, end, j);
  }
}

void FmaRows(const Operands& p, int64_t begin, int64_t end) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= p.n; j += 2 * kLanes) Columns<2, false>(p, begin, end, j);
  const int64_t rest = p.n - j;
  if (rest > kLanes) {
    Columns<2, true>(p, begin, end, j);
  } else if (rest == kLanes) {
    Columns<1, false>(p, begin, end, j);
  } else if (rest > 0) {
    Columns<1, true>(p, begin, end, j);
  }
}

TFB_END_TARGET

RowsFunction BestRows() {
  static const RowsFunction best = Runs(SimdLevel::kAvx2) && __builtin_cpu_supports("fma") ? FmaRows : PlainRows;
  return best;
}

// Rows of all products in turn, where results share cache lines. No prefetcher of the processor follows as many
// matrices as there are layers, so the next rows are fetched while these are computed. 38 layers [2048, 8 or 16] x
// [., 8] from the last-level cache take 0.40 ms so, 0.55 ms with 512 rows at a time and nothing fetched.
constexpr int64_t kTogether = 16;

// Some rows of a product's left matrix and its result. Inlined always: GCC 12 drops calls that only prefetch.
__attribute__((always_inline)) inline void FetchRows(const Operands& p, int64_t begin, int64_t end) {
  if (p.column == 1) {
    for (const float* a = p.a + begin * p.row; a < p.a + end * p.row; a += 16) __builtin_prefetch(a);
  }
  for (int64_t i = begin; i < end; ++i) __builtin_prefetch(p.c + i * p.step, 1);
}

// The products as their loops want them, and about how long all of them take.
struct Plan {
  std::vector<Operands> operands;
  std::vector<float> scratch;  // The right matrices that were transposed.
  int64_t total_ns = 0;

  explicit Plan(const std::vector<Product>& products) {
    int64_t turned = 0;
    for (const Product& p : products) turned += p.b_transposed ? p.k * p.n : 0;
    scratch.resize(turned);
    float* next = scratch.data();
    operands.reserve(products.size());
    for (const Product& p : products) {
      const int64_t a_step = p.a_step == 0 ? p.k : p.a_step;
      Operands o{p.m, p.n,    p.k,    p.a, p.a_transposed ? 1 : a_step,   p.a_transposed ? p.m : 1,
                 p.b, p.bias, p.relu, p.c, p.c_step == 0 ? p.n : p.c_step};
      if (p.b_transposed) {
        TurnColumns(p.b, p.k, p.n, 0, p.n, next);
        o.b = next;
        next += p.k * p.n;
      }
      operands.push_back(o);
      // Ten multiply-adds and four floats to or from the second-level cache in a nanosecond; 0.1 us to begin.
      total_ns += 100 + p.m * p.n * p.k / 10 + (p.m * p.k + p.k * p.n + p.m * p.n) / 4;
    }
  }
};

void Run(const std::vector<Product>& products, RowsFunction rows, ParallelFor& pf) {
  const Plan plan(products);
  std::vector<int64_t> units;
  for (const Product& p : products) units.push_back(p.m);
  JobRanges(units, plan.total_ns).Run(pf, [&](size_t j, int64_t begin, int64_t end) {
    rows(plan.operands[j], begin, end);
  });
}

}  // namespace

void Multiply(const std::vector<Product>& products, ParallelFor& pf) { Run(products, BestRows(), pf); }

void MultiplyByRows(const std::vector<Product>& products, ParallelFor& pf, FunctionRef<void(int64_t, int64_t)> also) {
  if (products.empty()) return;
  const Plan plan(products);
  const RowsFunction rows = BestRows();
  const int64_t m = products[0].m;
  pf.Run(m, plan.total_ns / std::max<int64_t>(1, m) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t last = std::min(first + kTogether, end);
      const int64_t next = std::min(last + kTogether, end);
      for (const Operands& o : plan.operands) {
        FetchRows(o, last, next);
        rows(o, first, last);
      }
      also(first, last);
    }
  });
}

void MultiplyPlainly(const std::vector<Product>& products) {
  SerialFor serial;
  Run(products, PlainRows, serial);
}

}  // namespace tf_booster
