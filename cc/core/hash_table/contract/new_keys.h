// The contract of tables, part 5: batches of new keys that are larger than what is looked up at a time, with the same
// key in several places of them. Rows, their order and the index are the same for any number of threads.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_NEW_KEYS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_NEW_KEYS_H_

#include <map>
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

// insert(table, batch, rows, pf) by one thread and by several, into an empty table or one that has room, and gaps.
template <class Insert>
void NewKeysComeInBatchOrder(const TableMaker& make, uint32_t fields, bool room, bool gaps, Insert insert) {
  constexpr int64_t kDim = 4;
  const TableOptions options = fields == 1 ? OneField(kDim) : ThreeFields(kDim);
  const Batch batch = BatchOfNewKeys(21000, 4000, 30000, 5, fields);
  TableContents expected;
  int64_t capacity = 0, bytes = 0;
  for (const int threads : {1, 2, 5}) {
    ThreadFor pf(threads);
    std::unique_ptr<HashTable> table = room ? TableWithRoom(make, options, gaps) : make(options);
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

template <class Insert>
void NewKeysComeInBatchOrder(const TableMaker& make, Insert insert) {
  for (const uint32_t fields : {1u, 3u}) {
    NewKeysComeInBatchOrder(make, fields, false, false, insert);
    for (const bool gaps : {false, true}) NewKeysComeInBatchOrder(make, fields, true, gaps, insert);
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
  NewKeysComeInBatchOrder(make, insert);
}

inline void InsertOrAssignNumbersRowsInBatchOrder(const TableMaker& make) {
  const auto insert = [](HashTable& table, const Batch& batch, float* rows, ParallelFor& pf) {
    const Status status = table.InsertOrAssign(batch.ref(), rows, pf);
    std::map<FieldKey, int64_t> last;
    for (int64_t i = 0; i < batch.size(); ++i) last[batch.at(i)] = i;
    std::vector<float> found(batch.size() * 4);
    EXPECT_OK(table.Find(batch.ref(), found.data(), nullptr, pf));
    for (int64_t i = 0; i < batch.size(); ++i) {
      if (found[i * 4] != rows[last[batch.at(i)] * 4]) EXPECT_EQ(found[i * 4], rows[last[batch.at(i)] * 4]);
    }
    return status;
  };
  NewKeysComeInBatchOrder(make, insert);
}

// Through the handles of a lookup before it; after which keys came in, and others left.
inline void UpdateNumbersRowsInBatchOrder(const TableMaker& make) {
  for (const bool meanwhile : {false, true}) {
    const auto update = [&](HashTable& table, const Batch& batch, float*, ParallelFor& pf) {
      Batch distinct;
      std::set<FieldKey> seen;
      for (int64_t i = 0; i < batch.size(); ++i) {
        if (seen.insert(batch.at(i)).second) distinct.Add(batch.at(i));
      }
      std::vector<RowHandle> handles(distinct.size());
      EXPECT_OK(table.FindHandles(distinct.ref(), handles.data(), pf));
      if (meanwhile) {
        Batch some;
        for (int64_t i = 0; i < 10000; ++i) some.Add(distinct.at(i));
        std::vector<float> out(some.size() * 4);
        EXPECT_OK(table.FindOrInsert(some.ref(), out.data(), pf));
        // Tombstones in front of some that came in.
        Batch others;
        for (int64_t i = 700; i < 9000; i += 2) others.Add(distinct.at(i));
        EXPECT_OK(table.Erase(others.ref(), nullptr, pf));
      }
      std::vector<float> before(distinct.size() * 4), after(distinct.size() * 4);
      EXPECT_OK(table.Find(distinct.ref(), before.data(), nullptr, pf));
      std::vector<int64_t> counts(distinct.size());
      for (int64_t i = 0; i < distinct.size(); ++i) counts[i] = 1 + i % 5;
      const auto add = [](const RowVisit& visit) {
        for (int64_t j = 0; j < visit.size; ++j) {
          for (int c = 0; c < 4; ++c) visit.rows[j][c] += static_cast<float>(1 + visit.positions[j] % 13);
        }
      };
      const auto frequencies = [&] {
        const TableContents contents = ExportAll(table, pf);
        std::map<FieldKey, int64_t> all;
        for (size_t i = 0; i < contents.keys.size(); ++i) {
          all[{contents.fields[i], contents.keys[i]}] = contents.frequencies[i];
        }
        return all;
      };
      std::map<FieldKey, int64_t> wanted_frequencies = frequencies();
      for (int64_t i = 0; i < distinct.size(); ++i) wanted_frequencies[distinct.at(i)] += counts[i];
      const Status status = table.Update({distinct.ref(), counts.data(), handles.data()}, add, pf);
      EXPECT_TRUE(frequencies() == wanted_frequencies);
      EXPECT_OK(table.Find(distinct.ref(), after.data(), nullptr, pf));
      for (size_t i = 0; i < after.size(); ++i) {
        const float wanted = before[i] + static_cast<float>(1 + i / 4 % 13);
        if (after[i] != wanted) EXPECT_EQ(after[i], wanted);
      }
      return status;
    };
    if (!meanwhile) {
      NewKeysComeInBatchOrder(make, update);
      continue;
    }
    for (const uint32_t fields : {1u, 3u}) {
      for (const bool gaps : {false, true}) NewKeysComeInBatchOrder(make, fields, true, gaps, update);
    }
  }
}

// What a table without handles says of a bad batch is said through handles, too, and leaves it as it was.
inline void RefusesNewKeysThroughHandles(const TableMaker& make) {
  const auto nothing = [](const RowVisit&) {};
  TableOptions options = OneField(4);
  for (int variant = 0; variant < 8; ++variant) {
    const bool twice = (variant & 1) != 0, gaps = (variant & 2) != 0;
    ThreadFor pf((variant & 4) != 0 ? 3 : 1);
    options.fields[0].max_rows = twice ? 0 : 4500;
    Batch batch;
    for (int64_t i = 0; i < 10000; ++i) batch.keys.push_back(-5000 - i);
    if (twice) batch.keys[9999] = batch.keys[7];
    std::vector<RowHandle> handles(batch.size());
    std::vector<float> out(batch.size() * 4);
    const auto make_table = [&] {
      std::unique_ptr<HashTable> table = TableWithRoom(make, options, gaps);
      EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
      EXPECT_OK(table->FindOrInsert({batch.keys.data() + 100, nullptr, 50}, out.data(), pf));  // Meanwhile.
      return table;
    };
    std::unique_ptr<HashTable> table = make_table();
    const TableContents before = ExportAll(*table, pf);
    const Status status = table->Update({batch.ref(), nullptr, handles.data()}, nothing, pf);
    if (twice) {
      EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument);
      EXPECT_TRUE(status.message().find("-5007 occurs twice") != std::string::npos);
    } else {
      EXPECT_TRUE(IsExhausted(status, "4500"));
    }
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    EXPECT_EQ(table->Stats().step, 0);
    std::vector<uint8_t> found(before.keys.size());
    out.resize(std::max(out.size(), found.size() * 4));
    EXPECT_OK(
        table->Find({before.keys.data(), nullptr, static_cast<int64_t>(found.size())}, out.data(), found.data(), pf));
    EXPECT_TRUE(found == std::vector<uint8_t>(found.size(), 1));
    // And the next step is as though there had been no other.
    std::unique_ptr<HashTable> other = make_table();
    const UpdateBatch good = {{batch.keys.data(), nullptr, 300}, nullptr, handles.data()};
    EXPECT_OK(table->Update(good, nothing, pf));
    EXPECT_OK(other->Update(good, nothing, pf));
    EXPECT_TRUE(Same(ExportAll(*table, pf), ExportAll(*other, pf)));
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
