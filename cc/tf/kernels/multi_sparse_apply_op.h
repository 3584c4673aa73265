// The kernel of every TfBoosterMultiSparseApply… op: checks the inputs, locks the Variables, and steps their rows.
//
// Work is cut by rows, so that a row belongs to one thread: by their hash where only rows with a gradient move, into
// ranges where every row does. Each share looks at all indices of its table, at 1 ns each.
#ifndef TF_BOOSTER_CC_TF_KERNELS_MULTI_SPARSE_APPLY_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_MULTI_SPARSE_APPLY_OP_H_

#include <algorithm>
#include <vector>

#include "cc/core/base/lines_ahead.h"
#include "cc/core/base/row_parts.h"
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
  // What one gradient is for: rows of one Variable, or of the parts of one that follow each other among `var`.
  struct Table {
    RowParts rule;      // rows: of all parts.
    int first_var = 0;  // Has part first_part; the next ones follow.
    int64_t first_part = 0;
    int num_vars = 1;
    int64_t dim = 0;
    bool distinct = false;  // No index comes twice.
  };

  // Checks shapes of Variables, slots, indices and gradients.
  tensorflow::Status FindTables(tensorflow::OpKernelContext* ctx, const LockedVariables& vars,
                                std::vector<Table>* tables) const;
  // wrong: of a formula's hyperparameters; null: nothing.
  tensorflow::Status CheckScalarValues(const char* wrong) const;
  tensorflow::Status IndexError(int var, int64_t place, int64_t index, int64_t count) const;

  bool sum_duplicates_ = true;

 private:
  // Whether Variable i has the same indices and gradient as the one before it, and is the next part of the same table.
  bool FollowsInTable(tensorflow::OpKernelContext* ctx, int i) const;

  std::vector<bool> distinct_;   // By Variable.
  std::vector<RowParts> rules_;  // By Variable,
  std::vector<int64_t> part_;    // which part of it it is;
  bool in_parts_ = false;        // whether any is one: else rules_ have no rows.
};

template <class T, class Index, template <class> class Formula>
class MultiSparseApplyOp final : public MultiSparseApplyOpBase {
 public:
  explicit MultiSparseApplyOp(tensorflow::OpKernelConstruction* ctx)
      : MultiSparseApplyOpBase(ctx, F::kSlots, F::Names(), F::kFlag) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    const F formula(ReadScalars<T>(ctx).data(), flag_);
    OP_REQUIRES_OK(ctx, CheckScalarValues(formula.Wrong()));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    std::vector<Table> tables;
    OP_REQUIRES_OK(ctx, FindTables(ctx, vars, &tables));
    std::vector<Gradient> gradients;
    for (const Table& table : tables) {
      const tensorflow::Tensor& indices = ctx->input(first_tensor() + table.first_var);
      gradients.push_back({indices.template flat<Index>().data(),
                           ctx->input(first_tensor() + num_vars_ + table.first_var).template flat<T>().data(),
                           indices.NumElements(), table.dim});
      OP_REQUIRES_OK(ctx, CheckIndices(table, gradients.back()));
    }
    std::vector<std::vector<Index>> places(tables.size());
    for (size_t t = 0; t < tables.size(); ++t) UsePlaces(tables[t].rule, &gradients[t], &places[t]);
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx));
    vars.CopyOnRead();
    TfParallelFor pf(ctx);
    const std::vector<Share> shares = Shares(tables, gradients, pf.num_threads());
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) Work(formula, shares[s], tables[shares[s].table], gradients, &vars);
    };
    const int64_t size = static_cast<int64_t>(shares.size());
    if (vars.HasDuplicates(first_scalar())) return work(0, size);
    pf.Run(size, size == 0 ? 0 : static_cast<int64_t>(TotalNs(tables, gradients)) / size, work);
  }

 private:
  using F = Formula<T>;
  using Gradient = SparseGradient<T, Index>;
  static constexpr int kArrays = 1 + F::kSlots;
  static constexpr int64_t kAhead = 8;                        // Rows whose memory is asked for before it is needed,
  static constexpr int64_t kLines = 8, kLineBytes = 64;       // and how much of it in each array.
  static constexpr double kNsPerShare = 100000;               // What a share should cost at least.
  static constexpr double kNsPerRow = 60, kNsPerByte = 0.15;  // Cache misses; reads, sums and writes.

  // Rows of a table: a hash's share, or of every row those at places [begin, end), which are of one part.
  struct Share {
    size_t table;
    RowShare hash;
    int64_t begin, end;
  };

  // The memory of a table's rows, by their places: of a Variable,
  class WholeRows {
   public:
    WholeRows(const Table& table, int num_vars, LockedVariables* vars) : dim_(table.dim) {
      for (int k = 0; k < kArrays; ++k) arrays_[k] = vars->data<T>(k * num_vars + table.first_var);
    }
    // False: another op has the row.
    bool At(int64_t place, T** arrays) const {
      for (int k = 0; k < kArrays; ++k) arrays[k] = arrays_[k] + place * dim_;
      return true;
    }

   private:
    const int64_t dim_;
    T* arrays_[kArrays];
  };

  // and of the parts of one.
  class RowsOfParts {
   public:
    RowsOfParts(const Table& table, int num_vars, LockedVariables* vars) : table_(table) {
      for (int i = 0; i < table.num_vars; ++i) {
        for (int k = 0; k < kArrays; ++k) arrays_.push_back(vars->data<T>(k * num_vars + table.first_var + i));
      }
    }
    bool At(int64_t place, T** arrays) const {
      const RowParts::Row at = table_.rule.RowAt(place);
      const int64_t var = at.part - table_.first_part;
      if (var < 0 || var >= table_.num_vars) return false;
      for (int k = 0; k < kArrays; ++k) arrays[k] = arrays_[var * kArrays + k] + at.row * table_.dim;
      return true;
    }

   private:
    const Table& table_;
    std::vector<T*> arrays_;  // Of each Variable.
  };

  bool every_row() const { return F::kEveryRow && !flag_; }  // Their flag is `lazy`.

  tensorflow::Status CheckIndices(const Table& table, const Gradient& gradient) const {
    for (int64_t i = 0; i < gradient.size; ++i) {
      const int64_t index = static_cast<int64_t>(gradient.indices[i]);
      if (index < 0 || index >= table.rule.rows) return IndexError(table.first_var, i, index, table.rule.rows);
    }
    return tensorflow::OkStatus();
  }

  // From here on indices are places.
  static void UsePlaces(const RowParts& rule, Gradient* gradient, std::vector<Index>* places) {
    if (!rule.mod) return;
    places->resize(gradient->size);
    for (int64_t i = 0; i < gradient->size; ++i) {
      (*places)[i] = static_cast<Index>(rule.PlaceOf(static_cast<int64_t>(gradient->indices[i])));
    }
    gradient->indices = places->data();
  }

  double Ns(const Table& table, const Gradient& gradient) const {
    const double row_bytes = static_cast<double>(table.dim * kArrays * static_cast<int64_t>(sizeof(T)));
    const double sparse = static_cast<double>(gradient.size) * (kNsPerRow + row_bytes * kNsPerByte);
    return sparse + (every_row() ? static_cast<double>(table.rule.rows) * row_bytes * kNsPerByte : 0);
  }

  double TotalNs(const std::vector<Table>& tables, const std::vector<Gradient>& gradients) const {
    double total = 0;
    for (size_t t = 0; t < tables.size(); ++t) total += Ns(tables[t], gradients[t]);
    return total;
  }

  std::vector<Share> Shares(const std::vector<Table>& tables, const std::vector<Gradient>& gradients,
                            int threads) const {
    std::vector<Share> shares;
    for (size_t t = 0; t < tables.size(); ++t) {
      const Table& table = tables[t];
      if (table.rule.rows == 0 || (gradients[t].size == 0 && !every_row())) continue;
      // As many as threads: a share costs a look at all indices.
      int bits = 0;
      while ((1 << bits) < threads && Ns(table, gradients[t]) > kNsPerShare * (2 << bits)) ++bits;
      const int64_t shares_of_table = int64_t{1} << bits;
      if (!every_row()) {
        for (int64_t s = 0; s < shares_of_table; ++s) shares.push_back({t, {static_cast<uint64_t>(s), bits}, 0, 0});
        continue;
      }
      for (int64_t part = table.first_part; part < table.first_part + table.num_vars; ++part) {
        const int64_t first = table.rule.Begin(part), rows = table.rule.Size(part);
        for (int64_t s = 0; s < shares_of_table; ++s) {
          shares.push_back({t, {}, first + rows * s / shares_of_table, first + rows * (s + 1) / shares_of_table});
        }
      }
    }
    return shares;
  }

  void Work(const F& formula, const Share& share, const Table& table, const std::vector<Gradient>& gradients,
            LockedVariables* vars) const {
    if (table.rule.parts == 1) {
      Work(formula, share, table, gradients[share.table], WholeRows(table, num_vars_, vars));
    } else {
      Work(formula, share, table, gradients[share.table], RowsOfParts(table, num_vars_, vars));
    }
  }

  template <class RowArrays>
  void Work(const F& formula, const Share& share, const Table& table, const Gradient& gradient,
            const RowArrays& arrays) const {
    if (every_row()) {
      StepEveryRow(formula, share, arrays, gradient);
    } else if (table.distinct) {
      StepDistinct(formula, share, arrays, gradient);
    } else if (sum_duplicates_) {
      StepSums(formula, share, arrays, gradient);
    } else {
      StepEach(formula, share, arrays, gradient);
    }
  }

  // One step for each row with a gradient.
  template <class RowArrays>
  void StepSums(const F& formula, const Share& share, const RowArrays& arrays, const Gradient& gradient) const {
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
  template <class RowArrays>
  void StepDistinct(const F& formula, const Share& share, const RowArrays& arrays, const Gradient& gradient) const {
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
  template <class RowArrays>
  void StepEach(const F& formula, const Share& share, const RowArrays& arrays, const Gradient& gradient) const {
    for (int64_t i = 0; i < gradient.size; ++i) {
      if (i + kAhead < gradient.size) {
        Prefetch(arrays, static_cast<int64_t>(gradient.indices[i + kAhead]), gradient.dim);
      }
      const int64_t row = static_cast<int64_t>(gradient.indices[i]);
      if (share.hash.Has(row)) StepRow(formula, arrays, row, gradient.grads + i * gradient.dim, gradient.dim);
    }
  }

  // The rows of a range, block by block: what is for all of them, and in between the steps of those with a gradient.
  template <class RowArrays>
  void StepEveryRow(const F& formula, const Share& share, const RowArrays& arrays, const Gradient& gradient) const {
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
        if (!arrays.At(begin, p)) return;
        formula.Decay(p, (end - begin) * dim);
        for (int64_t row = begin; row < end; ++row) {
          const uint32_t mine = place[row - share.begin];
          if (mine == 0) continue;
          T* q[kArrays];
          for (int k = 0; k < kArrays; ++k) q[k] = p[k] + (row - begin) * dim;
          formula.Step(q, WithoutNegativeZeros(sums.rows()[mine - 1].grad, &scratch), dim);
        }
        if (F::kFinish) formula.Finish(p, (end - begin) * dim);
      }
    }
  }

  // Flat: with two kinds of arrays GCC would call the formula, which took 4 % of a step of Adagrad.
  template <class RowArrays>
  __attribute__((flatten)) static void StepRow(const F& formula, const RowArrays& arrays, int64_t row, const T* grad,
                                               int64_t dim) {
    T* p[kArrays];
    if (!arrays.At(row, p)) return;
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
  template <class RowArrays>
  TFB_FETCHES static void Prefetch(const RowArrays& arrays, int64_t row, int64_t dim) {
    const int64_t bytes = std::min(kLines * kLineBytes, dim * static_cast<int64_t>(sizeof(T)));
    T* p[kArrays];
    if (!arrays.At(row, p)) return;
    for (int k = 0; k < kArrays; ++k) {
      const char* const first = reinterpret_cast<const char*>(p[k]);
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
