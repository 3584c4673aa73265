// The contract of tables, part 5: batches of new keys that are larger than what is looked up at a time, with the same
// key in several places of them. Rows, their order and the index are the same for any number of threads.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_NEW_KEYS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_NEW_KEYS_H_

#include <set>

#include "cc/core/hash_table/contract/failures.h"
#include "cc/core/hash_table/contract/key_patterns.h"

namespace tf_booster::contract {

// `size` keys drawn from `population`, the known ones of [0, known) among them; some come far apart, some side by side.
inline Batch BatchOfNewKeys(int64_t size, int64_t known, int64_t population, uint64_t seed, uint32_t fields) {
  Batch batch;
  uint64_t word = seed;
  for (int64_t i = 0; i < size; ++i) {
    word = Mix64(word + 1);
    const bool repeats = i > 0 && word % 16 == 0;
    const int64_t drawn = static_cast<int64_t>((word >> 8) % static_cast<uint64_t>(word % 3 == 0 ? known : population));
    const FieldKey key = {fields == 1 ? 0 : static_cast<uint32_t>(drawn % fields), drawn * 7919 - 1000};
    batch.Add(repeats ? batch.at(i - 1) : key);
  }
  return batch;
}

// A table of some rows that has room for more; `gaps`: with tombstones and free rows in it.
inline std::unique_ptr<HashTable> TableWithRoom(const TableMaker& make, const TableOptions& options, bool gaps) {
  std::unique_ptr<HashTable> table = make(options);
  SerialFor pf;
  EXPECT_OK(table->Reserve(40000, pf));
  const Batch batch = BatchOfNewKeys(9000, 4000, 4000, 99, static_cast<uint32_t>(options.fields.size()));
  std::vector<float> out(batch.size() * options.dim);
  EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
  if (!gaps) return table;
  Batch erased = batch;
  erased.keys.resize(500);
  erased.fields.resize(500);
  const TableContents contents = ExportAll(*table, pf);
  erased.Add({contents.fields.empty() ? 0 : contents.fields.back(), contents.keys.back()});  // The last row's.
  EXPECT_OK(table->Erase(erased.ref(), nullptr, pf));
  return table;
}

// insert(table, batch, rows, pf) by one thread and by several, into an empty table or one that has room.
template <class Insert>
void NewKeysComeInBatchOrder(const TableMaker& make, uint32_t fields, bool room, Insert insert) {
  constexpr int64_t kDim = 4;
  const TableOptions options = fields == 1 ? OneField(kDim) : ThreeFields(kDim);
  const Batch batch = BatchOfNewKeys(21000, 4000, 30000, 5, fields);
  TableContents expected;
  int64_t capacity = 0, bytes = 0;
  for (const int threads : {1, 2, 5}) {
    ThreadFor pf(threads);
    std::unique_ptr<HashTable> table = room ? TableWithRoom(make, options, true) : make(options);
    std::set<FieldKey> known;
    const TableContents before = ExportAll(*table, pf);
    for (size_t i = 0; i < before.keys.size(); ++i) known.insert({before.fields[i], before.keys[i]});
    std::vector<float> rows(batch.size() * kDim);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    EXPECT_OK(insert(*table, batch, rows.data(), pf));
    const TableContents contents = ExportAll(*table, pf);
    const TableStats stats = table->Stats();
    // A key in the table once, and found there.
    std::set<FieldKey> all = known;
    for (int64_t i = 0; i < batch.size(); ++i) all.insert(batch.at(i));
    EXPECT_EQ(contents.keys.size(), all.size());
    EXPECT_EQ(stats.rows, static_cast<int64_t>(all.size()));
    EXPECT_EQ(stats.pending, 0);
    std::vector<float> found_rows(batch.size() * kDim);
    std::vector<uint8_t> found(batch.size());
    EXPECT_OK(table->Find(batch.ref(), found_rows.data(), found.data(), pf));
    EXPECT_TRUE(found == std::vector<uint8_t>(batch.size(), 1));
    if (!room && fields == 1) {  // Rows in the order in which their keys came first.
      std::set<int64_t> seen;
      std::vector<int64_t> order;
      for (const int64_t key : batch.keys) {
        if (seen.insert(key).second) order.push_back(key);
      }
      EXPECT_TRUE(contents.keys == order);
    }
    if (threads == 1) {
      expected = contents;
      capacity = stats.index_capacity;
      bytes = stats.bytes;
    }
    EXPECT_TRUE(Same(contents, expected));
    EXPECT_EQ(stats.index_capacity, capacity);
    EXPECT_EQ(stats.bytes, bytes);
  }
}

inline void FindOrInsertNumbersRowsInBatchOrder(const TableMaker& make) {
  const auto insert = [](HashTable& table, const Batch& batch, float* rows, ParallelFor& pf) {
    const Status status = table.FindOrInsert(batch.ref(), rows, pf);
    std::vector<float> found(batch.size() * 4);
    EXPECT_OK(table.Find(batch.ref(), found.data(), nullptr, pf));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), rows));
    return status;
  };
  for (const uint32_t fields : {1u, 3u}) {
    for (const bool room : {false, true}) NewKeysComeInBatchOrder(make, fields, room, insert);
  }
}

inline void InsertOrAssignNumbersRowsInBatchOrder(const TableMaker& make) {
  const auto insert = [](HashTable& table, const Batch& batch, float* rows, ParallelFor& pf) {
    return table.InsertOrAssign(batch.ref(), rows, pf);
  };
  for (const uint32_t fields : {1u, 3u}) {
    for (const bool room : {false, true}) NewKeysComeInBatchOrder(make, fields, room, insert);
  }
}

// The first parts of a batch bring few new keys and have room, a later one does not: nothing of it stays, and who
// looked a row of it up meanwhile is not led to another key's.
inline void TakesOutWhatDoesNotFit(const TableMaker& make) {
  for (const bool gaps : {false, true}) {
    ThreadFor pf(1);
    TableOptions options = OneField(4);
    options.fields[0].max_rows = 4500;
    std::unique_ptr<HashTable> table = TableWithRoom(make, options, gaps);
    const TableContents before = ExportAll(*table, pf);
    const TableStats stats = table->Stats();
    Batch batch;  // Old keys and one new one in a hundred, and then new ones only.
    for (int64_t i = 0; i < 8000; ++i) batch.keys.push_back(i % 100 == 0 ? -5000 - i : before.keys[i % 3000]);
    const Batch early(batch.keys);
    for (int64_t i = 0; i < 4000; ++i) batch.keys.push_back(-50000 - i);
    std::vector<float> out(batch.size() * 4);
    EXPECT_TRUE(IsExhausted(table->FindOrInsert(batch.ref(), out.data(), pf), "4500"));
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    EXPECT_EQ(table->Stats().rows, stats.rows);
    EXPECT_EQ(table->Stats().bytes, stats.bytes);
    EXPECT_EQ(table->Stats().index_capacity, stats.index_capacity);
    std::vector<uint8_t> found(batch.size());
    EXPECT_OK(table->Find({batch.keys.data() + 8000, nullptr, 4000}, out.data(), found.data(), pf));
    EXPECT_EQ(std::count(found.begin(), found.begin() + 4000, 1), 0);
    // The same as in a table where nothing was taken out.
    std::unique_ptr<HashTable> other = TableWithRoom(make, options, gaps);
    EXPECT_OK(table->FindOrInsert(early.ref(), out.data(), pf));
    EXPECT_OK(other->FindOrInsert(early.ref(), out.data(), pf));
    EXPECT_EQ(table->Stats().rows, stats.rows + 80);
    EXPECT_EQ(table->Stats().bytes, other->Stats().bytes);
    EXPECT_TRUE(Same(ExportAll(*table, pf), ExportAll(*other, pf)));
  }
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_NEW_KEYS_H_
