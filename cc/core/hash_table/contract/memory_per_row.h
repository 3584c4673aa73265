// What a row of a table takes beyond itself and its key.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_MEMORY_PER_ROW_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_MEMORY_PER_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

struct Overhead {
  double average = 0;
  double worst = 0;
};

// Of a table that grows from `first` rows to four times as many, over two doublings, each size counting by its
// logarithm. insert(keys): enters new keys.
template <class Insert>
Overhead OverheadOf(HashTable* table, const Insert& insert, int64_t first = 1 << 16) {
  constexpr int kPoints = 128;
  const TableOptions& options = table->options();
  const std::vector<int64_t> keys = MakeKeys(Pattern::kRandom, 4 * first);
  std::vector<uint32_t> fields;
  for (size_t i = 0; i < keys.size(); ++i) fields.push_back(static_cast<uint32_t>(i % options.fields.size()));
  Overhead found;
  int64_t rows = 0;
  for (int point = 0; point < kPoints; ++point) {
    const int64_t end = static_cast<int64_t>(static_cast<double>(first) * std::exp2(2.0 * point / kPoints));
    insert(KeyBatch{keys.data() + rows, fields.data() + rows, end - rows});
    rows = end;
    const double values = static_cast<double>(options.dim * (1 + options.slot_initial_values.size()));
    const double bytes = static_cast<double>(table->Stats().bytes) / static_cast<double>(rows) - 4 * values - 8;
    found.average += bytes / kPoints;
    found.worst = std::max(found.worst, bytes);
  }
  std::printf("  %.1f bytes a row on average, %.1f at worst\n", found.average, found.worst);
  return found;
}

inline Overhead OverheadOfInserts(HashTable* table) {
  return OverheadOf(table, [&](const KeyBatch& keys) {
    std::vector<float> out(static_cast<size_t>(keys.size * table->options().dim));
    SerialFor pf;
    EXPECT_OK(table->FindOrInsert(keys, out.data(), pf));
  });
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_MEMORY_PER_ROW_H_
