#include "cc/core/normalization/batch_norm.h"

#include <algorithm>

#include "cc/core/normalization/batch_norm_formulas.h"

namespace tf_booster {
namespace {

// So many units that what is kept of each beside the rows stays in the first-level cache.
constexpr int64_t kUnitsOfTile = 512;

// Nanoseconds for so many elements that are read from the second-level cache.
int64_t Cost(int64_t elements) { return 50 + elements / 6; }

// Rows of a matrix side by side. By reference to nothing, so that the compiler sees that sums do not change it.
struct Rows {
  const float* data;
  int64_t units;
  const float* At(int64_t row) const { return data + row * units; }
};

// sums[c] = the sum of value(row, c) for rows [begin, end) and c < units. A group's eight rows are read side by side,
// so that the inner loop goes over neighbouring units: by whole vectors.
template <class Value>
inline void SumRows(int64_t begin, int64_t end, int64_t units, float* __restrict sums, const Value value) {
  std::fill(sums, sums + units, 0.0f);
  int64_t row = begin;
  for (; row + kRowsOfGroup <= end; row += kRowsOfGroup) {
#pragma GCC ivdep
    for (int64_t c = 0; c < units; ++c) {
      sums[c] += SumOfGroup(value(row, c), value(row + 1, c), value(row + 2, c), value(row + 3, c), value(row + 4, c),
                            value(row + 5, c), value(row + 6, c), value(row + 7, c));
    }
  }
  for (; row < end; ++row) {
#pragma GCC ivdep
    for (int64_t c = 0; c < units; ++c) sums[c] += value(row, c);
  }
}

// totals[c] = the sums of all parts, in their order.
void SumParts(const float* sums, int64_t parts, int64_t units, float* __restrict totals) {
  std::fill(totals, totals + units, 0.0f);
  for (int64_t part = 0; part < parts; ++part, sums += units) {
#pragma GCC ivdep
    for (int64_t c = 0; c < units; ++c) totals[c] += sums[c];
  }
}

void DivideByRows(int64_t rows, int64_t units, float* values) {
  const float n = static_cast<float>(rows);
  for (int64_t c = 0; c < units; ++c) values[c] = values[c] / n;
}

const float* AtUnit(const float* values, int64_t c) { return values == nullptr ? nullptr : values + c; }

// Calls run(part, first row, end of rows, first unit, units) for each part and tile, on several threads.
template <class Run>
void ForParts(int64_t rows, int64_t units, ParallelFor& pf, const Run& run) {
  const int64_t of_part = RowsOfBatchPart(rows);
  pf.Run(NumBatchParts(rows), Cost(of_part * units), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t c = 0; c < units; c += kUnitsOfTile) {
        run(part, part * of_part, std::min(rows, (part + 1) * of_part), c, std::min(kUnitsOfTile, units - c));
      }
    }
  });
}

}  // namespace

int64_t BatchNormScratch(int64_t rows, int64_t units) { return (2 * NumBatchParts(rows) + 3) * units; }

void BatchNorm(const BatchNormInput& in, const BatchNormOutput& out, float* scratch, ParallelFor& pf) {
  const int64_t rows = in.rows, units = in.units, parts = NumBatchParts(rows);
  float *const sums = scratch, *const factor = scratch + parts * units, *const shift = factor + units;
  ForParts(rows, units, pf, [&](int64_t part, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const Rows x{in.x + first, units};
    SumRows(begin, end, count, sums + part * units + first, [=](int64_t row, int64_t c) { return x.At(row)[c]; });
  });
  SumParts(sums, parts, units, out.mean);
  DivideByRows(rows, units, out.mean);
  ForParts(rows, units, pf, [&](int64_t part, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const Rows x{in.x + first, units};
    const float* const mean = out.mean + first;
    SumRows(begin, end, count, sums + part * units + first,
            [=](int64_t row, int64_t c) { return SquaredDeviation(x.At(row)[c], mean[c]); });
  });
  SumParts(sums, parts, units, out.variance);
  DivideByRows(rows, units, out.variance);
  for (int64_t c = 0; c < units; ++c) {
    factor[c] = ScaleOfUnit(out.variance[c], in.epsilon, AtUnit(in.gamma, c)).factor;
    shift[c] = ShiftOfUnit(out.mean[c], factor[c], AtUnit(in.beta, c));
  }
  pf.Run(rows, Cost(units), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = in.x + row * units;
      float* const y = out.y + row * units;
#pragma GCC ivdep
      for (int64_t c = 0; c < units; ++c) y[c] = Normalized(x[c], factor[c], shift[c]);
    }
  });
}

void BatchNormGrad(const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch, ParallelFor& pf) {
  const int64_t rows = in.rows, units = in.units, parts = NumBatchParts(rows);
  float *const sums = scratch, *const products = scratch + parts * units;
  ForParts(rows, units, pf, [&](int64_t part, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const Rows x{in.x + first, units}, dy{in.dy + first, units};
    const float* const mean = in.mean + first;
    SumRows(begin, end, count, sums + part * units + first, [=](int64_t row, int64_t c) { return dy.At(row)[c]; });
    // dy is in a nearer cache by now: of both sums in one loop the compiler would keep too little in registers.
    SumRows(begin, end, count, products + part * units + first,
            [=](int64_t row, int64_t c) { return (x.At(row)[c] - mean[c]) * dy.At(row)[c]; });
  });
  SumParts(sums, parts, units, out.dbeta);
  SumParts(products, parts, units, out.dgamma);
  float *const factor = products + parts * units, *const slope = factor + units, *const shift = slope + units;
  for (int64_t c = 0; c < units; ++c) {
    const float* const gamma = AtUnit(in.gamma, c);
    const UnitScale scale = ScaleOfUnit(in.variance[c], in.epsilon, gamma);
    const UnitGradient unit = GradientOfUnit(out.dbeta[c], out.dgamma[c], rows, scale, gamma);
    factor[c] = unit.factor;
    slope[c] = unit.slope;
    shift[c] = unit.shift;
    out.dgamma[c] = unit.gamma;
  }
  pf.Run(rows, 2 * Cost(units), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float *const x = in.x + row * units, *const dy = in.dy + row * units;
      float* const dx = out.dx + row * units;
#pragma GCC ivdep
      for (int64_t c = 0; c < units; ++c) {
        dx[c] = GradientOfElement(dy[c], x[c], in.mean[c], UnitGradient{factor[c], slope[c], shift[c], 0.0f});
      }
    }
  });
}

}  // namespace tf_booster
