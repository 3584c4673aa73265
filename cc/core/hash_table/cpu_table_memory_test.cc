// What a row of the CPU table takes beyond itself and its key, on average over the sizes between two growths of the
// index and at worst.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/key_patterns.h"

namespace tf_booster::contract {
namespace {

struct Overhead {
  double average = 0;
  double worst = 0;
};

// Of a table that grows from 65,536 rows to four times as many, two doublings of its index, each size counting by its
// logarithm.
Overhead OverheadOf(const TableOptions& options) {
  constexpr int64_t kFirst = 1 << 16;
  constexpr int kPoints = 128;
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(options, &table));
  const std::vector<int64_t> keys = MakeKeys(Pattern::kRandom, 4 * kFirst);
  std::vector<uint32_t> fields;
  for (size_t i = 0; i < keys.size(); ++i) fields.push_back(static_cast<uint32_t>(i % options.fields.size()));
  std::vector<float> out(keys.size() * options.dim);
  SerialFor pf;
  Overhead found;
  int64_t rows = 0;
  for (int point = 0; point < kPoints; ++point) {
    const int64_t end = static_cast<int64_t>(kFirst * std::exp2(2.0 * point / kPoints));
    EXPECT_OK(table->FindOrInsert({keys.data() + rows, fields.data() + rows, end - rows}, out.data(), pf));
    rows = end;
    const double values = static_cast<double>(options.dim * (1 + options.slot_initial_values.size()));
    const double bytes = static_cast<double>(table->Stats().bytes) / static_cast<double>(rows) - 4 * values - 8;
    found.average += bytes / kPoints;
    found.worst = std::max(found.worst, bytes);
  }
  std::printf("  %.1f bytes a row on average, %.1f at worst\n", found.average, found.worst);
  return found;
}

}  // namespace

TEST(ARowTakes32BytesBeyondItselfAndItsKey) {
  const Overhead plain = OverheadOf(OneField(16, 2));
  EXPECT_TRUE(plain.average <= 32 && plain.worst <= 41);
  const Overhead fused = OverheadOf(ThreeFields(16));
  EXPECT_TRUE(fused.average <= 32 && fused.worst <= 41);
}

TEST(AFilterTakesNothingOfARow) {
  TableOptions options = OneField(16);
  options.fields[0].min_frequency = 3;
  EXPECT_TRUE(OverheadOf(options).average <= 32);
}

TEST(EvictionTakes16BytesMore) {
  TableOptions options = OneField(16);
  options.fields[0].eviction.max_idle_steps = 1000;
  const Overhead found = OverheadOf(options);
  EXPECT_TRUE(found.average <= 50 && found.worst <= 61);
}

}  // namespace tf_booster::contract
