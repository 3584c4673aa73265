// Whole tables out and in: Export, ExportBatch, Import.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

constexpr int64_t kRowsPerPart = 8192;

// Writes row number `row` of the store as row `i` of the arrays that are wanted.
void ExportRow(const RowStore& store, uint32_t row, int64_t i, const ContentsOut& out) {
  const RowMeta& meta = *store.Meta(row);
  const int64_t dim = store.layout().dim;
  const float* values = store.Values(row);
  if (out.keys != nullptr) out.keys[i] = meta.key;
  if (out.fields != nullptr) out.fields[i] = meta.field;
  if (out.frequencies != nullptr) out.frequencies[i] = meta.frequency;
  if (out.last_steps != nullptr) out.last_steps[i] = meta.last_step;
  if (out.values != nullptr) std::memcpy(out.values + i * dim, values, dim * sizeof(float));
  for (size_t s = 0; s < out.slots.size(); ++s) {
    if (out.slots[s] != nullptr) std::memcpy(out.slots[s] + i * dim, values + (1 + s) * dim, dim * sizeof(float));
  }
}

// Rows in the order of their numbers, which is that of their insertion while none is freed.
void ExportRows(const RowStore& store, const ContentsOut& out, ParallelFor& pf) {
  const int64_t rows = int64_t{store.end()} - kFirstRow;
  const int64_t parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
  const auto for_used = [&](int64_t part, auto visit) {
    const int64_t last = std::min(rows, (part + 1) * kRowsPerPart);
    for (int64_t r = part * kRowsPerPart; r < last; ++r) {
      const uint32_t row = static_cast<uint32_t>(kFirstRow + r);
      if (store.Meta(row)->field != kNoField) visit(row);
    }
  };
  std::vector<int64_t> first(parts + 1, 0);  // Where each part's rows go.
  pf.Run(parts, kRowsPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) for_used(p, [&](uint32_t) { ++first[p + 1]; });
  });
  for (int64_t p = 0; p < parts; ++p) first[p + 1] += first[p];
  pf.Run(parts, kRowsPerPart * (20 + store.layout().values() / 4), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t i = first[p];
      for_used(p, [&](uint32_t row) { ExportRow(store, row, i++, out); });
    }
  });
}

}  // namespace

Status CpuTable::Export(FunctionRef<Status(ContentsOut*)> allocate, ParallelFor& pf) const {
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    ContentsOut out;
    out.rows = state_->num_rows();
    out.pending = state_->pending;
    out.step = step_;
    out.slots.assign(options_.slot_initial_values.size(), nullptr);
    for (const FieldState& field : state_->fields) out.seeds.push_back(field.seed);
    TFB_RETURN_IF_ERROR(allocate(&out));
    ExportRows(state_->rows, out, pf);
    int64_t p = 0;
    state_->index.ForEach([&](const IndexEntry& entry) {
      if (!IsPending(entry.state)) return;
      if (out.pending_keys != nullptr) out.pending_keys[p] = entry.key;
      if (out.pending_fields != nullptr) out.pending_fields[p] = entry.field;
      if (out.pending_counts != nullptr) out.pending_counts[p] = PendingCount(entry.state);
      ++p;
    });
    return Status();
  });
}

Status CpuTable::ExportBatch(int64_t* cursor, int64_t limit, TableContents* out) const {
  if (*cursor < 0 || limit < 1) {
    return Status(StatusCode::kInvalidArgument, "Table '" + options_.name + "': ExportBatch from place " +
                                                    std::to_string(*cursor) + ", at most " + std::to_string(limit) +
                                                    " rows; places start at 0 and a batch has at least one row");
  }
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    const RowStore& store = state_->rows;
    std::vector<uint32_t> rows;
    int64_t next = kFirstRow + *cursor;
    for (; next < store.end() && static_cast<int64_t>(rows.size()) < limit; ++next) {
      const uint32_t row = static_cast<uint32_t>(next);
      if (store.Meta(row)->field != kNoField) rows.push_back(row);
    }
    const size_t n = rows.size(), slots = options_.slot_initial_values.size();
    *out = TableContents();
    out->keys.resize(n);
    out->fields.resize(n);
    out->values.resize(n * options_.dim);
    out->slots.assign(slots, std::vector<float>(n * options_.dim));
    out->frequencies.resize(n);
    out->last_steps.resize(n);
    out->step = step_;
    for (const FieldState& field : state_->fields) out->seeds.push_back(field.seed);
    ContentsOut ref;
    ref.keys = out->keys.data();
    ref.fields = out->fields.data();
    ref.values = out->values.data();
    for (std::vector<float>& slot : out->slots) ref.slots.push_back(slot.data());
    ref.frequencies = out->frequencies.data();
    ref.last_steps = out->last_steps.data();
    for (size_t i = 0; i < n; ++i) ExportRow(store, rows[i], static_cast<int64_t>(i), ref);
    *cursor = next < store.end() ? next - kFirstRow : -1;
    return Status();
  });
}

Status CpuTable::CheckContents(const ContentsIn& in) const {
  const auto invalid = [&](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, "Table '" + options_.name + "': Import: " + what);
  };
  const size_t slots = options_.slot_initial_values.size(), fields = options_.fields.size();
  if (in.rows < 0 || in.pending < 0) return invalid("a negative number of rows or pending keys");
  if (in.rows > 0 && (in.keys == nullptr || in.values == nullptr)) return invalid("rows without keys or values");
  if (in.pending > 0 && (in.pending_keys == nullptr || in.pending_counts == nullptr)) {
    return invalid("pending keys without keys or counts");
  }
  if (!in.slots.empty() && in.slots.size() != slots) {
    return invalid(std::to_string(in.slots.size()) + " slots, but the table has " + std::to_string(slots));
  }
  if (!in.seeds.empty() && in.seeds.size() != fields) {
    return invalid(std::to_string(in.seeds.size()) + " seeds, but the table has " + std::to_string(fields) + " fields");
  }
  if (in.step < 0) return invalid("step " + std::to_string(in.step) + " is below 0");
  TFB_RETURN_IF_ERROR(CheckFields({in.keys, in.fields, in.rows}));
  TFB_RETURN_IF_ERROR(CheckFields({in.pending_keys, in.pending_fields, in.pending}));
  for (int64_t i = 0; i < in.rows; ++i) {
    if ((in.frequencies != nullptr && in.frequencies[i] < 0) || (in.last_steps != nullptr && in.last_steps[i] < 0)) {
      return invalid("key " + std::to_string(in.keys[i]) + " has a frequency or last-use step below 0");
    }
  }
  for (int64_t i = 0; i < in.pending; ++i) {
    if (in.pending_counts[i] < 1 || in.pending_counts[i] > kMaxMinFrequency) {
      return invalid("pending key " + std::to_string(in.pending_keys[i]) + " was seen " +
                     std::to_string(in.pending_counts[i]) + " times, not in [1, " + std::to_string(kMaxMinFrequency) +
                     "]");
    }
  }
  return Status();
}

Status CpuTable::Import(const ContentsIn& in, ParallelFor& pf) {
  TFB_RETURN_IF_ERROR(CheckContents(in));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    std::vector<NewKey> keys;
    keys.reserve(in.rows + in.pending);
    for (int64_t i = 0; i < in.rows; ++i) {
      const uint32_t field = in.fields == nullptr ? 0 : in.fields[i];
      keys.push_back({in.keys[i], HashKey(in.keys[i], field), i, in.frequencies == nullptr ? 1 : in.frequencies[i],
                      in.last_steps == nullptr ? in.step : in.last_steps[i], field, kEmpty, kEmpty, 0});
    }
    for (int64_t i = 0; i < in.pending; ++i) {
      const uint32_t field = in.pending_fields == nullptr ? 0 : in.pending_fields[i];
      keys.push_back({in.pending_keys[i], HashKey(in.pending_keys[i], field), i, 0, 0, field, kEmpty,
                      kPendingFlag + static_cast<uint32_t>(in.pending_counts[i]), 0});
    }
    std::vector<uint64_t> seeds = in.seeds;
    if (seeds.empty()) {
      for (const FieldState& field : state_->fields) seeds.push_back(field.seed);
    }
    std::unique_ptr<TableState> state = NewState(seeds);
    {
      Insertion insertion(options_, state.get(), config_.memory, std::move(keys));
      TFB_RETURN_IF_ERROR(insertion.Prepare(/*distinct=*/true, pf));
      insertion.FillRows(in.values, in.slots.empty() ? nullptr : &in.slots, pf);
      RoomLock nobody_reads_yet;
      insertion.Publish(&nobody_reads_yet, pf);
    }
    RoomGuard guard(room_, RoomLock::kWriting);
    state_.swap(state);
    ++epoch_;
    step_ = in.step;
    return Status();
  });
}

}  // namespace tf_booster
