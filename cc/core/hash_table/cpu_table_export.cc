// Fields out: Export, ExportPieces, ExportChanges.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

// What ExportPieces gives at a time: writing more at once is no faster.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

// Whose row it is.
struct RowOwner {
  int64_t key;
  uint32_t id;  // kNoField: nobody's.
};

// The rows of some fields and their keys, by the index, for rows do not know them. A cache miss a row, as reading a
// meta that holds the key is; and kBytesPerRow a row while an export lasts, for 16 bytes a row for ever.
class FieldRows {
 public:
  static constexpr int64_t kBytesPerRow = sizeof(RowOwner) + sizeof(uint32_t);

  // places[id]: which of the `fields` fields it is, or -1.
  FieldRows(const TableState& state, const std::vector<int64_t>& places, size_t fields, ParallelFor& pf)
      : rows_(fields) {
    const int64_t size = int64_t{state.rows.end()} - kFirstRow;
    owners_ = NewUninitialized<RowOwner>(size);
    pf.Run(size, 1, [&](int64_t begin, int64_t end) {
      std::fill(owners_.get() + begin, owners_.get() + end, RowOwner{0, kNoField});
    });
    pf.Run(kStripes, 1 + state.num_rows() / kStripes * 5, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        state.index.ForEachOfStripe(static_cast<int>(s), [&](const IndexEntry& entry) {
          if (IsRow(entry.state)) owners_[int64_t{entry.state} - kFirstRow] = {entry.key, entry.field};
        });
      }
    });
    for (size_t id = 0; id < places.size(); ++id) {
      if (places[id] >= 0) rows_[places[id]].reserve(state.fields[id].rows);
    }
    for (int64_t r = 0; r < size; ++r) {
      const uint32_t id = owners_[r].id;
      if (id != kNoField && places[id] >= 0) rows_[places[id]].push_back(static_cast<uint32_t>(kFirstRow + r));
    }
  }

  // In the order of their numbers, which is that of their insertion while none is freed.
  const std::vector<uint32_t>& of(size_t place) const { return rows_[place]; }
  int64_t KeyOf(uint32_t row) const { return owners_[int64_t{row} - kFirstRow].key; }

 private:
  std::unique_ptr<RowOwner[]> owners_;
  std::vector<std::vector<uint32_t>> rows_;
};

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

// Makes pieces of an array of `size` entries, one for each of some rows: row(i) is the i-th, fill(i, to) writes its
// entry.
template <class T, class Row, class Fill>
Status WriteArray(const RowStore& store, size_t all, Row row, int64_t width, ContentsPiece piece,
                  FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf, Fill fill) {
  const int64_t size = static_cast<int64_t>(all), row_bytes = width * static_cast<int64_t>(sizeof(T));
  const int64_t most = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, std::max<int64_t>(1, size));
  const auto buffer = NewUninitialized<T>(most * width);
  piece.data = buffer.get();
  for (int64_t first = 0; first < size; first += most) {
    const int64_t n = std::min(most, size - first);
    pf.Run(n, 20 + width, [&](int64_t begin, int64_t end) {
      RowsToCome to_come(store);
      for (int64_t i = begin; i < end; ++i) {
        to_come.Ask(row(first + i));
        fill(first + i, buffer.get() + i * width);
      }
    });
    piece.bytes = n * row_bytes;
    TFB_RETURN_IF_ERROR(write(piece));
  }
  return Status();
}

// Calls visit(entry) on the keys of an id whose states are wanted, as long as it returns ok.
template <class Wanted, class Visit>
Status ForEachKey(const StripedIndex& index, uint32_t id, Wanted wanted, Visit visit) {
  Status status;
  index.ForEach([&](const IndexEntry& entry) {
    if (status.ok() && wanted(entry.state) && entry.field == id) status = visit(entry);
  });
  return status;
}

// Makes pieces of one int64 of each of them.
template <class Wanted, class Value>
Status WriteKeys(const StripedIndex& index, uint32_t id, Wanted wanted, ContentsPiece piece,
                 FunctionRef<Status(const ContentsPiece&)> write, Value value) {
  std::vector<int64_t> buffer;
  const auto flush = [&] {
    piece.data = buffer.data();
    piece.bytes = static_cast<int64_t>(buffer.size() * sizeof(int64_t));
    const Status status = buffer.empty() ? Status() : write(piece);
    buffer.clear();
    return status;
  };
  TFB_RETURN_IF_ERROR(ForEachKey(index, id, wanted, [&](const IndexEntry& entry) {
    buffer.push_back(value(entry));
    return buffer.size() * sizeof(int64_t) < kPieceBytes ? Status() : flush();
  }));
  return flush();
}

// Pieces of the keys that left since the mark: two, where they go round the end.
Status WriteLeftKeys(const LeftKeysRing& left, const FieldChanges& changes, size_t place,
                     FunctionRef<Status(const ContentsPiece&)> write) {
  for (int64_t n = changes.since.evicted; n < changes.now.evicted;) {
    const int64_t at = n % left.size, size = std::min(changes.now.evicted - n, left.size - at);
    const int64_t bytes = size * static_cast<int64_t>(sizeof(int64_t));
    TFB_RETURN_IF_ERROR(write({place, ContentsArray::kLeftKeys, 0, left.keys + at, bytes}));
    n += size;
  }
  return Status();
}

// The rows of some fields that were used after a step of each, and their keys.
class ChangedRows {
 public:
  struct RowKey {
    uint32_t row;
    int64_t key;
  };
  // While they are collected, of each row that changed; a sixteenth more where it is one of many stripes.
  static constexpr int64_t kBytesPerRow = 2 * sizeof(RowKey);

  // A bit for each row: rows' counts lie in their order, the index in none, and bits in a cache.
  ChangedRows(const RowStore& rows, const std::vector<FieldChanges>& changes, ParallelFor& pf)
      : changes_(changes), rows_(changes.size()) {
    for (const FieldChanges& field : changes) oldest_ = std::min(oldest_, field.since.step);
    const int64_t size = int64_t{rows.end()} - kFirstRow;
    recent_.assign((size + 63) / 64, 0);
    pf.Run(static_cast<int64_t>(recent_.size()), 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin * 64; r < std::min(size, end * 64); ++r) {
        const bool is_recent = rows.Counts(static_cast<uint32_t>(kFirstRow + r)).last_step > oldest_;
        recent_[r / 64] |= uint64_t{is_recent} << (r % 64);
      }
    });
  }

  // How many there are at most.
  int64_t bound() const {
    int64_t sum = 0;
    for (const uint64_t word : recent_) sum += __builtin_popcountll(word);
    return sum;
  }

  // places[id]: which of the changes it is of, or -1.
  void Collect(const TableState& state, const std::vector<int64_t>& places, ParallelFor& pf) {
    std::vector<std::vector<std::vector<RowKey>>> found(kStripes);
    pf.Run(kStripes, 1 + state.num_rows() / kStripes * 5, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        found[s].resize(changes_.size());
        state.index.ForEachOfStripe(static_cast<int>(s), [&](const IndexEntry& entry) {
          if (!IsRow(entry.state) || places[entry.field] < 0) return;
          const int64_t r = int64_t{entry.state} - kFirstRow, place = places[entry.field];
          if ((recent_[r / 64] >> (r % 64) & 1) == 0) return;
          const int64_t since = changes_[place].since.step;
          if (since > oldest_ && state.rows.Counts(entry.state).last_step <= since) return;
          found[s][place].push_back({entry.state, entry.key});
        });
      }
    });
    for (size_t f = 0; f < changes_.size(); ++f) {
      for (auto& stripe : found) {
        rows_[f].insert(rows_[f].end(), stripe[f].begin(), stripe[f].end());
        std::vector<RowKey>().swap(stripe[f]);
      }
      std::sort(rows_[f].begin(), rows_[f].end(), [](const RowKey& a, const RowKey& b) { return a.row < b.row; });
    }
  }

  // In the order of their numbers.
  const std::vector<RowKey>& of(size_t place) const { return rows_[place]; }

 private:
  const std::vector<FieldChanges>& changes_;
  int64_t oldest_ = INT64_MAX;
  std::vector<uint64_t> recent_;
  std::vector<std::vector<RowKey>> rows_;
};

}  // namespace

void CpuTable::StartExport(const std::vector<uint32_t>& fields, std::vector<ContentsOut>* out,
                           std::vector<int64_t>* places) const {
  out->resize(fields.size());
  places->assign(state_->fields.size(), -1);
  for (size_t i = 0; i < fields.size(); ++i) {
    const uint32_t id = state_->active[fields[i]];
    const FieldState& field = state_->fields[id];
    (*places)[id] = static_cast<int64_t>(i);
    ContentsOut& contents = (*out)[i];
    contents.field = fields[i];
    contents.rows = field.rows;
    contents.pending = field.pending;
    contents.slots.assign(options_.slot_initial_values.size(), nullptr);
    contents.step = field.step;
    contents.seed = field.seed;
  }
}

Status CpuTable::Export(const std::vector<uint32_t>& fields, FunctionRef<Status(std::vector<ContentsOut>*)> allocate,
                        ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "Export"));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    std::vector<ContentsOut> out;
    std::vector<int64_t> places;
    StartExport(fields, &out, &places);
    TFB_RETURN_IF_ERROR(allocate(&out));
    const RowStore& store = state_->rows;
    const FieldRows field_rows(*state_, places, fields.size(), pf);
    for (size_t f = 0; f < fields.size(); ++f) {
      const std::vector<uint32_t>& rows = field_rows.of(f);
      pf.Run(static_cast<int64_t>(rows.size()), 20 + store.layout().values() / 4, [&](int64_t begin, int64_t end) {
        RowsToCome to_come(store);
        for (int64_t i = begin; i < end; ++i) {
          to_come.Ask(rows[i]);
          ExportRow(store, field_rows.KeyOf(rows[i]), rows[i], i, out[f]);
        }
      });
      int64_t next = 0;
      TFB_RETURN_IF_ERROR(ForEachKey(state_->index, state_->active[fields[f]], IsPending, [&](const IndexEntry& entry) {
        if (out[f].pending_keys != nullptr) out[f].pending_keys[next] = entry.key;
        if (out[f].pending_counts != nullptr) out[f].pending_counts[next] = PendingCount(entry.state);
        ++next;
        return Status();
      }));
    }
    return Status();
  });
}

Status CpuTable::GrantList(int64_t bytes) const {
  int64_t left = 0;
  if (config_.memory->Grant(bytes, &left)) return Status();
  return Status(StatusCode::kResourceExhausted,
                "Table '" + options_.name + "': the list of its rows that an export makes needs " +
                    std::to_string(bytes) + " bytes, but only " + std::to_string(left) +
                    " bytes are left on this machine or in its cgroup; give the process more memory");
}

// Array by array, so that each lies together where it is written. A row is read once for the embedding and once for
// each slot, which memory and disks do faster than what is written can be written.
Status CpuTable::ExportPieces(const std::vector<uint32_t>& fields, bool with_slots,
                              FunctionRef<Status(const std::vector<ContentsOut>&)> begin,
                              FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, fields, "ExportPieces"));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    TFB_RETURN_IF_ERROR(GrantList((int64_t{state_->rows.end()} - kFirstRow) * FieldRows::kBytesPerRow));
    std::vector<ContentsOut> out;
    std::vector<int64_t> places;
    StartExport(fields, &out, &places);
    TFB_RETURN_IF_ERROR(begin(out));
    const RowStore& store = state_->rows;
    const int64_t dim = store.layout().dim;
    const FieldRows field_rows(*state_, places, fields.size(), pf);
    for (size_t f = 0; f < fields.size(); ++f) {
      const std::vector<uint32_t>& rows = field_rows.of(f);
      const auto row_of = [&](int64_t i) { return rows[i]; };
      const auto numbers = [&](ContentsArray array, auto value) {
        return WriteArray<int64_t>(store, rows.size(), row_of, 1, {f, array}, write, pf,
                                   [&](int64_t i, int64_t* to) { *to = value(rows[i]); });
      };
      const auto columns = [&](ContentsPiece piece, int64_t from) {
        return WriteArray<float>(store, rows.size(), row_of, dim, piece, write, pf, [&](int64_t i, float* to) {
          std::memcpy(to, store.Values(rows[i]) + from, dim * sizeof(float));
        });
      };
      TFB_RETURN_IF_ERROR(numbers(ContentsArray::kKeys, [&](uint32_t row) { return field_rows.KeyOf(row); }));
      TFB_RETURN_IF_ERROR(columns({f, ContentsArray::kValues}, 0));
      for (size_t s = 0; with_slots && s < out[f].slots.size(); ++s) {
        TFB_RETURN_IF_ERROR(columns({f, ContentsArray::kSlot, s}, static_cast<int64_t>(1 + s) * dim));
      }
      TFB_RETURN_IF_ERROR(
          numbers(ContentsArray::kFrequencies, [&](uint32_t row) { return store.Counts(row).frequency; }));
      TFB_RETURN_IF_ERROR(
          numbers(ContentsArray::kLastSteps, [&](uint32_t row) { return store.Counts(row).last_step; }));
      const uint32_t id = state_->active[fields[f]];
      TFB_RETURN_IF_ERROR(WriteKeys(state_->index, id, IsPending, {f, ContentsArray::kPendingKeys}, write,
                                    [](const IndexEntry& entry) { return entry.key; }));
      TFB_RETURN_IF_ERROR(WriteKeys(state_->index, id, IsPending, {f, ContentsArray::kPendingCounts}, write,
                                    [](const IndexEntry& entry) { return int64_t{PendingCount(entry.state)}; }));
    }
    return Status();
  });
}

FieldMark CpuTable::MarkOf(uint32_t field) const {
  const FieldState& state = state_->fields[state_->active[field]];
  return {state.step, edits_.of(field), state.evicted, left_keys_[field].ring.ListedFrom(state.evicted)};
}

Status CpuTable::ListLeaving(uint32_t field) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "ListLeaving"));
  if (!options_.fields[field].eviction.enabled()) return Status();
  std::lock_guard<std::mutex> lock(writer_);
  const FieldState& state = state_->fields[state_->active[field]];
  LeftKeys& left = left_keys_[field];
  const int64_t size = LeftKeysRing::SizeFor(state.rows);
  if (size < left.ring.size * 2) return Status();
  std::unique_ptr<int64_t[]> memory(new (std::nothrow) int64_t[size]);
  if (memory == nullptr) return Status();
  const int64_t evicted = state.evicted, from = std::min(evicted, left.ring.ListedFrom(evicted));
  for (int64_t n = from; n < evicted; ++n) memory[n % size] = left.ring.keys[n % left.ring.size];
  left.ring = {memory.get(), size, from};
  left.memory = std::move(memory);
  return Status();
}

Status CpuTable::ReadMark(uint32_t field, FieldMark* mark) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "ReadMark"));
  std::lock_guard<std::mutex> lock(writer_);
  *mark = MarkOf(field);
  return Status();
}

Status CpuTable::ExportChanges(std::vector<FieldChanges> changes,
                               FunctionRef<Status(const std::vector<FieldChanges>&)> begin,
                               FunctionRef<Status(const ContentsPiece&)> write, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, FieldsOf(changes), "ExportChanges"));
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    std::vector<int64_t> places(state_->fields.size(), -1);
    for (size_t f = 0; f < changes.size(); ++f) {
      places[state_->active[changes[f].field]] = static_cast<int64_t>(f);
      changes[f].Settle(MarkOf(changes[f].field));
    }
    TFB_RETURN_IF_ERROR(begin(changes));
    const RowStore& store = state_->rows;
    const int64_t dim = store.layout().dim;
    ChangedRows changed(store, changes, pf);
    TFB_RETURN_IF_ERROR(GrantList(changed.bound() * ChangedRows::kBytesPerRow));
    changed.Collect(*state_, places, pf);
    for (size_t f = 0; f < changes.size(); ++f) {
      const std::vector<ChangedRows::RowKey>& rows = changed.of(f);
      const auto row_of = [&](int64_t i) { return rows[i].row; };
      TFB_RETURN_IF_ERROR(WriteArray<int64_t>(store, rows.size(), row_of, 1, {f, ContentsArray::kKeys}, write, pf,
                                              [&](int64_t i, int64_t* to) { *to = rows[i].key; }));
      TFB_RETURN_IF_ERROR(WriteArray<float>(
          store, rows.size(), row_of, dim, {f, ContentsArray::kValues}, write, pf,
          [&](int64_t i, float* to) { std::memcpy(to, store.Values(rows[i].row), dim * sizeof(float)); }));
      if (changes[f].left_keys) {
        TFB_RETURN_IF_ERROR(WriteLeftKeys(left_keys_[changes[f].field].ring, changes[f], f, write));
      }
      if (!changes[f].all_keys) continue;
      TFB_RETURN_IF_ERROR(WriteKeys(state_->index, state_->active[changes[f].field], IsRow,
                                    {f, ContentsArray::kAllKeys}, write,
                                    [](const IndexEntry& entry) { return entry.key; }));
    }
    return Status();
  });
}

}  // namespace tf_booster
