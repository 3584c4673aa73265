// Batches of every length through the pipeline of a find, whose stages take keys by groups: at its ends groups are cut
// short, and in a full index many keys are settled late.
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/key_patterns.h"

namespace tf_booster::contract {
namespace {

constexpr int64_t kKnown = 3500, kLongest = 150;

// Keys [0, kKnown) of the batch are in the table, with their number in every column.
void FindsBatchesOfAllLengths(const TableMaker& make, int64_t dim) {
  std::unique_ptr<HashTable> table = make(OneField(dim, 0));
  SerialFor pf;
  const Batch all(MakeKeys(Pattern::kRandom, kKnown + 1000));
  std::vector<float> values(kKnown * dim);
  for (int64_t i = 0; i < kKnown * dim; ++i) values[i] = static_cast<float>(i / dim);
  EXPECT_OK(table->InsertOrAssign({all.keys.data(), nullptr, kKnown}, values.data(), pf));
  int64_t drawn = 0;
  for (int64_t n = 0; n <= kLongest; ++n) {
    std::vector<int64_t> places(n);
    Batch batch;
    for (int64_t& place : places) {
      place = ++drawn % 5 == 0 ? kKnown + drawn % 1000 : drawn * 7919 % kKnown;
      batch.keys.push_back(all.keys[place]);
    }
    std::vector<float> out(n * dim + 1, -1.0f), initial(dim);
    std::vector<uint8_t> found(n + 1, 9);
    std::vector<RowHandle> handles(n);
    EXPECT_OK(table->Find(batch.ref(), out.data(), found.data(), pf));
    EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
    EXPECT_EQ(out[n * dim], -1.0f);  // Nothing behind the end.
    EXPECT_EQ(found[n], 9);
    for (int64_t i = 0; i < n; ++i) {
      const bool known = places[i] < kKnown;
      EXPECT_EQ(found[i] != 0, known);
      EXPECT_EQ(handles[i] != kNoRow, known);
      if (!known) EXPECT_OK(table->Find({&batch.keys[i], nullptr, 1}, initial.data(), nullptr, pf));
      for (int64_t j = 0; j < dim; ++j) {
        EXPECT_EQ(out[i * dim + j], known ? static_cast<float>(places[i]) : initial[j]);
      }
    }
  }
}

void FindsAnyLength(const TableMaker& make) {
  for (const int64_t dim : {1, 16, 40, 64, 128}) FindsBatchesOfAllLengths(make, dim);  // One of each kind of group.
}

}  // namespace

CONTRACT(FindsAnyLength, CpuTables)
TEST(FindsAnyLengthInAFullIndex_Bucket4) { FindsAnyLength(FullCpuTables(4)); }
TEST(FindsAnyLengthInAFullIndex_Bucket1) { FindsAnyLength(FullCpuTables(1)); }

}  // namespace tf_booster::contract
