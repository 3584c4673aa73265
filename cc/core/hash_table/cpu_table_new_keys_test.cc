// The CPU table under large batches of new keys, on one thread and on several.
#include "cc/core/hash_table/contract/new_keys.h"

#include "cc/core/hash_table/contract/cpu_tables.h"

namespace tf_booster::contract {

CONTRACT(FindOrInsertNumbersRowsInBatchOrder, CpuTables)
CONTRACT(InsertOrAssignNumbersRowsInBatchOrder, CpuTables)
CONTRACT(UpdateNumbersRowsInBatchOrder, CpuTables)
CONTRACT(TakesOutWhatDoesNotFit, CpuTables)
CONTRACT(RefusesNewKeysThroughHandles, CpuTables)

// Looks a key up whenever the table asks for memory, until it has a row.
class CuriousMemory : public MemoryProbe {
 public:
  bool Grant(int64_t /*bytes*/, int64_t* left) override {
    *left = INT64_MAX;
    SerialFor pf;
    if (table != nullptr && handle == kNoRow) EXPECT_OK(table->FindHandles({&key, nullptr, 1}, &handle, pf));
    return true;
  }

  const HashTable* table = nullptr;
  int64_t key = 0;
  RowHandle handle = kNoRow;
};

// What a reader was told about a row that is taken out again does not lead it to the row's next key.
TEST(AHandleOfWhatDidNotFitIsStale) {
  constexpr int64_t kDim = 4, kBatch = 20000;
  CuriousMemory memory;
  TableOptions options = OneField(kDim);
  options.fields[0].initializer = {InitializerKind::kConstant, 7.0f, 0.0f};
  options.fields[0].max_rows = 5000;
  CpuTableConfig config;
  config.memory = &memory;
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(options, &table, config));
  SerialFor pf;
  EXPECT_OK(table->Reserve(10000, pf));
  const std::vector<float> row(kDim, 1.0f);
  const int64_t known = 3, other = 11;
  EXPECT_OK(table->InsertOrAssign({&known, nullptr, 1}, row.data(), pf));
  memory.table = table.get();
  memory.key = -5;
  // One new key in a hundred for several parts, and then more than there is room for.
  std::vector<int64_t> keys(kBatch, known);
  for (int64_t i = 0; i < kBatch; i += 100) keys[i] = memory.key - i;
  for (int64_t i = 12000; i < kBatch; ++i) keys[i] = i;
  std::vector<float> out(kBatch * kDim);
  EXPECT_TRUE(IsExhausted(table->FindOrInsert({keys.data(), nullptr, kBatch}, out.data(), pf), "5000"));
  EXPECT_EQ(table->Stats().rows, 1);
  EXPECT_TRUE(memory.handle != kNoRow);  // Seen while the batch was under way.

  EXPECT_OK(table->InsertOrAssign({&other, nullptr, 1}, row.data(), pf));  // Where key -5 was.
  const int64_t code = 1;
  std::vector<float> gathered(kDim);
  EXPECT_OK(table->Gather({&memory.key, nullptr, 1}, &memory.handle, {{&code, 1, gathered.data()}}, pf));
  EXPECT_TRUE(gathered == std::vector<float>(kDim, 7.0f));  // Its initial value.
}

}  // namespace tf_booster::contract
