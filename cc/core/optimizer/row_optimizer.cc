#include "cc/core/optimizer/row_optimizer.h"

#include <utility>

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
void ApplyRow(const Formula& formula, float* __restrict row, const float* __restrict grad, int64_t dim,
              std::index_sequence<kSlot...>) {
  TFB_INDEPENDENT_ITERATIONS
  for (int64_t j = 0; j < dim; ++j) {
    float value = row[j];
    float slots[sizeof...(kSlot) + 1] = {row[(1 + kSlot) * dim + j]...};
    formula(grad[j], value, slots[kSlot]...);
    row[j] = value;
    ((row[(1 + kSlot) * dim + j] = slots[kSlot]), ...);
  }
}

template <class Formula>
class FormulaOptimizer final : public RowOptimizer {
 public:
  explicit FormulaOptimizer(const Formula& formula) : formula_(formula) {}

  const char* name() const override { return Formula::kName; }
  int num_slots() const override { return Formula::kNumSlots; }

  void ApplyRows(float* const* rows, const float* const* grads, int64_t n, int64_t dim) const override {
    const Formula formula = formula_;  // A copy that no store to a row can alias.
    for (int64_t i = 0; i < n; ++i) {
      ApplyRow(formula, rows[i], grads[i], dim, std::make_index_sequence<Formula::kNumSlots>());
    }
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

  void ApplyRows(float* const* rows, const float* const* grads, int64_t n, int64_t dim) const override {
    if (dim == 1) return one_column_.ApplyRows(rows, grads, n, dim);
    columns_.ApplyRows(rows, grads, n, dim);
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
