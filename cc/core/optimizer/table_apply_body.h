// One optimizer step on a table on the card: places of gradients, one stable sort by key, one record for each sorted
// place, then one pass over the rows with their slots. Nothing waits for the card but what GpuTable::UpdateAsync may
// wait for, and check_numerics.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_BODY_H_

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/gpu/row_sums.h"
#include "cc/core/hash_table/gpu/gpu_table_state.h"
#include "cc/core/optimizer/multi_apply_body.h"
#include "cc/core/optimizer/sparse_apply.h"
#include "cc/core/optimizer/table_apply_gpu.h"
#include "cc/core/unique/unique_body.h"

namespace tf_booster {
namespace gpu {

// Units: keys of a probe, of those that go into one batch.
struct ProbeJob {
  const int64_t* places = nullptr;  // Where its keys are among the merged ones.
  const int64_t* counts = nullptr;
  int64_t units = 0;
};

struct AddCounts {
  int64_t* counts;
  TFB_HOST_DEVICE void operator()(const ProbeJob& job, int64_t i) const {
    if (job.counts[i] > 0) {
      AtomicAdd(reinterpret_cast<uint64_t*>(counts + job.places[i]), static_cast<uint64_t>(job.counts[i]));
    }
  }
};

// The place in the batch's keys of each code; the number of keys for those that are none.
struct CodeJob {
  const int64_t* codes = nullptr;
  const float* grads = nullptr;
  int64_t first = 0;  // Among all gradients.
  int64_t units = 0;
};
struct PlaceCodes {
  static constexpr int kMostProbes = 64;
  int64_t dim;
  int64_t num_keys;
  int64_t num_probes;
  const int64_t* places[kMostProbes];  // Of each probe's keys among the merged ones; null: they are the batch's own.
  int64_t sizes[kMostProbes];
  uint32_t* out;
  int32_t* order;
  const float** rows;

  TFB_HOST_DEVICE void operator()(const CodeJob& job, int64_t i) const {
    const uint64_t code = static_cast<uint64_t>(job.codes[i]);
    const uint64_t group = code >> kCodePlaceBits;
    const int64_t place = static_cast<int64_t>(code & ((uint64_t{1} << kCodePlaceBits) - 1)) - 1;
    const bool known = place >= 0 && group < static_cast<uint64_t>(num_probes) && place < sizes[group];
    const int64_t key = !known ? num_keys : places[group] == nullptr ? place : places[group][place];
    out[job.first + i] = static_cast<uint32_t>(key);
    order[job.first + i] = static_cast<int32_t>(job.first + i);
    rows[job.first + i] = job.grads + i * dim;
  }
};

// Unit: a gradient's value.
struct FindNonFinite {
  uint64_t* found;
  TFB_HOST_DEVICE void operator()(const CodeJob& job, int64_t i) const {
    if (!(std::abs(job.grads[i]) <= 3.4028234e38f)) RaiseTo(found, static_cast<uint64_t>(job.first + i) + 1);
  }
};

// A gradient in the order of keys, with all that is asked about it: who sums and steps reads this and then the gradient
// or the row. From the sort's arrays it would be the order, then the pointer, then the gradient, each waiting for the
// one before.
struct alignas(16) SortedGradient {
  const float* grad;
  uint32_t key;  // Its place among the batch's keys; their number for a gradient of none.
  uint32_t row;  // The table's row at the first gradient of a key that has one, else 0.
};
static_assert(sizeof(SortedGradient) == kPackBytes, "one load");

struct SortedGradients {
  const SortedGradient* gradients = nullptr;
  int64_t size = 0;
  TFB_HOST_DEVICE SortedGradient At(int64_t k) const { return LoadPack(gradients + k); }
};

using GradientGroups = SortedGroups<uint32_t>;

// Unit: a sorted position.
struct WriteSorted {
  GradientGroups groups;
  const float* const* grads;  // Of each place.
  const uint32_t* rows;       // Of each key; 0: none.
  SortedGradient* sorted;

  TFB_HOST_DEVICE void operator()(int64_t k) const {
    const float* const grad = grads[groups.place(k)];
    const bool is_head = groups.is_head(k);
    const uint32_t row = is_head ? rows[groups.row(k)] : 0;
    if (is_head) groups.head_of[groups.row(k)] = static_cast<int32_t>(k + 1);
    StorePack(sorted + k, {grad, static_cast<uint32_t>(groups.row(k)), row});
  }
};

// Gradients by key, and the table. V: Pack<float> or One<float>; columns are counted in V.
template <class V>
struct TableRowsJob {
  GradientGroups groups;
  SortedGradients sorted;
  V* partials = nullptr;  // [NumPartials, columns]
  int64_t columns = 0;
  DeviceRows table;
  int64_t units = 0;

  struct Term {
    int64_t column;
    TFB_HOST_DEVICE V operator()(const SortedGradient& at) const { return reinterpret_cast<const V*>(at.grad)[column]; }
  };
  TFB_HOST_DEVICE PartialAt<V> PartialsOf(int64_t column) const {
    return {partials + column, columns, WindowsOf(groups.size)};
  }
};

// Unit: a column of a place of partial sums. Sums the pieces of keys with many gradients, or the blocks of these.
template <bool kBlocks>
struct SumTablePartials {
  template <class V>
  TFB_HOST_DEVICE void operator()(const TableRowsJob<V>& job, int64_t unit) const {
    using Term = typename TableRowsJob<V>::Term;
    const int64_t place = unit / job.columns, column = unit - place * job.columns;
    StorePartial<kBlocks>(job.groups, job.sorted, place, Term{column}, job.PartialsOf(column));
  }
};

// Unit: a column of a position; those of a key's first position step.
template <class Step>
struct StepTableRowsUnit {
  Step step;

  template <class V>
  TFB_HOST_DEVICE void operator()(const TableRowsJob<V>& job, int64_t unit) const {
    constexpr int kArrays = 1 + Step::kSlots;
    using Term = typename TableRowsJob<V>::Term;
    const int64_t k = unit / job.columns, column = unit - k * job.columns;
    const uint32_t row = job.sorted.At(k).row;
    if (row == 0) return;
    float* const begin = job.table.Values(row) + column * V::kSize;
    V arrays[kArrays];  // Asked for before the gradients, which take longer.
    TFB_UNROLL
    for (int a = 0; a < kArrays; ++a) arrays[a] = *reinterpret_cast<const V*>(begin + a * job.table.dim);
    const V grad = SumOfRow<V>(job.sorted, k, Term{column}, job.PartialsOf(column));
    ChangeColumns<kArrays>(arrays, [&](int c, float* values) { step.Step(grad.at[c], values); });
    TFB_UNROLL
    for (int a = 0; a < kArrays; ++a) StorePack(reinterpret_cast<V*>(begin + a * job.table.dim), arrays[a]);
  }
};

template <class Step>
struct StepTableRows {
  static constexpr int kResidentBlocks = 4;  // At most 64 registers: threads wait for memory.
  StepInputs<float> inputs;
  TFB_HOST_DEVICE StepTableRowsUnit<Step> Prepare() const { return {MakeStep<Step>(inputs)}; }
};

// A step's variant for tables of one column, where it has one.
template <class Step, class = void>
struct OneColumnOf {
  using Type = Step;
};
template <class Step>
struct OneColumnOf<Step, std::void_t<typename Step::OneColumn>> {
  using Type = typename Step::OneColumn;
};

template <class Queue>
class TableApply {
 public:
  TableApply(Queue& queue, GpuTable& table, const SparseApplyBatch& batch, Allocator* allocator)
      : queue_(queue), table_(table), batch_(batch), allocator_(allocator), dim_(table.options().dim) {
    for (const SparseGradient& gradient : batch.gradients) {
      codes_.push_back({gradient.codes, gradient.grads, total_, gradient.size});
      total_ += gradient.size;
      aligned_ &= IsPackAligned(gradient.grads);
    }
    for (const ProbeRef& probe : batch.probes) num_keys_ += probe.size;
    aligned_ &= dim_ % Pack<float>::kSize == 0;
  }

  template <class Step>
  Status Run(const StepInputs<float>& inputs) {
    if (batch_.probes.size() > PlaceCodes::kMostProbes) {
      return Invalid(StatusCode::kInvalidArgument,
                     std::to_string(batch_.probes.size()) + " probes feed one update, but the card's kernel takes 64");
    }
    if (total_ >= (int64_t{1} << 31) - 1 || num_keys_ >= int64_t{1} << 30) {
      return Invalid(StatusCode::kInvalidArgument, "indices have more entries than are possible; use smaller batches");
    }
    const int64_t bytes = ScratchBytes();
    DeviceBlock block(allocator_, bytes);
    if (!block.ok()) {
      return Invalid(StatusCode::kResourceExhausted, "the update's own arrays take " + std::to_string(bytes) +
                                                         " bytes of the card's memory, which its allocator refused");
    }
    Scratch memory(block.get());
    TakeArrays(&memory);
    if (batch_.check_numerics) TFB_RETURN_IF_ERROR(CheckNumerics());
    const DeviceUpdate update = MergeProbes(&memory);
    return table_.UpdateAsync(update, [&](const DeviceState& view, const uint32_t* rows) {
      if (total_ == 0) return Status();
      if (dim_ == 1) {
        StepRows<One<float>, typename OneColumnOf<Step>::Type>(view.rows, rows, inputs, &memory);
      } else if (aligned_) {
        StepRows<Pack<float>, Step>(view.rows, rows, inputs, &memory);
      } else {
        StepRows<One<float>, Step>(view.rows, rows, inputs, &memory);
      }
      return Status();
    });
  }

 private:
  using Unique = UniqueOnQueue<Queue, int64_t, int64_t>;

  Status Invalid(StatusCode code, const std::string& what) const {
    return Status(code, "Table '" + table_.options().name + "': " + what);
  }

  void TakeArrays(Scratch* scratch) {
    grads_ = scratch->Take<const float*>(total_);
    sorted_ = scratch->Take<SortedGradient>(total_);
    heads_ = scratch->Take<int32_t>(num_keys_);
    partials_ = scratch->Take<float>(NumPartials(total_) * dim_);
    non_finite_ = scratch->Take<uint64_t>(1);
    merged_keys_ = scratch->Take<int64_t>(merges() ? num_keys_ : 0);
    merged_fields_ = scratch->Take<uint32_t>(merges() ? num_keys_ : 0);
    merged_counts_ = scratch->Take<int64_t>(merges() ? num_keys_ : 0);
    probe_places_.clear();
    for (const ProbeRef& probe : batch_.probes)
      probe_places_.push_back(scratch->Take<int64_t>(merges() ? probe.size : 0));
  }

  // With what the merge and the sort take by themselves.
  int64_t ScratchBytes() {
    Scratch measure(nullptr);
    TakeArrays(&measure);
    if (merges()) Unique(KeyJobs(), &measure);
    RowSort<Queue, uint32_t>(total_, &measure);
    return measure.used();
  }

  bool merges() const { return batch_.probes.size() > 1; }

  std::vector<UniqueJob<int64_t, int64_t>> KeyJobs() const {
    std::vector<UniqueJob<int64_t, int64_t>> jobs;
    for (size_t p = 0; p < batch_.probes.size(); ++p) {
      UniqueJob<int64_t, int64_t> job;
      job.values = batch_.probes[p].keys;
      job.fields = batch_.probes[p].fields;
      job.idx = probe_places_[p];
      job.units = batch_.probes[p].size;
      jobs.push_back(job);
    }
    return jobs;
  }

  // The keys of all probes as one batch of distinct ones. Of several probes' handles none is taken: they are probed.
  DeviceUpdate MergeProbes(Scratch* memory) {
    if (!merges()) {
      const ProbeRef& probe = batch_.probes[0];
      return {{probe.keys, probe.fields, probe.size}, probe.counts, probe.handles, batch_.fields};
    }
    Unique unique(KeyJobs(), memory);
    unique.Find(queue_);
    unique.Write(queue_, 0, {merged_keys_, merged_fields_, nullptr});
    std::vector<ProbeJob> jobs;
    for (size_t p = 0; p < batch_.probes.size(); ++p) {
      jobs.push_back({probe_places_[p], batch_.probes[p].counts, batch_.probes[p].size});
    }
    queue_.Zero(merged_counts_, num_keys_ * static_cast<int64_t>(sizeof(int64_t)));
    ForEachUnit(queue_, jobs, AddCounts{merged_counts_});
    return {{merged_keys_, merged_fields_, num_keys_}, merged_counts_, nullptr, batch_.fields};
  }

  Status CheckNumerics() {
    std::vector<CodeJob> values = codes_;
    for (CodeJob& job : values) {
      job.first *= dim_;
      job.units *= dim_;
    }
    queue_.Zero(non_finite_, sizeof(uint64_t));
    ForEachUnit(queue_, values, FindNonFinite{non_finite_});
    uint64_t found = 0;
    queue_.ToHost(non_finite_, 1, &found);
    if (found == 0) return Status();
    const int64_t row = static_cast<int64_t>(found - 1) / dim_, column = static_cast<int64_t>(found - 1) % dim_;
    return Invalid(StatusCode::kInvalidArgument,
                   "a gradient is no finite number in row " + std::to_string(row) + " of all gradients, column " +
                       std::to_string(column) +
                       ", but check_numerics wants finite values; lower the learning rate or clip the gradients; "
                       "nothing was applied");
  }

  template <class V, class Step>
  void StepRows(const DeviceRows& table, const uint32_t* rows, const StepInputs<float>& inputs, Scratch* memory) {
    PlaceCodes place = {};
    place.dim = dim_;
    place.num_keys = num_keys_;
    place.num_probes = static_cast<int64_t>(batch_.probes.size());
    for (size_t p = 0; p < batch_.probes.size(); ++p) {
      place.places[p] = merges() ? probe_places_[p] : nullptr;
      place.sizes[p] = batch_.probes[p].size;
    }
    const RowSort<Queue, uint32_t> sort(total_, memory);
    place.out = sort.keys;
    place.order = sort.order;
    place.rows = grads_;
    ForEachUnit(queue_, codes_, place);
    sort.Run(queue_, total_, static_cast<uint64_t>(num_keys_) + 1);
    TableRowsJob<V> job;
    job.groups = {sort.sorted_keys, sort.sorted_order, heads_, 0, 0, total_, num_keys_};
    ForEach(queue_, total_, WriteSorted{job.groups, grads_, rows, sorted_});
    job.sorted = {sorted_, total_};
    job.partials = reinterpret_cast<V*>(partials_);
    job.columns = dim_ / V::kSize;
    job.table = table;
    const auto run = [&](int64_t positions, const auto& body) {
      job.units = positions * job.columns;
      ForEachUnit(queue_, std::vector<TableRowsJob<V>>{job}, body);
    };
    run(PieceUnits(total_), SumTablePartials<false>());
    run(BlockUnits(total_), SumTablePartials<true>());
    run(total_, StepTableRows<Step>{inputs});
  }

  Queue& queue_;
  GpuTable& table_;
  const SparseApplyBatch& batch_;
  Allocator* const allocator_;
  const int64_t dim_;
  std::vector<CodeJob> codes_;
  int64_t total_ = 0;
  int64_t num_keys_ = 0;
  bool aligned_ = true;

  const float** grads_ = nullptr;
  SortedGradient* sorted_ = nullptr;
  int32_t* heads_ = nullptr;  // Of the keys that have gradients.
  float* partials_ = nullptr;
  uint64_t* non_finite_ = nullptr;
  int64_t* merged_keys_ = nullptr;
  uint32_t* merged_fields_ = nullptr;
  int64_t* merged_counts_ = nullptr;
  std::vector<int64_t*> probe_places_;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_TABLE_APPLY_BODY_H_
