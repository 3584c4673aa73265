#include "cc/core/optimizer/row_optimizer.h"

#include <algorithm>
#include <utility>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/dispatch_dim.h"

namespace tf_booster {
namespace {

// The columns of a row are independent, whatever the compiler can prove of the pointers. With this, every formula but
// FTRL's power becomes AVX code without run-time overlap checks, which cost more than the work itself at dim 16.
#if defined(__clang__)
#define TFB_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TFB_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

template <class Formula, size_t... kSlot>
inline void ApplyColumns(const Formula& formula, float* __restrict row, const float* __restrict grad, int64_t dim,
                         int64_t columns, std::index_sequence<kSlot...>) {
  TFB_INDEPENDENT_ITERATIONS
  for (int64_t j = 0; j < columns; ++j) {
    float value = row[j];
    float slots[sizeof...(kSlot) + 1] = {row[(1 + kSlot) * dim + j]...};
    formula(grad[j], value, slots[kSlot]...);
    row[j] = value;
    ((row[(1 + kSlot) * dim + j] = slots[kSlot]), ...);
  }
}

// Rows are fetched into the second-level cache this far ahead of the one that is updated, a line with each line's worth
// of arithmetic: when all lines of a few rows were fetched at once, before those were updated, memory and arithmetic
// waited for each other (a row of Adam at dims 64 and 128 took 102 and 214 ns through the op, and takes 94 and 167; of
// Adagrad at dim 128 129 and 109; at dim 16 there is little to win). Half as far costs a seventh; 4.5 KiB, best when
// every visit began anew, 1 to 3 %; through the first-level cache, whose miss buffers are few, a row takes 1.3 to 1.5
// times as long.
constexpr int64_t kLineFloats = 16;
// The first line of a row is fetched so many rows before its others: that is the one that waits for the page's address,
// and with it the processor's own prefetcher of lines may begin. In turns without TensorFlow, on a quiet Granite Rapids
// whose host gives a virtual machine pages of 4 KiB (so it seems), Adam took 178 and 330 ns a row at dims 64 and 128
// without, and takes 160 and 281, Adagrad 128 and 205, and 100 and 190; embeddings of a line are better without (Adam
// 38.3 where it took 39.4). Every other line alone, and gradients left to the processor, cost dim 16 8 and 15 ns. Under
// load 4 to 32 rows, and 6 to 18 KiB ahead, were alike then at dim 128.
//
// On a quiet Granite Rapids 6 / 12 / 18 / 24 KiB and 8 rows, in turns through the table: Adam at dim 64 133, 119, 118
// and 118 ns a row, by Zipf's law 116, -, 104 and -, at dim 128 226, 223, 211 and 209, and 193, -, 180 and -; Adagrad
// 83, 76, 75 and -, and 153, 148, 142 and -. Dim 16 is alike, also with more than 32 rows ahead; 4, 16 and 24 rows are
// as 8.
//
// Zen 5, with huge pages, is better without, and then with 12 KiB. Medians of three runs of Adam, each with a gather
// before it, 6 KiB and 8 rows / 6 / 9 / 12 / 18 KiB: at dim 64 uniform 56, 50, 50, 50 and 49 ns, by Zipf's law 44, 42,
// 40, 40 and 40; at dim 128 86, 82, 82, 80 and 81, and 71, 71, 69, 67 and 69; at dim 16 14.9, 14.9, 14.6, 14.4 and 14.6
// (more than 40 rows ahead were no better). Without a gather, which leaves gradients and rows in the caches, 9 and 12
// KiB take 14 % less at dim 64 and 9 to 12 % at dim 128. Zen 3 is worse without: at dim 128 260, 276, 279, 283 and 283
// uniform, 77, 81, 81, 83 and 82 by Zipf's law, with a gather before it 237, 263, 267, 264 and 261 (12 KiB and 8 rows
// 260, 76 and 234: as 6). At dims 16 and 64 all are alike.
struct Fetches {
  int64_t bytes_ahead;
  int64_t rows_opened;
};
Fetches ChooseFetches() {
  if (AmdFamily() >= 26) return {12288, 0};
  if (AmdFamily() > 0) return {6144, 8};
  return {18432, 8};
}
const Fetches& FetchesHere() {
  static const Fetches here = ChooseFetches();
  return here;
}

// kDim: DispatchDim's. Without it a row of Adam at dim 16 took 45 ns in place of 41.5 (alone, without the table's
// share, 33 and 28.5), one of Adagrad 31.5 and 30; at dim 64 Adagrad 85 and 75.
template <int64_t kDim, class Formula>
void ApplyEach(const Formula& formula, const RowsToApply& batch, int64_t any_dim) {
  const int64_t dim = kDim > 0 ? kDim : any_dim;
  float* const* const rows = batch.rows;
  const float* const* const grads = batch.grads;
  const LinesAhead ahead = batch.ahead;
  const int64_t n = batch.size, total = n + batch.following;
  constexpr std::make_index_sequence<Formula::kNumSlots> slots{};
  constexpr int64_t kParts = 1 + Formula::kNumSlots;  // As many lines of a row as there are to a line of gradient.
  const int64_t last = kParts * dim - 1;
  const auto [bytes_ahead, rows_opened] = FetchesHere();
  const int64_t rows_ahead = std::clamp<int64_t>(bytes_ahead / (kParts * dim * static_cast<int64_t>(sizeof(float))), 2,
                                                 kMaxRowsAhead - rows_opened);
  const bool opens = rows_opened > 0 && dim > kLineFloats;
  const auto fetch = [&](int64_t i, int64_t column) TFB_FETCHES {
    for (int64_t part = 0; part < kParts; ++part) {
      FetchLine(rows[i] + std::min(kParts * column + part * kLineFloats, last));
    }
    FetchLine(grads[i] + column);
  };
  // Those that no earlier call has fetched, and the loop below will not: so the following ones are, whatever n is.
  for (int64_t i = batch.first ? 0 : n; i < std::min(total, rows_ahead); ++i) {
    for (int64_t column = 0; column < dim; column += kLineFloats) fetch(i, column);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t next = std::min(total - 1, i + rows_ahead), opened = next + rows_opened;
    if (opens && opened < total) FetchLine(rows[opened]);
    if (i < ahead.size) FetchLine(ahead.lines[i]);
    int64_t column = 0;
    for (; column + kLineFloats <= dim; column += kLineFloats) {
      fetch(next, column);
      ApplyColumns(formula, rows[i] + column, grads[i] + column, dim, kLineFloats, slots);
    }
    if (column == dim) continue;
    fetch(next, column);
    ApplyColumns(formula, rows[i] + column, grads[i] + column, dim, dim - column, slots);
  }
}

template <class Formula>
class FormulaOptimizer final : public RowOptimizer {
 public:
  explicit FormulaOptimizer(const Formula& formula) : formula_(formula) {}

  const char* name() const override { return Formula::kName; }
  int num_slots() const override { return Formula::kNumSlots; }

  void ApplyRows(const RowsToApply& batch, int64_t dim) const override {
    const Formula formula = formula_;  // A copy that no store to a row can alias.
    DispatchDim(dim, [&](auto constant) { ApplyEach<constant.value>(formula, batch, dim); });
  }

 private:
  const Formula formula_;
};

// Chooses the formula by the rows' width.
template <bool kSquareRoot>
class FtrlOptimizer final : public RowOptimizer {
 public:
  explicit FtrlOptimizer(const FtrlOptions& options)
      : one_column_(Ftrl<kSquareRoot, true>{options}), columns_(Ftrl<kSquareRoot, false>{options}) {}

  const char* name() const override { return columns_.name(); }
  int num_slots() const override { return columns_.num_slots(); }

  void ApplyRows(const RowsToApply& batch, int64_t dim) const override {
    if (dim == 1) return one_column_.ApplyRows(batch, dim);
    columns_.ApplyRows(batch, dim);
  }

 private:
  const FormulaOptimizer<Ftrl<kSquareRoot, true>> one_column_;
  const FormulaOptimizer<Ftrl<kSquareRoot, false>> columns_;
};

template <class Formula>
std::unique_ptr<RowOptimizer> Make(const Formula& formula) {
  return std::make_unique<FormulaOptimizer<Formula>>(formula);
}

}  // namespace

std::unique_ptr<RowOptimizer> MakeRowOptimizer(const GradientDescentOptions& options) {
  return Make(GradientDescent{options});
}
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const MomentumOptions& options) { return Make(Momentum{options}); }
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const KerasMomentumOptions& options) {
  return Make(KerasMomentum{options});
}
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdagradOptions& options) { return Make(Adagrad{options}); }
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdagradV2Options& options) { return Make(AdagradV2{options}); }
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdamOptions& options) { return Make(Adam(options)); }
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const FtrlOptions& options) {
  if (options.lr_power == -0.5f) return std::make_unique<FtrlOptimizer<true>>(options);
  return std::make_unique<FtrlOptimizer<false>>(options);
}
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const RMSPropOptions& options) { return Make(RMSProp{options}); }
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const CenteredRMSPropOptions& options) {
  return Make(CenteredRMSProp{options});
}

}  // namespace tf_booster
