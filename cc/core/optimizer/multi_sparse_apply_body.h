// Sparse steps on many Variables as bodies for the GPU: a unit is one column of one row.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_BODY_H_

#include <vector>

#include "cc/core/optimizer/multi_apply_body.h"
#include "cc/core/optimizer/multi_sparse_apply_gpu.h"

namespace tf_booster {
namespace gpu {

// TensorFlow's sums start at 0, and 0 + -0 is 0.
template <class T>
struct GradientTerm {
  const T* column;  // Of the first gradient.
  int64_t dim;
  TFB_HOST_DEVICE T operator()(int64_t place) const { return T(0) + column[place * dim]; }
};

template <class Step>
struct RowsJob {
  using T = typename Step::Type;
  SparseJob<Step> variable;
  RowGroups groups;
  T* partials = nullptr;  // [NumPieces, dim]
  int64_t units = 0;

  TFB_HOST_DEVICE T SumAt(int64_t k, int64_t column) const {
    return SumOfRow<T>(groups, k, GradientTerm<T>{variable.grads + column, variable.dim},
                       PartialAt<T>{partials + column, variable.dim});
  }
};

// Unit: a column of a block of 64 positions. Sums the pieces of long rows.
template <class Step>
struct SumPieces {
  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    const int64_t dim = job.variable.dim, block = unit / dim, column = unit - block * dim;
    const int64_t piece = LaterPiece(job.groups, block);
    if (piece < 0) return;
    using T = typename Step::Type;
    job.partials[unit] = SumOfPiece<T>(job.groups, piece, GradientTerm<T>{job.variable.grads + column, dim});
  }
};

// What a thread does with its element: loads it with its slots, changes it, stores it.
template <class Step, class Change>
TFB_HOST_DEVICE void ChangeElement(const SparseJob<Step>& variable, int64_t at, const Change& change) {
  typename Step::Type values[1 + Step::kSlots];
  for (int k = 0; k <= Step::kSlots; ++k) values[k] = variable.arrays[k][at];
  change(values);
  for (int k = 0; k <= Step::kSlots; ++k) variable.arrays[k][at] = values[k];
}

// Unit: a column of a position. Rows with a gradient step, at the position of their head.
template <class Step>
struct StepRowsUnit {
  using T = typename Step::Type;
  Step step;
  bool sum_duplicates;

  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    const int64_t dim = job.variable.dim, k = unit / dim, column = unit - k * dim;
    const RowGroups& groups = job.groups;
    if (!groups.is_head(k)) return;
    ChangeElement(job.variable, groups.row(k) * dim + column, [&](T* values) {
      if (sum_duplicates) {
        StepWith(job.SumAt(k, column), values);
      } else {
        const uint64_t key = groups.keys[k];
        for (int64_t i = k; groups.has(i, key); ++i) {
          StepWith(job.variable.grads[groups.place(i) * dim + column], values);
        }
      }
    });
  }

  TFB_HOST_DEVICE void StepWith(T grad, T* values) const {
    step.Decay(values);
    step.Step(grad, values);
    step.Finish(values);
  }
};

// Unit: a column of a row. Every row decays and moves.
template <class Step>
struct StepEveryRowUnit {
  using T = typename Step::Type;
  Step step;

  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    const int64_t row = unit / job.variable.dim, column = unit - row * job.variable.dim;
    const int32_t head = job.groups.head_of[row];
    ChangeElement(job.variable, unit, [&](T* values) {
      step.Decay(values);
      if (head > 0) step.Step(job.SumAt(head - 1, column), values);
      step.Finish(values);
    });
  }
};

template <class Step>
struct StepRows {
  StepInputs<typename Step::Type> inputs;
  bool sum_duplicates;
  TFB_HOST_DEVICE StepRowsUnit<Step> Prepare() const { return {MakeStep<Step>(inputs), sum_duplicates}; }
};

template <class Step>
struct StepEveryRow {
  StepInputs<typename Step::Type> inputs;
  TFB_HOST_DEVICE StepEveryRowUnit<Step> Prepare() const { return {MakeStep<Step>(inputs)}; }
};

// With a null queue it only takes its memory from `scratch`.
template <class Step, class Index, class Queue>
void MultiSparseApply(Queue* queue, const std::vector<SparseJob<Step>>& jobs,
                      const std::vector<RowNumbers<Index>>& numbers, const StepInputs<typename Step::Type>& inputs,
                      const SparseRule& rule, Scratch* scratch) {
  using T = typename Step::Type;
  const bool every_row = rule.every_row && Step::kEveryRow, sums = rule.sum_duplicates || every_row;
  const std::vector<RowGroups> groups = GroupRows(queue, numbers, every_row, scratch);
  std::vector<RowsJob<Step>> steps, pieces;
  for (size_t i = 0; i < jobs.size(); ++i) {
    RowsJob<Step> job = {jobs[i], groups[i], nullptr, 0};
    const int64_t piece_units = NumPieces(groups[i].size) * jobs[i].dim;
    if (sums) job.partials = scratch->Take<T>(piece_units);
    job.units = (groups[i].size + kPiece - 1) / kPiece * jobs[i].dim;
    pieces.push_back(job);
    job.units = (every_row ? groups[i].rows : groups[i].size) * jobs[i].dim;
    steps.push_back(job);
  }
  if (queue == nullptr) return;
  if (sums) ForEachUnit(*queue, pieces, SumPieces<Step>());
  const auto run = [&](const std::vector<RowsJob<Step>>& some) {
    if constexpr (Step::kEveryRow) {
      if (every_row) return ForEachUnit(*queue, some, StepEveryRow<Step>{inputs});
    }
    ForEachUnit(*queue, some, StepRows<Step>{inputs, sums});
  };
  if (!rule.one_after_another) return run(steps);
  for (const auto& job : steps) run({job});
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_BODY_H_
