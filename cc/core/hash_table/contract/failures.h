// The contract of tables, part 3: limits, memory that runs out, bad arguments. The table is always as it was.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FAILURES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FAILURES_H_

#include <atomic>
#include <functional>
#include <limits>

#include "cc/core/base/allocator.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/memory_limit.h"

namespace tf_booster::contract {

// Memory that runs out when a test says so.
class ScarceMemory final : public MemoryProbe, public Allocator {
 public:
  bool Grant(int64_t bytes, int64_t* left) override {
    *left = limit;
    if (bytes > limit) return false;
    limit -= bytes;
    return true;
  }
  void* Allocate(size_t bytes) override {
    return --allocations < 0 || static_cast<int64_t>(bytes) > largest ? nullptr : source->Allocate(bytes);
  }
  void Free(void* memory, size_t bytes) override { source->Free(memory, bytes); }

  Allocator* source = HostAllocator();
  int64_t limit = INT64_MAX;
  std::atomic<int64_t> allocations{INT64_MAX};  // That still succeed.
  int64_t largest = INT64_MAX;                  // Allocation, in bytes.
};

using ScarceTableMaker = std::function<std::unique_ptr<HashTable>(const TableOptions&, ScarceMemory*)>;

inline bool IsExhausted(const Status& status, const std::string& named) {
  EXPECT_TRUE(status.message().find("user_emb") != std::string::npos);
  EXPECT_TRUE(status.message().find(named) != std::string::npos);
  return status.code() == StatusCode::kResourceExhausted;
}

// Every method that can insert, with new keys in field 0; each fails by `named` and changes nothing.
inline void ExpectAllExhausted(HashTable* table, const std::string& named, int64_t new_keys = 900) {
  ThreadFor pf(2);
  const TableContents before = ExportAll(*table, pf);
  const TableStats stats = table->Stats();
  Batch batch;
  for (int64_t i = 0; i < 2 * new_keys; ++i) batch.Add({0, i % 2 ? 1000000 + i : 1 + i / 2});
  std::vector<float> values(batch.size() * 3, 8.0f);
  std::vector<RowHandle> handles(batch.size());
  EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
  bool called = false;
  const auto update = [&](const RowVisit&) { called = true; };
  EXPECT_TRUE(IsExhausted(table->FindOrInsert(batch.ref(), values.data(), pf), named));
  EXPECT_TRUE(IsExhausted(table->InsertOrAssign(batch.ref(), values.data(), pf), named));
  EXPECT_TRUE(IsExhausted(table->Update({batch.ref(), nullptr, handles.data()}, update, pf), named));
  EXPECT_FALSE(called);
  EXPECT_TRUE(Same(ExportAll(*table, pf), before));
  EXPECT_EQ(table->Stats().step, stats.step);
  EXPECT_EQ(table->Stats().index_capacity, stats.index_capacity);
}

inline void StopsAtMaxRows(const TableMaker& make) {
  TableOptions options = HistoryOptions();
  options.fields[0].max_rows = 3100;
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  ExpectAllExhausted(table.get(), "3100");
  EXPECT_TRUE(table->FieldSize(0) == 3000);
  // Other fields have room, and so has this one up to its limit.
  SerialFor pf;
  Batch batch;
  for (int64_t i = 0; i < 3100 - table->FieldSize(0); ++i) batch.Add({0, -1 - i});
  for (int64_t i = 0; i < 5000; ++i) batch.Add({1, -1 - i});
  std::vector<float> out(batch.size() * 3);
  EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
  EXPECT_EQ(table->FieldSize(0), 3100);
  EXPECT_TRUE(IsExhausted(table->FindOrInsert(Batch({INT64_MAX}).ref(), out.data(), pf), "3100"));
  EXPECT_OK(table->Erase(Batch({-1}).ref(), nullptr, pf));
  EXPECT_OK(table->FindOrInsert(Batch({INT64_MAX}).ref(), out.data(), pf));
}

inline void StopsWhereMemoryEnds(const ScarceTableMaker& make) {
  ScarceMemory memory;
  const TableOptions options = HistoryOptions();
  std::unique_ptr<HashTable> table = TableWithHistory([&](const TableOptions& o) { return make(o, &memory); }, options);
  memory.limit = 50001;
  ExpectAllExhausted(table.get(), "50001", 9000);  // More than slabs that are there already have room for.
  ThreadFor pf(2);
  EXPECT_TRUE(IsExhausted(table->Reserve(1000000, pf), "1000000"));
  EXPECT_TRUE(IsExhausted(table->Import(Borrow(ExportAll(*table, pf)), pf), "50001"));
  memory.limit = INT64_MAX;
  EXPECT_OK(table->Reserve(100000, pf));
  const int64_t capacity = table->Stats().index_capacity;
  std::vector<float> out(90000 * 3);
  EXPECT_OK(table->FindOrInsert(Batch(MakeKeys(Pattern::kRandom, 90000)).ref(), out.data(), pf));
  EXPECT_EQ(table->Stats().index_capacity, capacity);
}

// Fails at the first allocation of a batch, at the second, …, until the batch succeeds.
inline void StopsAtAnyAllocation(const ScarceTableMaker& make) {
  ScarceMemory memory;
  const TableOptions options = HistoryOptions();
  ThreadFor pf(2);
  int64_t failed = 0;
  for (bool done = false; !done; ++failed) {
    std::unique_ptr<HashTable> table =
        TableWithHistory([&](const TableOptions& o) { return make(o, &memory); }, options);
    const TableContents before = ExportAll(*table, pf);
    const Batch batch(MakeKeys(Pattern::kRandom, 6000));
    memory.allocations = failed;
    const Status status = table->Update({batch.ref(), nullptr, nullptr}, RowByRow([](int64_t, float*) {}), pf);
    memory.allocations = INT64_MAX;
    done = status.ok();
    if (done) {
      EXPECT_TRUE(table->Stats().rows > 6000);
      break;
    }
    EXPECT_TRUE(IsExhausted(status, "bytes"));
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    std::vector<float> out(6000 * 3);
    EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));  // What was built aside is no burden.
  }
  EXPECT_TRUE(failed > 4);  // Slabs, index and scratch.
}

inline void RefusesBadBatches(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  ThreadFor pf(2);
  const TableContents before = ExportAll(*table, pf);
  Batch batch;
  for (int64_t i = 0; i < 100; ++i) batch.Add({static_cast<uint32_t>(i == 77 ? 3 : i % 3), i});
  std::vector<float> values(batch.size() * 3);
  std::vector<RowHandle> handles(batch.size());
  const auto update = [](const RowVisit&) {};
  const auto refused = [](const Status& status) {
    return status.code() == StatusCode::kInvalidArgument && status.message().find("user_emb") != std::string::npos;
  };
  const int64_t code = 1;
  EXPECT_TRUE(refused(table->Find(batch.ref(), values.data(), nullptr, pf)));
  EXPECT_TRUE(refused(table->FindHandles(batch.ref(), handles.data(), pf)));
  EXPECT_TRUE(refused(table->Gather(batch.ref(), handles.data(), {{&code, 1, values.data()}}, pf)));
  EXPECT_TRUE(refused(table->FindOrInsert(batch.ref(), values.data(), pf)));
  EXPECT_TRUE(refused(table->InsertOrAssign(batch.ref(), values.data(), pf)));
  EXPECT_TRUE(refused(table->Erase(batch.ref(), nullptr, pf)));
  EXPECT_TRUE(refused(table->Update({batch.ref(), nullptr, nullptr}, update, pf)));
  batch.fields[77] = 0;
  std::vector<int64_t> counts(100, 1);
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    counts[50] = bad;
    EXPECT_TRUE(refused(table->Update({batch.ref(), counts.data(), nullptr}, update, pf)));
  }
  batch.keys[3] = batch.keys[6] = -5;  // New, and twice.
  EXPECT_TRUE(refused(table->Update({batch.ref(), nullptr, nullptr}, update, pf)));
  TableStats stats;
  ContentsIn nothing;
  const auto want_nothing = [](std::vector<ContentsOut>*) { return Status(); };
  EXPECT_TRUE(refused(table->FieldStats(3, &stats)));
  EXPECT_TRUE(refused(table->Clear(3)));
  EXPECT_TRUE(refused(table->Export({0, 3}, want_nothing, pf)));
  EXPECT_TRUE(refused(table->Export({1, 1}, want_nothing, pf)));
  EXPECT_TRUE(refused(table->Import({nothing, nothing}, pf)));
  const auto take_heads = [](const std::vector<ContentsOut>&) { return Status(); };
  const auto take = [](const ContentsPiece&) { return Status(); };
  EXPECT_TRUE(refused(table->ExportPieces({0, 3}, true, take_heads, take, pf)));
  EXPECT_TRUE(refused(table->ExportPieces({1, 1}, true, take_heads, take, pf)));
  const int64_t key = 5;
  EXPECT_TRUE(refused(table->Find({&key, nullptr, 1, 3}, values.data(), nullptr, pf)));
  EXPECT_TRUE(refused(table->Update({{&key, nullptr, 1, 0}, nullptr, nullptr, {1, 2}}, update, pf)));
  EXPECT_TRUE(refused(table->Update({{&key, nullptr, 1, 0}, nullptr, nullptr, {0, 3}}, update, pf)));
  EXPECT_TRUE(refused(table->Update({{&key, nullptr, 1, 0}, nullptr, nullptr, {0, 0}}, update, pf)));
  EXPECT_TRUE(Same(ExportAll(*table, pf), before));
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FAILURES_H_
