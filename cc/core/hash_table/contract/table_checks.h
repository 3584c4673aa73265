// What the contract suite's tests share: making tables, reading them whole, comparing them with the model.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/contract/table_model.h"
#include "cc/core/hash_table/hash_table.h"

namespace tf_booster::contract {

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

inline TableContents ExportAll(const HashTable& table, ParallelFor& pf) {
  TableContents contents;
  EXPECT_OK(table.Export(
      [&](ContentsOut* out) {
        const int64_t dim = table.options().dim;
        contents.keys.resize(out->rows);
        contents.fields.resize(out->rows);
        contents.values.resize(out->rows * dim);
        contents.slots.assign(out->slots.size(), std::vector<float>(out->rows * dim));
        contents.frequencies.resize(out->rows);
        contents.last_steps.resize(out->rows);
        contents.pending_keys.resize(out->pending);
        contents.pending_fields.resize(out->pending);
        contents.pending_counts.resize(out->pending);
        contents.step = out->step;
        contents.seeds = out->seeds;
        out->keys = contents.keys.data();
        out->fields = contents.fields.data();
        out->values = contents.values.data();
        for (size_t s = 0; s < out->slots.size(); ++s) out->slots[s] = contents.slots[s].data();
        out->frequencies = contents.frequencies.data();
        out->last_steps = contents.last_steps.data();
        out->pending_keys = contents.pending_keys.data();
        out->pending_fields = contents.pending_fields.data();
        out->pending_counts = contents.pending_counts.data();
        return Status();
      },
      pf));
  return contents;
}

inline ContentsIn Borrow(const TableContents& contents) {
  ContentsIn in;
  in.rows = static_cast<int64_t>(contents.keys.size());
  in.pending = static_cast<int64_t>(contents.pending_keys.size());
  in.keys = contents.keys.data();
  in.fields = contents.fields.data();
  in.values = contents.values.data();
  for (const std::vector<float>& slot : contents.slots) in.slots.push_back(slot.data());
  in.frequencies = contents.frequencies.data();
  in.last_steps = contents.last_steps.data();
  in.pending_keys = contents.pending_keys.data();
  in.pending_fields = contents.pending_fields.data();
  in.pending_counts = contents.pending_counts.data();
  in.step = contents.step;
  in.seeds = contents.seeds;
  return in;
}

// Same keys in the same order, same bits.
inline bool Same(const TableContents& a, const TableContents& b) {
  return a.keys == b.keys && a.fields == b.fields && a.values == b.values && a.slots == b.slots &&
         a.frequencies == b.frequencies && a.last_steps == b.last_steps && a.pending_keys == b.pending_keys &&
         a.pending_fields == b.pending_fields && a.pending_counts == b.pending_counts && a.step == b.step &&
         a.seeds == b.seeds;
}

// The rows of contents as the model has them.
inline std::map<FieldKey, ModelRow> RowsOf(const TableContents& contents, int64_t dim) {
  std::map<FieldKey, ModelRow> rows;
  for (size_t i = 0; i < contents.keys.size(); ++i) {
    ModelRow row;
    row.values.assign(contents.values.begin() + i * dim, contents.values.begin() + (i + 1) * dim);
    for (const std::vector<float>& slot : contents.slots) {
      row.values.insert(row.values.end(), slot.begin() + i * dim, slot.begin() + (i + 1) * dim);
    }
    row.frequency = contents.frequencies[i];
    row.last_step = contents.last_steps[i];
    rows[{contents.fields[i], contents.keys[i]}] = row;
  }
  return rows;
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
  EXPECT_EQ(stats.evicted, model.evicted);
  EXPECT_EQ(stats.step, model.step);
  EXPECT_EQ(contents.step, model.step);
  for (uint32_t f = 0; f < table.options().fields.size(); ++f) EXPECT_EQ(table.FieldSize(f), model.FieldSize(f));
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
  return [update](const int64_t* positions, float* const* rows, int64_t n) {
    for (int64_t j = 0; j < n; ++j) update(positions[j], rows[j]);
  };
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_CHECKS_H_
