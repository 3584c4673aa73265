// Sparse steps on many Variables as bodies for the GPU: a unit is 16 bytes of a row where all rows are
// aligned to that, else one column.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_BODY_H_

#include <algorithm>
#include <vector>

#include "cc/core/gpu/row_sums.h"
#include "cc/core/optimizer/multi_apply_body.h"
#include "cc/core/optimizer/multi_sparse_apply_gpu.h"

namespace tf_booster {
namespace gpu {

// TensorFlow's sums start at 0, and 0 + -0 is 0. V: the columns that a thread takes, Pack<T> or One<T>.
template <class V>
struct GradientTerm {
  const typename V::Type* column;  // Of the first gradient.
  int64_t dim;
  TFB_HOST_DEVICE V operator()(const RowGroups::Position& at) const {
    // A copy first: from a reference nvcc loads element by element, whatever the type's alignment.
    const V grad = *reinterpret_cast<const V*>(column + at.place * dim);
    V sum = {};
    return sum += grad;
  }
};

template <class Step>
struct RowsJob {
  using T = typename Step::Type;
  SparseJob<Step> variable;
  RowGroups groups;
  T* partials = nullptr;  // [NumPartials, dim]
  bool packed = false;    // 16 bytes of columns a thread: all rows begin at multiples of that.
  int64_t units = 0;

  template <class V>
  TFB_HOST_DEVICE GradientTerm<V> TermOf(int64_t column) const {
    return {variable.grads + column, variable.dim};
  }
  template <class V>
  TFB_HOST_DEVICE PartialAt<V> PartialsOf(int64_t column) const {
    return {reinterpret_cast<V*>(partials + column), variable.dim / V::kSize, WindowsOf(groups.size)};
  }
  template <class V>
  TFB_HOST_DEVICE V SumAt(int64_t k, int64_t column) const {
    return SumOfRow<V>(groups, k, TermOf<V>(column), PartialsOf<V>(column));
  }
};

// Unit: columns of a place of partial sums. Sums the pieces of long rows, or the blocks of these.
template <class Step, bool kBlocks>
struct SumPartials {
  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    RunColumns<typename Step::Type>(
        job.packed, job.variable.dim, unit, [&](auto columns, int64_t place, int64_t column) {
          using V = decltype(columns);
          StorePartial<kBlocks>(job.groups, job.groups, place, job.template TermOf<V>(column),
                                job.template PartialsOf<V>(column));
        });
  }
};

// What a thread does with its columns: loads them with their slots, changes them, stores them. change(arrays).
template <class V, class Step, class Change>
TFB_HOST_DEVICE void ChangeArrays(const SparseJob<Step>& variable, int64_t at, const Change& change) {
  V arrays[1 + Step::kSlots];
  TFB_UNROLL
  for (int k = 0; k <= Step::kSlots; ++k) arrays[k] = *reinterpret_cast<const V*>(variable.arrays[k] + at);
  change(arrays);
  TFB_UNROLL
  for (int k = 0; k <= Step::kSlots; ++k) StorePack(reinterpret_cast<V*>(variable.arrays[k] + at), arrays[k]);
}

// Unit: columns of a position. Rows with a gradient step, at the position of their head.
template <class Step>
struct StepRowsUnit {
  using T = typename Step::Type;
  static constexpr int kArrays = 1 + Step::kSlots;
  Step step;
  bool sum_duplicates;

  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    RunColumns<typename Step::Type>(job.packed, job.variable.dim, unit, [&](auto columns, int64_t k, int64_t column) {
      using V = decltype(columns);
      const RowGroups& groups = job.groups;
      if (!groups.is_head(k)) return;
      const int64_t dim = job.variable.dim;
      ChangeArrays<V>(job.variable, groups.row(k) * dim + column, [&](V* arrays) {
        if (sum_duplicates) {
          StepWith(job.template SumAt<V>(k, column), arrays);
        } else {
          const uint64_t key = groups.keys[k];
          for (int64_t i = k; groups.has(i, key); ++i) {
            StepWith(*reinterpret_cast<const V*>(job.variable.grads + groups.place(i) * dim + column), arrays);
          }
        }
      });
    });
  }

  template <class V>
  TFB_HOST_DEVICE void StepWith(const V& grad, V* arrays) const {
    ChangeColumns<kArrays>(arrays, [&](int i, T* values) {
      step.Decay(values);
      step.Step(grad.at[i], values);
      step.Finish(values);
    });
  }
};

// Unit: columns of a row. Every row decays and moves.
template <class Step>
struct StepEveryRowUnit {
  using T = typename Step::Type;
  static constexpr int kArrays = 1 + Step::kSlots;
  Step step;

  TFB_HOST_DEVICE void operator()(const RowsJob<Step>& job, int64_t unit) const {
    RunColumns<typename Step::Type>(job.packed, job.variable.dim, unit, [&](auto columns, int64_t row, int64_t column) {
      using V = decltype(columns);
      const int32_t head = job.groups.head_of[row];
      ChangeArrays<V>(job.variable, row * job.variable.dim + column, [&](V* arrays) {
        const V grad = head > 0 ? job.template SumAt<V>(head - 1, column) : V();
        ChangeColumns<kArrays>(arrays, [&](int i, T* values) {
          step.Decay(values);
          if (head > 0) step.Step(grad.at[i], values);
          step.Finish(values);
        });
      });
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

// Whether rows consist of packs, and begin at multiples of their size. Scratch memory does.
template <class Step>
bool CanPack(const SparseJob<Step>& job) {
  return job.dim % Pack<typename Step::Type>::kSize == 0 && IsPackAligned(job.grads) &&
         std::all_of(job.arrays, job.arrays + 1 + Step::kSlots, IsPackAligned);
}

// With a null queue it only takes its memory from `scratch`.
template <class Step, class Index, class Queue>
void MultiSparseApply(Queue* queue, const std::vector<SparseJob<Step>>& jobs,
                      const std::vector<RowNumbers<Index>>& numbers, const std::vector<JobsOfNumbers>& jobs_of,
                      const StepInputs<typename Step::Type>& inputs, const SparseRule& rule, Scratch* scratch) {
  using T = typename Step::Type;
  const bool every_row = rule.every_row && Step::kEveryRow, sums = rule.sum_duplicates || every_row;
  const std::vector<RowGroups> groups = GroupRows(queue, numbers, every_row, scratch);
  std::vector<RowsJob<Step>> steps, pieces, blocks;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const SparseJob<Step>& first = jobs[jobs_of[i].first];
    RowsJob<Step> job = {first, groups[i], nullptr, CanPack(first), 0};
    if (sums) job.partials = scratch->Take<T>(NumPartials(groups[i].size) * first.dim);
    job.units = PieceUnits(groups[i].size) * UnitsOfRow<T>(job.packed, first.dim);
    pieces.push_back(job);
    job.units = BlockUnits(groups[i].size) * UnitsOfRow<T>(job.packed, first.dim);
    blocks.push_back(job);
    int64_t begin = jobs_of[i].begin;
    for (size_t p = 0; p < jobs_of[i].parts.size(); ++p) {
      const int64_t rows = jobs_of[i].parts[p];
      job.variable = jobs[jobs_of[i].first + p];
      job.packed = CanPack(job.variable);
      job.groups = groups[i].OfRows(begin, rows);
      job.units = (every_row ? rows : groups[i].size) * UnitsOfRow<T>(job.packed, first.dim);
      steps.push_back(job);
      begin += rows;
    }
  }
  if (queue == nullptr) return;
  if (sums) ForEachUnit(*queue, pieces, SumPartials<Step, false>());
  if (sums) ForEachUnit(*queue, blocks, SumPartials<Step, true>());
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
