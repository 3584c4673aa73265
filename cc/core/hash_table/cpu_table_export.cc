// Fields out: Export, ExportBatch.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

constexpr int64_t kMinRowsPerPart = 8192;
constexpr int64_t kMaxParts = 256;  // Each counts the rows of every field.

// Whose row it is.
struct RowOwner {
  int64_t key;
  uint32_t id;  // kNoField: nobody's.
};

// The owners of rows [begin, end) by the index, for rows do not know them. A cache miss a row, as reading a meta that
// holds the key is; and 16 bytes a row while an export lasts, for 16 bytes a row for ever.
std::unique_ptr<RowOwner[]> OwnersOf(const TableState& state, int64_t begin, int64_t end, ParallelFor& pf) {
  std::unique_ptr<RowOwner[]> owners = NewUninitialized<RowOwner>(end - begin);
  pf.Run(end - begin, 1, [&](int64_t first, int64_t last) {
    std::fill(owners.get() + first, owners.get() + last, RowOwner{0, kNoField});
  });
  pf.Run(kStripes, 1 + state.num_rows() / kStripes * 5, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      state.index.ForEachOfStripe(static_cast<int>(s), [&](const IndexEntry& entry) {
        const int64_t place = int64_t{entry.state} - begin;
        if (IsRow(entry.state) && place >= 0 && place < end - begin) owners[place] = {entry.key, entry.field};
      });
    }
  });
  return owners;
}

// Writes row number `row` of the store as row `i` of the arrays that are wanted.
void ExportRow(const RowStore& store, int64_t key, uint32_t row, int64_t i, const ContentsOut& out) {
  const RowCounts counts = store.Counts(row);
  const int64_t dim = store.layout().dim;
  const float* values = store.Values(row);
  if (out.keys != nullptr) out.keys[i] = key;
  if (out.frequencies != nullptr) out.frequencies[i] = counts.frequency;
  if (out.last_steps != nullptr) out.last_steps[i] = counts.last_step;
  if (out.values != nullptr) std::memcpy(out.values + i * dim, values, dim * sizeof(float));
  for (size_t s = 0; s < out.slots.size(); ++s) {
    if (out.slots[s] != nullptr) std::memcpy(out.slots[s] + i * dim, values + (1 + s) * dim, dim * sizeof(float));
  }
}

// Asks for the rows of a disk that a loop over all rows is about to read.
class RowsToCome {
 public:
  explicit RowsToCome(const RowStore& store) : store_(store) {}

  // Before row `r`, which is behind the one of the last call.
  void Ask(int64_t r) {
    if (r < next_) return;
    store_.ReadAhead(r, r + 2 * kRows);
    next_ = r + kRows;
  }

 private:
  static constexpr int64_t kRows = 4096;
  const RowStore& store_;
  int64_t next_ = 0;
};

// Rows in the order of their numbers, which is that of their insertion while none is freed. places[id]: which of `out`
// takes the rows of that id, or -1.
void ExportRows(const TableState& state, const std::vector<int64_t>& places, const std::vector<ContentsOut>& out,
                ParallelFor& pf) {
  const RowStore& store = state.rows;
  const int64_t rows = int64_t{store.end()} - kFirstRow, n = static_cast<int64_t>(out.size());
  const int64_t per_part = std::max(kMinRowsPerPart, (rows + kMaxParts - 1) / kMaxParts);
  const int64_t parts = (rows + per_part - 1) / per_part;
  const auto owners = OwnersOf(state, kFirstRow, store.end(), pf);
  const auto for_wanted = [&](int64_t part, auto visit) {
    const int64_t last = std::min(rows, (part + 1) * per_part);
    for (int64_t r = part * per_part; r < last; ++r) {
      if (owners[r].id != kNoField && places[owners[r].id] >= 0) visit(r, places[owners[r].id]);
    }
  };
  std::vector<int64_t> first((parts + 1) * n, 0);  // Where each part's rows go, in each of `out`.
  pf.Run(parts, per_part, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) for_wanted(p, [&](int64_t, int64_t o) { ++first[(p + 1) * n + o]; });
  });
  for (int64_t i = n; i < (parts + 1) * n; ++i) first[i] += first[i - n];
  pf.Run(parts, per_part * (20 + store.layout().values() / 4), [&](int64_t begin, int64_t end) {
    RowsToCome to_come(store);
    for (int64_t p = begin; p < end; ++p) {
      for_wanted(p, [&](int64_t r, int64_t o) {
        to_come.Ask(kFirstRow + r);
        ExportRow(store, owners[r].key, static_cast<uint32_t>(kFirstRow + r), first[p * n + o]++, out[o]);
      });
    }
  });
}

}  // namespace

Status CpuTable::Export(const std::vector<uint32_t>& fields, FunctionRef<Status(std::vector<ContentsOut>*)> allocate,
                        ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Export"));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    std::vector<ContentsOut> out(fields.size());
    std::vector<int64_t> places(state_->fields.size(), -1);
    for (size_t i = 0; i < fields.size(); ++i) {
      const uint32_t id = state_->active[fields[i]];
      const FieldState& field = state_->fields[id];
      places[id] = static_cast<int64_t>(i);
      out[i].field = fields[i];
      out[i].rows = field.rows;
      out[i].pending = field.pending;
      out[i].slots.assign(options_.slot_initial_values.size(), nullptr);
      out[i].step = field.step;
      out[i].seed = field.seed;
    }
    TFB_RETURN_IF_ERROR(allocate(&out));
    ExportRows(*state_, places, out, pf);
    std::vector<int64_t> next(fields.size(), 0);
    state_->index.ForEach([&](const IndexEntry& entry) {
      if (!IsPending(entry.state) || places[entry.field] < 0) return;
      const ContentsOut& contents = out[places[entry.field]];
      const int64_t p = next[places[entry.field]]++;
      if (contents.pending_keys != nullptr) contents.pending_keys[p] = entry.key;
      if (contents.pending_counts != nullptr) contents.pending_counts[p] = PendingCount(entry.state);
    });
    return Status();
  });
}

Status CpuTable::ExportBatch(int64_t* cursor, int64_t limit, TableRows* out) const {
  TFB_RETURN_IF_ERROR(CheckCursor(options_, *cursor, limit));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    const RowStore& store = state_->rows;
    const int64_t begin = std::min<int64_t>(kFirstRow + *cursor, store.end());
    const int64_t end = std::min<int64_t>(begin + std::min<int64_t>(limit, kMaxRow), store.end());
    SerialFor pf;
    const auto owners = OwnersOf(*state_, begin, end, pf);
    std::vector<int64_t> rows;  // Less `begin`.
    for (int64_t r = 0; r < end - begin; ++r) {
      if (owners[r].id != kNoField) rows.push_back(r);
    }
    const size_t n = rows.size(), slots = options_.slot_initial_values.size();
    *out = TableRows();
    out->keys.resize(n);
    out->fields.resize(n);
    out->values.resize(n * options_.dim);
    out->slots.assign(slots, std::vector<float>(n * options_.dim));
    out->frequencies.resize(n);
    out->last_steps.resize(n);
    ContentsOut ref;
    ref.keys = out->keys.data();
    ref.values = out->values.data();
    for (std::vector<float>& slot : out->slots) ref.slots.push_back(slot.data());
    ref.frequencies = out->frequencies.data();
    ref.last_steps = out->last_steps.data();
    RowsToCome to_come(store);
    for (size_t i = 0; i < n; ++i) {
      const RowOwner& owner = owners[rows[i]];
      to_come.Ask(begin + rows[i]);
      ExportRow(store, owner.key, static_cast<uint32_t>(begin + rows[i]), static_cast<int64_t>(i), ref);
      out->fields[i] = state_->FieldOf(owner.id);
    }
    *cursor = end < store.end() ? end - kFirstRow : -1;
    exporting_ = *cursor >= 0;
    return Status();
  });
}

}  // namespace tf_booster
