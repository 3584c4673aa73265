#include "cc/core/optimizer/sparse_apply.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "cc/core/optimizer/gradient_sums.h"
#include "cc/core/optimizer/row_updater.h"
#include "cc/core/unique/unique_by_field.h"

namespace tf_booster {
namespace {

// The keys of all probes as one batch of distinct keys, and where each probe's keys are in it.
struct MergedKeys {
  UpdateBatch batch;
  std::vector<int64_t> starts;  // Of each probe, in `places`; one more at the end.
  std::vector<int64_t> places;  // Empty for one probe: places are then the probe's own.

  std::vector<int64_t> keys, counts;
  std::vector<uint32_t> fields;
  std::vector<RowHandle> handles;
};

// Runs of keys of one field: TableProbe puts the keys of a field together.
void AddRuns(const ProbeRef& probe, int64_t* places, std::vector<FieldIds>* runs) {
  for (int64_t begin = 0, end; begin < probe.size; begin = end) {
    const uint32_t field = probe.fields == nullptr ? 0 : probe.fields[begin];
    end = probe.fields == nullptr ? probe.size : begin + 1;
    while (end < probe.size && probe.fields[end] == field) ++end;
    runs->push_back({probe.keys + begin, end - begin, field, places + begin});
  }
}

Status MergeKeys(const std::vector<ProbeRef>& probes, MergedKeys* merged, ParallelFor& pf) {
  merged->starts.push_back(0);
  for (const ProbeRef& probe : probes) merged->starts.push_back(merged->starts.back() + probe.size);
  if (probes.size() == 1) {
    const ProbeRef& probe = probes[0];
    merged->batch = {{probe.keys, probe.fields, probe.size}, probe.counts, probe.handles, {}};
    return Status();
  }
  merged->places.resize(merged->starts.back());
  std::vector<FieldIds> runs;
  for (size_t g = 0; g < probes.size(); ++g) AddRuns(probes[g], merged->places.data() + merged->starts[g], &runs);
  TFB_RETURN_IF_ERROR(UniqueByField(
      runs, 0, /*with_counts=*/false,
      [&](int64_t u, DistinctPairs* out) {
        merged->keys.resize(u);
        merged->fields.resize(u);
        *out = {merged->keys.data(), merged->fields.data(), nullptr};
        return Status();
      },
      pf));
  merged->counts.assign(merged->keys.size(), 0);
  merged->handles.assign(merged->keys.size(), kNoRow);
  for (size_t g = 0; g < probes.size(); ++g) {
    const ProbeRef& probe = probes[g];
    for (int64_t k = 0; k < probe.size; ++k) {
      const int64_t place = merged->places[merged->starts[g] + k];
      merged->counts[place] += probe.counts != nullptr ? probe.counts[k] : 1;
      if (probe.handles != nullptr && probe.handles[k] != kNoRow) merged->handles[place] = probe.handles[k];
    }
  }
  merged->batch = {{merged->keys.data(), merged->fields.data(), static_cast<int64_t>(merged->keys.size())},
                   merged->counts.data(),
                   merged->handles.data(),
                   {}};
  return Status();
}

// Whether the codes are those of the only probe's keys, one after another: so they are for ids without duplicates, and
// behind an exchange of gradients.
bool OneGradientEach(const SparseApplyBatch& batch) {
  if (batch.probes.size() != 1 || batch.gradients.size() != 1) return false;
  const int64_t* const codes = batch.gradients[0].codes;
  const int64_t size = batch.gradients[0].size;
  if (size != batch.probes[0].size) return false;
  constexpr int64_t kBlock = 256;  // Looked at without branches.
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    int64_t different = 0;
    for (int64_t i = begin; i < std::min(size, begin + kBlock); ++i) different |= codes[i] ^ (i + 1);
    if (different != 0) return false;
  }
  return true;
}

// The first value that is NaN or infinite, or -1.
int64_t FirstNonFinite(const float* x, int64_t n, ParallelFor& pf) {
  std::atomic<int64_t> first{n};
  pf.Run((n + 1023) / 1024, 100, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t from = block * 1024, to = std::min(n, from + 1024);
      int32_t largest =
          0;  // The bits of absolute values are in the order of the values, with infinity and NaN at the end.
      for (int64_t i = from; i < to; ++i) {
        int32_t bits;
        std::memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
      }
      if (largest < 0x7f800000) continue;
      int64_t i = from;
      while (std::isfinite(x[i])) ++i;
      int64_t lowest = first.load();
      while (i < lowest && !first.compare_exchange_weak(lowest, i)) {
      }
    }
  });
  return first.load() == n ? -1 : first.load();
}

Status Invalid(const HashTable& table, const RowOptimizer& optimizer, const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                std::string("TableApply") + optimizer.name() + " '" + table.options().name + "': " + what);
}

Status Check(const HashTable& table, const SparseApplyBatch& batch, const RowOptimizer& optimizer) {
  const int64_t dim = table.options().dim;
  const int64_t slots = static_cast<int64_t>(table.options().slot_initial_values.size());
  if (batch.probes.empty()) return Invalid(table, optimizer, "no probe is given, but at least 1 is needed");
  if (batch.grad_dim != dim && !batch.gradients.empty()) {
    return Invalid(table, optimizer,
                   "dim is " + std::to_string(dim) + " but grad has " + std::to_string(batch.grad_dim) +
                       " columns; check that the gradient belongs to this table");
  }
  if (slots != optimizer.num_slots()) {
    return Invalid(table, optimizer,
                   "the table has " + std::to_string(slots) + " slots but the optimizer needs " +
                       std::to_string(optimizer.num_slots()) + "; a table is trained by one optimizer");
  }
  return Status();
}

// "indices" of the only gradient, "indices[3]" of several.
std::string NameOf(const char* input, const SparseApplyBatch& batch, size_t which) {
  return batch.gradients.size() == 1 ? input : input + ("[" + std::to_string(which) + "]");
}

Status CheckNumerics(const HashTable& table, const SparseApplyBatch& batch, const RowOptimizer& optimizer,
                     ParallelFor& pf) {
  const int64_t dim = table.options().dim;
  for (size_t g = 0; g < batch.gradients.size(); ++g) {
    const SparseGradient& gradient = batch.gradients[g];
    const int64_t at = FirstNonFinite(gradient.grads, gradient.size * dim, pf);
    if (at < 0) continue;
    return Invalid(table, optimizer,
                   NameOf("grad", batch, g) + " is " + std::to_string(gradient.grads[at]) + " in row " +
                       std::to_string(at / dim) + ", column " + std::to_string(at % dim) +
                       " but check_numerics wants finite values; lower the learning rate or "
                       "clip the gradients; nothing was applied");
  }
  return Status();
}

}  // namespace

Status SparseApply(HashTable& table, const SparseApplyBatch& batch, const RowOptimizer& optimizer, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(Check(table, batch, optimizer));
  if (batch.check_numerics) TFB_RETURN_IF_ERROR(CheckNumerics(table, batch, optimizer, pf));
  std::vector<GradientSums::Matrix> matrices;
  for (const SparseGradient& gradient : batch.gradients) matrices.push_back({gradient.grads, gradient.size});
  if (!GradientSums::Fits(matrices)) {
    return Invalid(table, optimizer,
                   "indices have more than the 2^31 - 1 entries that are possible; use smaller batches");
  }

  const int64_t dim = table.options().dim;
  MergedKeys merged;
  TFB_RETURN_IF_ERROR(MergeKeys(batch.probes, &merged, pf));
  merged.batch.fields = batch.fields;
  GradientSums sums;
  RowUpdater updater(sums, dim, optimizer);
  if (OneGradientEach(batch)) {
    sums.Borrow(batch.gradients[0].grads, dim);
    return table.Update(merged.batch, updater, pf);
  }
  const uint64_t groups = batch.probes.size();
  // Codes up to here are places of the only probe: the common way, without a look at vectors.
  const uint64_t plain = groups == 1 ? batch.probes[0].size : 0;
  const GradientSums::Place wrong = sums.Build(
      std::move(matrices), dim, merged.batch.keys.size,
      [&, plain](int64_t g, int64_t i) -> int64_t {
        const uint64_t code = static_cast<uint64_t>(batch.gradients[g].codes[i]);
        if (code - 1 < plain) return static_cast<int64_t>(code - 1);
        if (code == 0) return GradientSums::kNoPlace;
        const uint64_t group = code >> kCodePlaceBits;
        const uint64_t place = (code & ((uint64_t{1} << kCodePlaceBits) - 1)) - 1;
        if (group >= groups || place >= static_cast<uint64_t>(batch.probes[group].size))
          return GradientSums::kWrongPlace;
        return merged.places.empty() ? static_cast<int64_t>(place) : merged.places[merged.starts[group] + place];
      },
      pf);
  if (wrong.matrix < static_cast<int64_t>(batch.gradients.size())) {
    const int64_t code = batch.gradients[wrong.matrix].codes[wrong.row];
    return Invalid(table, optimizer,
                   NameOf("indices", batch, wrong.matrix) + "[" + std::to_string(wrong.row) + "] is " +
                       std::to_string(code) + " (group " + std::to_string(code >> kCodePlaceBits) +
                       ") but names no key of the " + std::to_string(groups) +
                       " probes; indices must be codes of TableProbe, unchanged");
  }
  return table.Update(merged.batch, updater, pf);
}

}  // namespace tf_booster
