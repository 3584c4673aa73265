// A table as a dictionary of rows: slow and obviously right. The contract suite compares every table with it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_MODEL_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster::contract {

using FieldKey = std::pair<uint32_t, int64_t>;

struct ModelRow {
  std::vector<float> values;  // Embedding and slots.
  int64_t frequency = 1;
  int64_t last_step = 0;

  bool operator==(const ModelRow& other) const {
    return std::tie(values, frequency, last_step) == std::tie(other.values, other.frequency, other.last_step);
  }
};

class TableModel {
 public:
  explicit TableModel(const TableOptions& options)
      : steps(options.fields.size(), 0), evicted(options.fields.size(), 0), options_(options) {}

  std::vector<float> Initial(const FieldKey& key) const {
    const FieldOptions& field = options_.fields[key.first];
    std::vector<float> values(options_.dim);
    InitialRow(MakeRowInitializer(field.initializer, field.name, field.seed), key.second, options_.dim, values.data());
    return values;
  }

  std::vector<float> Find(const FieldKey& key) const {
    const auto row = rows.find(key);
    if (row == rows.end()) return Initial(key);
    return {row->second.values.begin(), row->second.values.begin() + options_.dim};
  }

  ModelRow& Insert(const FieldKey& key) {
    pending.erase(key);
    const auto [row, inserted] = rows.try_emplace(key);
    if (inserted) {
      row->second.values = Initial(key);
      for (const float slot : options_.slot_initial_values)
        row->second.values.insert(row->second.values.end(), options_.dim, slot);
      row->second.last_step = steps[key.first];
    }
    return row->second;
  }

  void Assign(const FieldKey& key, const float* values) {
    std::copy_n(values, options_.dim, Insert(key).values.begin());
  }

  // Whether there was a row.
  bool Erase(const FieldKey& key) {
    pending.erase(key);
    return rows.erase(key) > 0;
  }

  // Calls update(i, values) for each admitted key of the batch. `fields`: those that step; empty: all.
  template <class Fn>
  void Update(const std::vector<FieldKey>& keys, const std::vector<int64_t>& counts, Fn update,
              std::vector<uint32_t> fields = {}) {
    if (fields.empty()) {
      for (uint32_t f = 0; f < steps.size(); ++f) fields.push_back(f);
    }
    for (const uint32_t f : fields) ++steps[f];
    for (size_t i = 0; i < keys.size(); ++i) {
      auto row = rows.find(keys[i]);
      if (row != rows.end()) {
        row->second.frequency += counts[i];
      } else {
        const int64_t seen = pending[keys[i]] += counts[i];
        if (seen < options_.fields[keys[i].first].min_frequency) continue;
        Insert(keys[i]).frequency = seen;
        row = rows.find(keys[i]);
      }
      row->second.last_step = steps[keys[i].first];
      update(i, row->second.values.data());
    }
    for (const uint32_t f : fields) Evict(f);
  }

  int64_t FieldSize(uint32_t f) const {
    return std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first.first == f; });
  }

  int64_t FieldPending(uint32_t f) const {
    return std::count_if(pending.begin(), pending.end(), [&](const auto& key) { return key.first.first == f; });
  }

  void Clear(uint32_t f) {
    const auto erase = [&](auto& map) {
      for (auto it = map.begin(); it != map.end();) it = it->first.first == f ? map.erase(it) : std::next(it);
    };
    erase(rows);
    erase(pending);
  }

  std::map<FieldKey, ModelRow> rows;
  std::map<FieldKey, int64_t> pending;
  std::vector<int64_t> steps;    // Of each field.
  std::vector<int64_t> evicted;  // Of each field.

 private:
  void Evict(uint32_t f) {
    const EvictionOptions& policy = options_.fields[f].eviction;
    if (policy.max_idle_steps == 0 && policy.max_rows == 0) return;
    std::vector<std::tuple<int64_t, uint64_t, int64_t>> order;  // (score, hash, key)
    for (const auto& [key, row] : rows) {
      if (key.first != f) continue;
      const int64_t score = policy.order == EvictionOrder::kLfu ? row.frequency : row.last_step;
      order.push_back({score, HashKey(key.second, 0), key.second});
    }
    std::sort(order.begin(), order.end());
    int64_t left = static_cast<int64_t>(order.size());
    for (const auto& [score, hash, key] : order) {
      const bool idle = policy.max_idle_steps > 0 && steps[f] - score >= policy.max_idle_steps;
      const bool over = policy.max_rows > 0 && left > policy.max_rows;
      if (!idle && !over) break;
      rows.erase({f, key});
      --left;
      ++evicted[f];
    }
  }

  const TableOptions options_;
};

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_TABLE_MODEL_H_
