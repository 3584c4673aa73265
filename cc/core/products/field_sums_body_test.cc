// The card's sums over fields and their gradient, run by the host, and, compiled by nvcc, on a card: the CPU's bits.
#include "cc/core/products/field_sums_body.h"

#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/gpu/float_arrays.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/products/field_sums_gpu.h"

namespace tf_booster {
namespace {

using gpu::Array;
using gpu::kGuard;
using gpu::Numbers;
using gpu::Same;

struct Case {
  int64_t rows, fields, width, first, count, before, behind, shift;
};

// The arrays that are written, once by the CPU's code and once by the card's.
struct Written {
  explicit Written(const Case& c)
      : sums(c.rows * c.count + c.shift + 1, kGuard),
        squares(sums),
        joined(c.rows * (c.before + c.fields * c.count + c.behind) + c.shift + 1, kGuard),
        copy(c.rows * c.fields * (c.first + c.count) + 1, kGuard) {}
  Array<float> sums, squares, joined, copy;
};

void CompareSums(const Case& c) {
  const Array<float> x = Numbers(c.rows * c.fields * c.width, 1, c.shift);
  const Array<float> left = Numbers(c.rows * c.before, 2, 0), right = Numbers(c.rows * c.behind, 3, 0);
  const Fields in = {x.data() + c.shift, c.rows, c.fields, c.width};
  Written want(c), got(c);
  for (Written* to : {&want, &got}) {
    FieldSums out;
    out.columns = {c.first, c.count};
    out.sums = to->sums.data() + c.shift;
    out.square_sums = to->squares.data() + c.shift;
    out.joined = to->joined.data() + c.shift;
    out.join_width = c.before + c.fields * c.count + c.behind;
    if (c.before > 0) out.before = {{left.data(), c.before}};
    if (c.behind > 0) out.behind = {{right.data(), c.behind}};
    const std::vector<FieldCopy> copies = {{{0, c.first + c.count}, to->copy.data()}};
    if (to == &want) {
      SerialFor pf;
      SumFields(in, out, copies, pf);
    } else {
#if defined(__CUDACC__)
      EXPECT_TRUE(gpu::SumFieldsAsync(in, out, copies, nullptr) == nullptr);
      gpu::WaitForCard();
#else
      gpu::HostQueue queue(3);
      gpu::SumFieldsOnQueue(queue, in, out, copies);
#endif
    }
  }
  EXPECT_TRUE(Same(got.sums, want.sums) && Same(got.squares, want.squares));
  EXPECT_TRUE(Same(got.joined, want.joined) && Same(got.copy, want.copy));
}

TEST(CardSumsFieldsInTheCpusOrder) {
  for (const int64_t fields : {1, 2, 15, 16, 26, 39}) {
    for (const int64_t count : {1, 4, 7, 8, 12, 16, 17, 33}) {
      for (const int64_t rows : {0, 1, 13}) {
        CompareSums({rows, fields, count + 1, 1, count, 2, 3, 0});
        CompareSums({rows, fields, count + 4, 4, count, 4, 0, 0});  // Packs, where `count` allows it.
        CompareSums({rows, fields, count + 4, 4, count, 0, 4, 1});
      }
    }
  }
  CompareSums({3001, 26, 17, 1, 16, 13, 0, 0});
}

TEST(CardWritesNoSumThatNobodyAsksFor) {
  const Array<float> x = Numbers(5 * 3 * 8, 1, 0);
  Array<float> squares(5 * 8 + 1, kGuard);
  FieldSums out;
  out.columns = {0, 8};
  out.square_sums = squares.data();
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::SumFieldsAsync({x.data(), 5, 3, 8}, out, {}, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(1);
  gpu::SumFieldsOnQueue(queue, {x.data(), 5, 3, 8}, out, {});
#endif
  EXPECT_EQ(squares[0], x[0] * x[0] + x[8] * x[8] + x[16] * x[16]);
  EXPECT_EQ(squares[40], kGuard);
}

// aligned: as far as the numbers of columns allow it, all begins where packs do.
void CompareGradients(int64_t rows, int64_t fields, int64_t width, int64_t first, int64_t count, bool aligned) {
  const int64_t behind = width - first - count, wide = fields * count + (aligned ? 4 : 5), begin = aligned ? 4 : 2;
  const Array<float> x = Numbers(rows * fields * width, 4, 0), tower = Numbers(rows * wide, 5, 0);
  const Array<float> sums = Numbers(rows * count, 6, 0), squares = Numbers(rows * count, 7, 0);
  const Array<float> one_row = Numbers(first, 8, 0), rest = Numbers(rows * fields * behind, 9, 0);
  const FieldTerm product = {FieldTerm::kProductSum, sums.data(), count};
  const std::vector<FieldRange> ranges = {{first, {{FieldTerm::kSum, one_row.data(), 0}}},
                                          {count,
                                           {{FieldTerm::kSquareSum, squares.data(), count},
                                            {FieldTerm::kWhole, tower.data() + begin, wide},
                                            product,
                                            {FieldTerm::kSum, sums.data(), count},
                                            product,
                                            {FieldTerm::kSquareSum, sums.data(), count},
                                            {FieldTerm::kWhole, tower.data(), wide},
                                            {FieldTerm::kSum, squares.data(), count},
                                            product,
                                            {FieldTerm::kSum, sums.data(), count}}},  // One more than a kernel takes.
                                          {behind, {{FieldTerm::kWhole, rest.data(), fields * behind}}}};
  const Fields in = {x.data(), rows, fields, width};
  Array<float> want(x.size() + 1, kGuard), got(want);
  SerialFor pf;
  SumFieldsGradient(in, ranges, want.data(), pf);
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::SumFieldsGradientAsync(in, ranges, got.data(), nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::SumFieldsGradientOnQueue(queue, in, ranges, got.data());
#endif
  EXPECT_TRUE(Same(got, want));
}

TEST(CardAddsGradientsOfFieldsInTheirOrder) {
  for (const int64_t fields : {1, 3, 26}) {
    for (const int64_t count : {1, 7, 16, 33}) {
      for (const int64_t rows : {0, 1, 11}) CompareGradients(rows, fields, count + 3, 1, count, false);
    }
    // Packs for the columns in the middle, for all, and for none.
    for (const int64_t first : {4, 0, 2}) CompareGradients(11, fields, 16 + 2 * first, first, 16, true);
  }
  CompareGradients(3001, 26, 17, 1, 16, false);
}

}  // namespace
}  // namespace tf_booster
