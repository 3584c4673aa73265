// The contract of tables, part 4: everything at once from several threads. Run it under ThreadSanitizer.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_THREADS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_THREADS_H_

#include <atomic>
#include <thread>

#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

// Runs each worker `rounds` times, all at once.
inline void RunAtOnce(int rounds, std::vector<std::function<void(int round)>> workers) {
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&worker, rounds] {
      for (int round = 0; round < rounds; ++round) worker(round);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Writers leave rows whose columns are all equal. A reader that sees two values in one row has seen it torn.
inline void ReadersSeeWholeRows(const TableMaker& make) {
  constexpr int64_t kDim = 40;
  TableOptions options = OneField(kDim);
  options.fields[0].initializer = {InitializerKind::kConstant, 0.5f, 0.0f};
  std::unique_ptr<HashTable> table = make(options);
  const auto batch_of = [](int round) {
    Batch batch;
    for (int64_t i = 0; i < 1500; ++i) batch.keys.push_back((round * 37 + i) % 2500);
    return batch;
  };
  const auto expect_whole = [](const std::vector<float>& rows) {
    bool whole = true;
    for (size_t i = 0; i < rows.size(); ++i) whole &= rows[i] == rows[i - i % kDim];
    EXPECT_TRUE(whole);
  };
  const auto update = [&](int round) {
    ThreadFor pf(2);
    EXPECT_OK(table->Update({batch_of(round).ref(), nullptr, nullptr}, RowByRow([&](int64_t i, float* row) {
                              for (int64_t c = 0; c < 2 * kDim; ++c) {
                                row[c] = static_cast<float>(round + 1);
                                if (c == kDim / 2 && i % 32 == 0) std::this_thread::yield();  // A chance to look.
                              }
                            }),
                            pf));
  };
  const auto assign = [&](int round) {
    ThreadFor pf(2);
    const Batch batch = batch_of(round * 3);
    std::vector<float> values;
    for (int64_t i = 0; i < batch.size(); ++i) values.insert(values.end(), kDim, static_cast<float>(i));
    EXPECT_OK(table->InsertOrAssign(batch.ref(), values.data(), pf));
  };
  const auto insert = [&](int round) {
    SerialFor pf;
    const Batch batch = batch_of(round * 5);
    std::vector<float> out(batch.size() * kDim);
    EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
    expect_whole(out);
  };
  const auto insert_many = [&](int round) {  // More than a part, on several threads.
    ThreadFor pf(2);
    Batch batch;
    for (int64_t i = 0; i < 4500; ++i) batch.keys.push_back((round * 91 + i * 5) % 6000);
    std::vector<float> out(batch.size() * kDim);
    EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
    expect_whole(out);
  };
  const auto erase = [&](int round) {
    SerialFor pf;
    Batch batch = batch_of(round * 7);
    batch.keys.resize(100);
    EXPECT_OK(table->Erase(batch.ref(), nullptr, pf));
  };
  const auto find = [&](int round) {
    ThreadFor pf(2);
    const Batch batch = batch_of(round * 11);
    std::vector<float> out(batch.size() * kDim);
    std::vector<uint8_t> found(batch.size());
    EXPECT_OK(table->Find(batch.ref(), out.data(), found.data(), pf));
    expect_whole(out);
  };
  const auto gather = [&](int round) {
    SerialFor pf;
    const Batch batch = batch_of(round * 13);
    std::vector<RowHandle> handles(batch.size());
    std::vector<int64_t> codes(batch.size());
    for (int64_t i = 0; i < batch.size(); ++i) codes[i] = i + 1;
    std::vector<float> out(batch.size() * kDim);
    EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
    EXPECT_OK(table->Gather(batch.ref(), handles.data(), {{codes.data(), batch.size(), out.data()}}, pf));
    expect_whole(out);
  };
  const auto rest = [&](int round) {
    SerialFor pf;
    const TableContents contents = ExportAll(*table, pf);
    expect_whole(contents.values);
    expect_whole(ExportByPieces(*table, {0}, true, pf).values);
    EXPECT_OK(table->Reserve(100 * round, pf));
    EXPECT_TRUE(table->Stats().rows >= 0 && table->FieldSize(0) >= 0);
    if (round % 4 == 1) EXPECT_OK(table->Import(Borrow(contents), pf));
    if (round % 4 == 3) EXPECT_OK(table->Clear(0));
  };
  RunAtOnce(20, {update, assign, insert, insert_many, erase, find, find, gather, gather, rest});
  // And what is left is in order.
  SerialFor pf;
  const TableContents contents = ExportAll(*table, pf);
  EXPECT_EQ(RowsOf(contents, kDim).size(), contents.keys.size());
  EXPECT_EQ(table->Stats().rows, static_cast<int64_t>(contents.keys.size()));
}

// Steps from several threads are all applied, each once.
inline void NoUpdateIsLost(const TableMaker& make) {
  TableOptions options = OneField(4, 0);
  options.fields[0].initializer = {InitializerKind::kConstant, 0.0f, 0.0f};
  std::unique_ptr<HashTable> table = make(options);
  const Batch batch(MakeKeys(Pattern::kRandom, 3000));
  const std::vector<RowHandle> unknown(batch.size(), kNoRow);  // As all were looked up before anyone had a row.
  const auto add = [&](int round) {
    ThreadFor pf(2);
    const RowHandle* const located = round % 2 == 0 ? unknown.data() : nullptr;
    EXPECT_OK(table->Update({batch.ref(), nullptr, located}, RowByRow([](int64_t, float* row) {
                              for (int c = 0; c < 4; ++c) row[c] += 1.0f;
                            }),
                            pf));
  };
  RunAtOnce(10, {add, add, add});
  SerialFor pf;
  const TableContents contents = ExportAll(*table, pf);
  EXPECT_EQ(contents.keys.size(), size_t{3000});
  EXPECT_TRUE(contents.values == std::vector<float>(3000 * 4, 30.0f));
  EXPECT_TRUE(contents.frequencies == std::vector<int64_t>(3000, 30));
  EXPECT_EQ(table->Stats().step, 30);
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_THREADS_H_
