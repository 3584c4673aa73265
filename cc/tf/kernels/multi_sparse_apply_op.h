// The kernel of every TfBoosterMultiSparseApply… op: checks the inputs, locks the Variables, and steps their rows.
//
// Work is cut by rows, so that a row belongs to one thread: by their hash where only rows with a gradient move, into
// ranges where every row does. Each share looks at all indices of its Variable, at 1 ns each.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_SPARSE_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_SPARSE_APPLY_OP_H_

#include <algorithm>
#include <vector>

#include "cc/core/base/lines_ahead.h"
#include "cc/core/optimizer/sparse_rows.h"
#include "cc/tf/kernels/sparse_formulas.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "cc/tf/kernels/variables_op.h"

namespace tf_booster {

class MultiSparseApplyOpBase : public VariablesOp {
 public:
  MultiSparseApplyOpBase(tensorflow::OpKernelConstruction* ctx, int slots, dense::ScalarNames scalars,
                         const char* flag);

 protected:
  // A Variable as rows.
  struct Rows {
    int64_t count = 0, dim = 0;
  };

  // Shapes of Variables, slots, indices and gradients.
  tensorflow::Status CheckShapes(tensorflow::OpKernelContext* ctx, const LockedVariables& vars,
                                 std::vector<Rows>* rows) const;
  tensorflow::Status IndexError(int var, int64_t place, int64_t index, int64_t count) const;

  bool sum_duplicates_ = true;
  std::vector<bool> distinct_;  // By Variable: whether no index comes twice.
};

template <class T, class Index, template <class> class Formula>
class MultiSparseApplyOp final : public MultiSparseApplyOpBase {
 public:
  explicit MultiSparseApplyOp(tensorflow::OpKernelConstruction* ctx)
      : MultiSparseApplyOpBase(ctx, F::kSlots, F::Names(), F::kFlag) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    std::vector<Rows> rows;
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars, &rows));
    std::vector<Gradient> gradients(num_vars_);
    for (int i = 0; i < num_vars_; ++i) {
      gradients[i] = {ctx->input(first_tensor() + i).template flat<Index>().data(),
                      ctx->input(first_tensor() + num_vars_ + i).template flat<T>().data(),
                      ctx->input(first_tensor() + i).NumElements(), rows[i].dim};
      OP_REQUIRES_OK(ctx, CheckIndices(i, gradients[i], rows[i].count));
    }
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx));
    vars.CopyOnRead();
    const F formula(ReadScalars<T>(ctx).data(), flag_);
    TfParallelFor pf(ctx);
    const std::vector<Share> shares = Shares(rows, gradients, pf.num_threads());
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) Work(formula, shares[s], rows, gradients, &vars);
    };
    const int64_t size = static_cast<int64_t>(shares.size());
    if (vars.HasDuplicates(first_scalar())) return work(0, size);
    pf.Run(size, size == 0 ? 0 : static_cast<int64_t>(TotalNs(rows, gradients)) / size, work);
  }

 private:
  using F = Formula<T>;
  using Gradient = SparseGradient<T, Index>;
  static constexpr int kArrays = 1 + F::kSlots;
  static constexpr int64_t kAhead = 8;                        // Rows whose memory is asked for before it is needed,
  static constexpr int64_t kLines = 8, kLineBytes = 64;       // and how much of it in each array.
  static constexpr double kNsPerShare = 100000;               // What a share should cost at least.
  static constexpr double kNsPerRow = 60, kNsPerByte = 0.15;  // Cache misses; reads, sums and writes.

  // Rows of Variable `var`: a hash's share, or the range [begin, end).
  struct Share {
    int var;
    RowShare hash;
    int64_t begin, end;
  };

  bool every_row() const { return F::kEveryRow && !flag_; }  // Their flag is `lazy`.

  tensorflow::Status CheckIndices(int var, const Gradient& gradient, int64_t count) const {
    for (int64_t i = 0; i < gradient.size; ++i) {
      const int64_t index = static_cast<int64_t>(gradient.indices[i]);
      if (index < 0 || index >= count) return IndexError(var, i, index, count);
    }
    return tensorflow::OkStatus();
  }

  double Ns(const Rows& rows, const Gradient& gradient) const {
    const double row_bytes = static_cast<double>(rows.dim * kArrays * static_cast<int64_t>(sizeof(T)));
    const double sparse = static_cast<double>(gradient.size) * (kNsPerRow + row_bytes * kNsPerByte);
    return sparse + (every_row() ? static_cast<double>(rows.count) * row_bytes * kNsPerByte : 0);
  }

  double TotalNs(const std::vector<Rows>& rows, const std::vector<Gradient>& gradients) const {
    double total = 0;
    for (int i = 0; i < num_vars_; ++i) total += Ns(rows[i], gradients[i]);
    return total;
  }

  std::vector<Share> Shares(const std::vector<Rows>& rows, const std::vector<Gradient>& gradients, int threads) const {
    std::vector<Share> shares;
    for (int i = 0; i < num_vars_; ++i) {
      if (rows[i].count == 0 || (gradients[i].size == 0 && !every_row())) continue;
      // As many as threads: a share costs a look at all indices.
      int bits = 0;
      while ((1 << bits) < threads && Ns(rows[i], gradients[i]) > kNsPerShare * (2 << bits)) ++bits;
      const int64_t parts = int64_t{1} << bits;
      for (int64_t p = 0; p < parts; ++p) {
        shares.push_back(
            {i, {static_cast<uint64_t>(p), bits}, rows[i].count * p / parts, rows[i].count * (p + 1) / parts});
      }
    }
    return shares;
  }

  void Work(const F& formula, const Share& share, const std::vector<Rows>& rows, const std::vector<Gradient>& gradients,
            LockedVariables* vars) const {
    T* arrays[kArrays];
    for (int k = 0; k < kArrays; ++k) arrays[k] = vars->data<T>(k * num_vars_ + share.var);
    const Gradient& gradient = gradients[share.var];
    if (every_row()) {
      StepEveryRow(formula, share, arrays, gradient);
    } else if (distinct_[share.var]) {
      StepDistinct(formula, share, arrays, gradient);
    } else if (sum_duplicates_) {
      StepSums(formula, share, arrays, gradient);
    } else {
      StepEach(formula, share, arrays, gradient);
    }
  }

  // One step for each row with a gradient.
  void StepSums(const F& formula, const Share& share, T* const* arrays, const Gradient& gradient) const {
    SparseRows<T> sums;
    sums.Sum(gradient, share.hash);
    const auto& rows = sums.rows();
    std::vector<T> scratch(gradient.dim);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (r + kAhead < rows.size()) Prefetch(arrays, rows[r + kAhead].index, gradient.dim);
      StepRow(formula, arrays, rows[r].index, WithoutNegativeZeros(rows[r].grad, &scratch), gradient.dim);
    }
  }

  // The share's part of gradients none of which has its row in common with another.
  void StepDistinct(const F& formula, const Share& share, T* const* arrays, const Gradient& gradient) const {
    const int64_t begin = gradient.size * static_cast<int64_t>(share.hash.number) >> share.hash.bits;
    const int64_t end = gradient.size * static_cast<int64_t>(share.hash.number + 1) >> share.hash.bits;
    std::vector<T> scratch(gradient.dim);
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) Prefetch(arrays, static_cast<int64_t>(gradient.indices[i + kAhead]), gradient.dim);
      const T* grad = WithoutNegativeZeros(gradient.grads + i * gradient.dim, &scratch);
      StepRow(formula, arrays, static_cast<int64_t>(gradient.indices[i]), grad, gradient.dim);
    }
  }

  // One step for each gradient, in their order.
  void StepEach(const F& formula, const Share& share, T* const* arrays, const Gradient& gradient) const {
    for (int64_t i = 0; i < gradient.size; ++i) {
      if (i + kAhead < gradient.size) {
        Prefetch(arrays, static_cast<int64_t>(gradient.indices[i + kAhead]), gradient.dim);
      }
      const int64_t row = static_cast<int64_t>(gradient.indices[i]);
      if (share.hash.Has(row)) StepRow(formula, arrays, row, gradient.grads + i * gradient.dim, gradient.dim);
    }
  }

  // The rows of a range, block by block: what is for all of them, and in between the steps of those with a gradient.
  void StepEveryRow(const F& formula, const Share& share, T* const* arrays, const Gradient& gradient) const {
    if constexpr (F::kEveryRow) {
      const int64_t dim = gradient.dim;
      ScratchArray<uint32_t> place(share.end - share.begin);
      SparseRows<T> sums;
      sums.SumRange(gradient, share.begin, share.end, place.data());
      std::vector<T> scratch(dim);
      const int64_t block = std::max<int64_t>(1, dense::kBlock / std::max<int64_t>(1, dim));
      for (int64_t begin = share.begin; begin < share.end; begin += block) {
        const int64_t end = std::min(begin + block, share.end);
        T* p[kArrays];
        for (int k = 0; k < kArrays; ++k) p[k] = arrays[k] + begin * dim;
        formula.Decay(p, (end - begin) * dim);
        for (int64_t row = begin; row < end; ++row) {
          const uint32_t mine = place[row - share.begin];
          if (mine == 0) continue;
          T* q[kArrays];
          for (int k = 0; k < kArrays; ++k) q[k] = arrays[k] + row * dim;
          formula.Step(q, WithoutNegativeZeros(sums.rows()[mine - 1].grad, &scratch), dim);
        }
        if (F::kFinish) formula.Finish(p, (end - begin) * dim);
      }
    }
  }

  static void StepRow(const F& formula, T* const* arrays, int64_t row, const T* grad, int64_t dim) {
    T* p[kArrays];
    for (int k = 0; k < kArrays; ++k) p[k] = arrays[k] + row * dim;
    if constexpr (F::kEveryRow) formula.Decay(p, dim);
    formula.Step(p, grad, dim);
    if constexpr (F::kEveryRow) formula.Finish(p, dim);
  }

  // TensorFlow's sums start at 0, and 0 + -0 is 0.
  static const T* WithoutNegativeZeros(const T* grad, std::vector<T>* scratch) {
    for (size_t j = 0; j < scratch->size(); ++j) (*scratch)[j] = grad[j] + T(0);
    return scratch->data();
  }

  // The lines of a row, which need not begin with one: a row of 17 columns lies in two, and a miss for its second one
  // was half of Adagrad's time. Beyond kLines a processor's own prefetching has seen what is coming.
  TFB_FETCHES static void Prefetch(T* const* arrays, int64_t row, int64_t dim) {
    const int64_t bytes = std::min(kLines * kLineBytes, dim * static_cast<int64_t>(sizeof(T)));
    for (int k = 0; k < kArrays; ++k) {
      const char* const first = reinterpret_cast<const char*>(arrays[k] + row * dim);
      for (int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(first + at, 1);
      const auto line = [](const char* p) { return reinterpret_cast<uintptr_t>(p) / kLineBytes; };
      if (line(first + (bytes - 1) / kLineBytes * kLineBytes) != line(first + bytes - 1)) {
        __builtin_prefetch(first + bytes - 1, 1);
      }
    }
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_MULTI_SPARSE_APPLY_OP_H_
