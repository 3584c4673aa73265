// The card's products with gathered matrices, run by the host, and, compiled by nvcc, on a card: sums in double, and
// the bits of sums in turn.
#include "cc/core/products/gathered_products_body.h"

#include <cmath>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

using gpu::Array;
using gpu::GatheredOnCard;
constexpr float kGuard = -12345.0f;

Array<float> Numbers(int64_t n, uint64_t seed) {
  Array<float> numbers(n + 1);
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = static_cast<float>(Mix64(seed * 1000003 + static_cast<uint64_t>(i)) % 2001) / 1000 - 1;
  }
  return numbers;
}

template <class Index>
void Run(const GatheredOnCard<Index>& p) {
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::MultiplyGatheredAsync(p, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::MultiplyGatheredOn(queue, p);
#endif
}

struct Shape {
  int64_t few, batch, heads, m, n, k;
  bool left_is_gathered, left_turned, right_turned, one_head_left, one_row, one_for_all = false;
};

// One side of [rows, heads, height, width], or with its matrices turned.
gpu::StridedMatrices Side(const float* data, int64_t rows, int64_t heads, int64_t height, int64_t width, bool turned) {
  gpu::StridedMatrices side;
  side.data = data;
  side.row_step = rows == 1 ? 0 : heads * height * width;
  side.height_step = turned ? 1 : width;
  side.width_step = turned ? height : 1;
  side.inner_steps[1] = heads == 1 ? 0 : height * width;
  return side;
}

template <class Index>
void Check(const Shape& s) {
  const int64_t left_heads = s.one_head_left ? 1 : s.heads, other = s.one_row ? 1 : s.batch;
  const int64_t left_rows = s.left_is_gathered ? s.few : other, right_rows = s.left_is_gathered ? other : s.few;
  const Array<float> left = Numbers(left_rows * left_heads * s.m * s.k, 1);
  const Array<float> right = Numbers(right_rows * s.heads * s.k * s.n, 2);
  Array<Index> rows(s.batch + 1);
  for (int64_t i = 0; i < s.batch; ++i) rows[i] = static_cast<Index>(Mix64(i) % s.few);
  if (s.batch > 2) rows[2] = static_cast<Index>(s.few);  // Outside.
  if (s.batch > 3) rows[3] = -1;
  const int64_t size = s.batch * s.heads * s.m * s.n;
  Array<float> c(size + 1, kGuard);
  GatheredOnCard<Index> p;
  p.left = Side(left.data(), left_rows, left_heads, s.m, s.k, s.left_turned);
  p.right = Side(right.data(), right_rows, s.heads, s.k, s.n, s.right_turned);
  p.left_is_gathered = s.left_is_gathered;
  p.rows = rows.data();
  p.rows_step = s.one_for_all ? 0 : 1;
  p.few = s.few;
  p.batch = s.batch;
  p.m = s.m;
  p.n = s.n;
  p.k = s.k;
  p.inner[1] = s.heads;
  p.c = c.data();
  Run(p);
  EXPECT_EQ(c[size], kGuard);
  for (int64_t at = 0; at < size; ++at) {
    const int64_t j = at % s.n, i = at / s.n % s.m, h = at / s.n / s.m % s.heads, row = at / s.n / s.m / s.heads;
    const int64_t picked = static_cast<int64_t>(rows[row * p.rows_step]);
    if (picked < 0 || picked >= s.few) {
      EXPECT_EQ(c[at], 0.0f);
      continue;
    }
    const float* const a = p.left.data + (s.left_is_gathered ? picked : row) * p.left.row_step +
                           h * p.left.inner_steps[1] + i * p.left.height_step;
    const float* const b = p.right.data + (s.left_is_gathered ? row : picked) * p.right.row_step +
                           h * p.right.inner_steps[1] + j * p.right.width_step;
    float sum = 0, total = 0;
    for (int64_t k = 0; k < s.k; ++k) {
      sum = std::fma(a[k * p.left.width_step], b[k * p.right.height_step], sum);
      if (k % 512 == 511 || k + 1 == s.k) {
        total += sum;
        sum = 0;
      }
    }
    EXPECT_EQ(c[at], total);
  }
}

TEST(CardMultipliesGatheredMatricesInTheCpusOrder) {
  for (int form = 0; form < 32; ++form) {
    const auto is = [&](int bit) { return (form >> bit & 1) != 0; };
    for (const int64_t n : {1, 4, 7, 12}) {
      for (const int64_t k : {0, 1, 9}) {
        Check<int32_t>({3, 9, 2, 2, n, k, is(0), is(1), is(2), is(3), is(4)});
        Check<int64_t>({4, 5, 1, 3, n, k, is(0), is(1), is(2), is(3), is(4)});
        if (!is(4)) Check<int32_t>({3, 6, 2, 3, n, k, is(0), is(1), is(2), is(3), false, true});
      }
    }
  }
  Check<int32_t>({2, 0, 1, 1, 4, 4, false, false, true, false, false});
  Check<int32_t>({2, 7, 1, 1, 8, 1100, false, false, false, false, false});
  Check<int32_t>({5, 200, 2, 1, 20, 16, false, false, true, false, false});
}

}  // namespace
}  // namespace tf_booster
