// What the contract suite's tests share: making tables, reading them whole, comparing them with the model.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/contract/table_model.h"
#include "cc/core/hash_table/hash_table.h"

namespace tf_booster::contract {

// So many rounds of a long test, or a fifth of them if the environment has TFB_SHORT_TESTS: for machines on which each
// takes a hundred times as long, and where the same test runs at its full length beside.
inline int Rounds(int rounds) {
  static const bool few = std::getenv("TFB_SHORT_TESTS") != nullptr;
  return few ? (rounds + 4) / 5 : rounds;
}

using TableMaker = std::function<std::unique_ptr<HashTable>(const TableOptions&)>;

inline TableOptions OneField(int64_t dim, int64_t slots = 1) {
  TableOptions options;
  options.name = "user_emb";
  options.dim = dim;
  for (int64_t s = 0; s < slots; ++s) options.slot_initial_values.push_back(0.1f * (s + 1));
  FieldOptions field;
  field.name = "user_emb";
  field.seed = 42;
  field.initializer = {InitializerKind::kTruncatedNormal, 0.0f, 0.25f};
  options.fields = {field};
  return options;
}

inline TableOptions ThreeFields(int64_t dim, int64_t slots = 1) {
  TableOptions options = OneField(dim, slots);
  options.fields.resize(3);
  options.fields[1].name = "item_emb";
  options.fields[1].initializer = {InitializerKind::kUniform, -1.0f, 1.0f};
  options.fields[2].name = "shop_emb";
  options.fields[2].initializer = {InitializerKind::kConstant, 0.5f, 0.0f};
  return options;
}

// A batch that owns its keys.
struct Batch {
  std::vector<int64_t> keys;
  std::vector<uint32_t> fields;

  Batch() = default;
  explicit Batch(std::vector<int64_t> keys) : keys(std::move(keys)) {}
  void Add(const FieldKey& key) {
    fields.push_back(key.first);
    keys.push_back(key.second);
  }
  int64_t size() const { return static_cast<int64_t>(keys.size()); }
  KeyBatch ref() const { return {keys.data(), fields.empty() ? nullptr : fields.data(), size()}; }
  FieldKey at(size_t i) const { return {fields.empty() ? 0 : fields[i], keys[i]}; }
  std::vector<FieldKey> all() const {
    std::vector<FieldKey> pairs;
    for (size_t i = 0; i < keys.size(); ++i) pairs.push_back(at(i));
    return pairs;
  }
};

// A whole table, field after field; row i of every array belongs to the same key.
struct TableContents {
  std::vector<int64_t> keys;
  std::vector<uint32_t> fields;
  std::vector<float> values;              // rows * dim
  std::vector<std::vector<float>> slots;  // Each rows * dim.
  std::vector<int64_t> frequencies;
  std::vector<int64_t> last_steps;
  int64_t dim = 0;
  std::vector<int64_t> pending_keys;
  std::vector<uint32_t> pending_fields;
  std::vector<int64_t> pending_counts;
  std::vector<int64_t> steps;   // Of each field.
  std::vector<uint64_t> seeds;  // Of each field.
};

inline std::vector<uint32_t> AllFields(const HashTable& table) {
  std::vector<uint32_t> fields(table.options().fields.size());
  std::iota(fields.begin(), fields.end(), 0u);
  return fields;
}

inline TableContents ExportFields(const HashTable& table, const std::vector<uint32_t>& fields, ParallelFor& pf) {
  TableContents all;
  all.dim = table.options().dim;
  EXPECT_OK(table.Export(
      fields,
      [&](std::vector<ContentsOut>* out) {
        int64_t rows = 0, pending = 0;
        for (const ContentsOut& field : *out) {
          all.fields.insert(all.fields.end(), field.rows, field.field);
          all.pending_fields.insert(all.pending_fields.end(), field.pending, field.field);
          all.steps.push_back(field.step);
          all.seeds.push_back(*field.seed);
          rows += field.rows;
          pending += field.pending;
        }
        all.keys.resize(rows);
        all.values.resize(rows * all.dim);
        all.slots.assign(table.options().slot_initial_values.size(), std::vector<float>(rows * all.dim));
        all.frequencies.resize(rows);
        all.last_steps.resize(rows);
        all.pending_keys.resize(pending);
        all.pending_counts.resize(pending);
        rows = pending = 0;
        for (ContentsOut& field : *out) {
          field.keys = all.keys.data() + rows;
          field.values = all.values.data() + rows * all.dim;
          for (size_t s = 0; s < all.slots.size(); ++s) field.slots[s] = all.slots[s].data() + rows * all.dim;
          field.frequencies = all.frequencies.data() + rows;
          field.last_steps = all.last_steps.data() + rows;
          field.pending_keys = all.pending_keys.data() + pending;
          field.pending_counts = all.pending_counts.data() + pending;
          rows += field.rows;
          pending += field.pending;
        }
        return Status();
      },
      pf));
  return all;
}

inline TableContents ExportAll(const HashTable& table, ParallelFor& pf) {
  return ExportFields(table, AllFields(table), pf);
}

// The same by ExportPieces. Null `largest`, or the bytes of the largest piece.
inline TableContents ExportByPieces(const HashTable& table, const std::vector<uint32_t>& fields, bool with_slots,
                                    ParallelFor& pf, int64_t* largest = nullptr) {
  TableContents all;
  all.dim = table.options().dim;
  all.slots.resize(with_slots ? table.options().slot_initial_values.size() : 0);
  std::vector<ContentsOut> heads;
  std::vector<std::string> order;  // Of the arrays, each once.
  const auto begin = [&](const std::vector<ContentsOut>& out) {
    heads = out;
    for (const ContentsOut& field : out) {
      all.fields.insert(all.fields.end(), field.rows, field.field);
      all.pending_fields.insert(all.pending_fields.end(), field.pending, field.field);
      all.steps.push_back(field.step);
      all.seeds.push_back(*field.seed);
    }
    return Status();
  };
  const auto write = [&](const ContentsPiece& piece) {
    const auto append = [&](auto* to) {
      using T = typename std::decay_t<decltype(*to)>::value_type;
      EXPECT_EQ(piece.bytes % static_cast<int64_t>(sizeof(T)), 0);
      const T* const data = static_cast<const T*>(piece.data);
      to->insert(to->end(), data, data + piece.bytes / static_cast<int64_t>(sizeof(T)));
    };
    EXPECT_TRUE(piece.bytes > 0);
    if (largest != nullptr) *largest = std::max(*largest, piece.bytes);
    const std::string name = std::to_string(piece.place) + "/" + std::to_string(static_cast<int>(piece.array)) + "/" +
                             std::to_string(piece.slot);
    if (order.empty() || order.back() != name) order.push_back(name);
    switch (piece.array) {
      case ContentsArray::kKeys:
        append(&all.keys);
        break;
      case ContentsArray::kValues:
        append(&all.values);
        break;
      case ContentsArray::kSlot:
        append(&all.slots[piece.slot]);
        break;
      case ContentsArray::kFrequencies:
        append(&all.frequencies);
        break;
      case ContentsArray::kLastSteps:
        append(&all.last_steps);
        break;
      case ContentsArray::kPendingKeys:
        append(&all.pending_keys);
        break;
      case ContentsArray::kPendingCounts:
        append(&all.pending_counts);
        break;
      case ContentsArray::kAllKeys:
      case ContentsArray::kLeftKeys:
        EXPECT_TRUE(false);  // ExportChanges gives them alone.
    }
    return Status();
  };
  EXPECT_OK(table.ExportPieces(fields, with_slots, begin, write, pf));
  EXPECT_EQ(heads.size(), fields.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));  // Each in its place, and none in two.
  return all;
}

// Contents as Import takes them: copies of each field's part. `fields`: the field of each step and seed, by default all
// in order; a row of another field makes a part of its own.
class Borrow {
 public:
  explicit Borrow(const TableContents& all, std::vector<uint32_t> fields = {}) {
    for (uint32_t f = 0; fields.size() < all.steps.size(); ++f) fields.push_back(f);
    for (size_t i = 0; i < fields.size(); ++i) PartOf(fields[i], all.steps[i], all.seeds[i], all);
    for (size_t i = 0; i < all.keys.size(); ++i) {
      TableContents& part = PartOf(all.fields[i], 0, 0, all);
      part.keys.push_back(all.keys[i]);
      part.frequencies.push_back(all.frequencies[i]);
      part.last_steps.push_back(all.last_steps[i]);
      const auto copy_row = [&](const std::vector<float>& from, std::vector<float>* to) {
        to->insert(to->end(), from.begin() + i * all.dim, from.begin() + (i + 1) * all.dim);
      };
      copy_row(all.values, &part.values);
      for (size_t s = 0; s < all.slots.size(); ++s) copy_row(all.slots[s], &part.slots[s]);
    }
    for (size_t i = 0; i < all.pending_keys.size(); ++i) {
      TableContents& part = PartOf(all.pending_fields[i], 0, 0, all);
      part.pending_keys.push_back(all.pending_keys[i]);
      part.pending_counts.push_back(all.pending_counts[i]);
    }
    for (const auto& [field, part] : parts_) {
      ContentsIn in;
      in.field = field;
      in.rows = static_cast<int64_t>(part.keys.size());
      in.pending = static_cast<int64_t>(part.pending_keys.size());
      in.keys = part.keys.data();
      in.values = part.values.data();
      for (const std::vector<float>& slot : part.slots) in.slots.push_back(slot.data());
      in.frequencies = part.frequencies.data();
      in.last_steps = part.last_steps.data();
      in.pending_keys = part.pending_keys.data();
      in.pending_counts = part.pending_counts.data();
      in.step = part.steps[0];
      in.seed = part.seeds[0];
      refs.push_back(in);
    }
  }

  operator const std::vector<ContentsIn>&() const { return refs; }

  std::vector<ContentsIn> refs;

 private:
  TableContents& PartOf(uint32_t field, int64_t step, uint64_t seed, const TableContents& all) {
    const auto [part, is_new] = parts_.try_emplace(field);
    if (is_new) {
      part->second.steps = {step};
      part->second.seeds = {seed};
      part->second.slots.resize(all.slots.size());
    }
    return part->second;
  }

  std::map<uint32_t, TableContents> parts_;
};

// `whole` in pieces of up to `most` rows or pending keys, of other sizes each; behind them `end`.
inline ContentsSource InPieces(const ContentsIn& whole, int64_t dim, int64_t most, Status end = Status()) {
  ContentsSource source = {whole.field, 0, 0, whole.step, whole.seed, nullptr};
  source.next = [whole, dim, most, end, row = int64_t{0}, pending = int64_t{0},
                 call = int64_t{0}](ContentsIn* piece) mutable {
    const int64_t want = 1 + call++ * 7919 % most;
    piece->rows = std::min(want, whole.rows - row);
    piece->pending = std::min(want - piece->rows, whole.pending - pending);
    if (piece->rows + piece->pending == 0) return end;
    const auto from = [](auto* array, int64_t at) { return array == nullptr ? nullptr : array + at; };
    piece->keys = from(whole.keys, row);
    piece->values = from(whole.values, row * dim);
    for (const float* slot : whole.slots) piece->slots.push_back(from(slot, row * dim));
    piece->frequencies = from(whole.frequencies, row);
    piece->last_steps = from(whole.last_steps, row);
    piece->pending_keys = from(whole.pending_keys, pending);
    piece->pending_counts = from(whole.pending_counts, pending);
    row += piece->rows;
    pending += piece->pending;
    return Status();
  };
  return source;
}

// Same keys in the same order, same bits.
inline bool Same(const TableContents& a, const TableContents& b) {
  return a.keys == b.keys && a.fields == b.fields && a.values == b.values && a.slots == b.slots &&
         a.frequencies == b.frequencies && a.last_steps == b.last_steps && a.pending_keys == b.pending_keys &&
         a.pending_fields == b.pending_fields && a.pending_counts == b.pending_counts && a.steps == b.steps &&
         a.seeds == b.seeds;
}

// The rows of contents as the model has them.
inline std::map<FieldKey, ModelRow> RowsOf(const TableContents& contents, int64_t dim) {
  std::map<FieldKey, ModelRow> rows;
  for (size_t i = 0; i < contents.keys.size(); ++i) {
    ModelRow row;
    row.values.insert(row.values.end(), contents.values.begin() + i * dim, contents.values.begin() + (i + 1) * dim);
    for (const std::vector<float>& slot : contents.slots) {
      row.values.insert(row.values.end(), slot.begin() + i * dim, slot.begin() + (i + 1) * dim);
    }
    row.frequency = contents.frequencies[i];
    row.last_step = contents.last_steps[i];
    rows[{contents.fields[i], contents.keys[i]}] = row;
  }
  return rows;
}

// Equal but for the order of rows and pending keys.
inline bool SameRows(const TableContents& a, const TableContents& b, int64_t dim) {
  const auto pending = [](const TableContents& c) {
    std::map<FieldKey, int64_t> counts;
    for (size_t i = 0; i < c.pending_keys.size(); ++i) {
      counts[{c.pending_fields[i], c.pending_keys[i]}] = c.pending_counts[i];
    }
    return counts;
  };
  return RowsOf(a, dim) == RowsOf(b, dim) && pending(a) == pending(b) && a.steps == b.steps && a.seeds == b.seeds;
}

// The whole table equals the model: through Export, Stats and FieldSize.
inline void ExpectSame(const HashTable& table, const TableModel& model, ParallelFor& pf) {
  const TableContents contents = ExportAll(table, pf);
  EXPECT_EQ(contents.keys.size(), model.rows.size());
  EXPECT_TRUE(RowsOf(contents, table.options().dim) == model.rows);
  std::map<FieldKey, int64_t> pending;
  for (size_t i = 0; i < contents.pending_keys.size(); ++i) {
    pending[{contents.pending_fields[i], contents.pending_keys[i]}] = contents.pending_counts[i];
  }
  EXPECT_EQ(contents.pending_keys.size(), model.pending.size());
  EXPECT_TRUE(pending == model.pending);
  const TableStats stats = table.Stats();
  EXPECT_EQ(stats.rows, static_cast<int64_t>(model.rows.size()));
  EXPECT_EQ(stats.pending, static_cast<int64_t>(model.pending.size()));
  EXPECT_EQ(stats.evicted, std::accumulate(model.evicted.begin(), model.evicted.end(), int64_t{0}));
  EXPECT_EQ(stats.step, *std::max_element(model.steps.begin(), model.steps.end()));
  EXPECT_TRUE(contents.steps == model.steps);
  int64_t bytes = 0, capacity = 0;
  for (const uint32_t f : AllFields(table)) {
    EXPECT_EQ(table.FieldSize(f), model.FieldSize(f));
    TableStats field;
    EXPECT_OK(table.FieldStats(f, &field));
    EXPECT_EQ(field.rows, model.FieldSize(f));
    EXPECT_EQ(field.pending, model.FieldPending(f));
    EXPECT_EQ(field.evicted, model.evicted[f]);
    EXPECT_EQ(field.step, model.steps[f]);
    bytes += field.bytes;
    capacity += field.index_capacity;
  }
  const int64_t fields = static_cast<int64_t>(table.options().fields.size());  // Shares are rounded.
  EXPECT_TRUE(std::abs(bytes - stats.bytes) <= fields);
  EXPECT_TRUE(std::abs(capacity - stats.index_capacity) <= fields);
}

// Find gives what the model says, for keys with a row and without, and inserts nothing.
inline void ExpectFinds(const HashTable& table, const TableModel& model, const Batch& batch, ParallelFor& pf) {
  const int64_t dim = table.options().dim;
  std::vector<float> out(batch.size() * dim, -7.0f);
  std::vector<uint8_t> found(batch.size(), 9);
  EXPECT_OK(table.Find(batch.ref(), out.data(), found.data(), pf));
  for (int64_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(found[i]), model.rows.count(batch.at(i)));
    EXPECT_TRUE(std::vector<float>(out.begin() + i * dim, out.begin() + (i + 1) * dim) == model.Find(batch.at(i)));
  }
}

// Calls `update(position, values)` row by row, for tests that do not care about groups.
template <class Fn>
auto RowByRow(Fn update) {
  return [update](const RowVisit& visit) {
    for (int64_t j = 0; j < visit.size; ++j) update(visit.positions[j], visit.rows[j]);
  };
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_
