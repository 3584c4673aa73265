// The contract of tables, part 5: a long random life, and many threads doing all sorts of things at once.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_LONG_RUNS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_LONG_RUNS_H_

#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/threads.h"

namespace tf_booster::contract {

// A million operations on keys, each followed by a find, against the model: one field grows up to some twenty thousand
// rows and starts anew when it is cleared, the others evict in nearly every step.
inline void AMillionOperations(const TableMaker& make) {
#if defined(__SANITIZE_THREAD__)
  constexpr int kRounds = 50;  // Threads are not the point here, and a round takes twenty times as long.
#else
  constexpr int kRounds = 1000;
#endif
  TableOptions options = ThreeFields(2);
  options.fields[0].eviction = {0, 2500, EvictionOrder::kLru};
  options.fields[1].min_frequency = 2;
  options.fields[1].eviction = {0, 1500, EvictionOrder::kLfu};
  RunRandomOperations(make, options, Pattern::kRandom, 2, kRounds, /*pool_size=*/20000, /*max_batch=*/2000);
}

// What a row of the test below holds after n updates: n in the embedding and in slot 0, and in slot 1 what tells keys
// apart. Without an update all are 0.
inline float MarkOf(int64_t key, float n) { return n == 0.0f ? 0.0f : n + static_cast<float>(key * 1024); }

// Embedding, slots and counts of one key belong together, in exports and finds that run beside inserts, updates and
// erases. A key that came by an insert has one sighting more than updates.
inline void RowsBelongTogether(const TableMaker& make) {
  constexpr int64_t kDim = 12, kKeys = 3000, kBatch = 700;
  TableOptions options = OneField(kDim, 2);
  options.fields[0].initializer = {InitializerKind::kConstant, 0.0f, 0.0f};
  options.slot_initial_values = {0.0f, 0.0f};
  std::unique_ptr<HashTable> table = make(options);
  const auto batch_of = [=](int64_t start, int64_t size) {
    Batch batch;
    for (int64_t i = 0; i < size; ++i) batch.keys.push_back((start + i * 3) % kKeys);
    return batch;
  };
  const auto expect_equal = [](const std::vector<float>& rows) {
    bool equal = true;
    for (size_t i = 0; i < rows.size(); ++i) equal &= rows[i] == rows[i - i % kDim];
    EXPECT_TRUE(equal);
  };
  const auto expect_together = [&](const TableContents& rows) {
    expect_equal(rows.values);
    bool together = true;
    for (size_t i = 0; i < rows.values.size(); ++i) {
      const size_t row = i / kDim;
      const int64_t updates = static_cast<int64_t>(rows.values[i]);
      together &= rows.slots[0][i] == rows.values[i] && rows.slots[1][i] == MarkOf(rows.keys[row], rows.values[i]);
      together &= rows.frequencies[row] == updates || rows.frequencies[row] == updates + 1;
    }
    EXPECT_TRUE(together);
    std::vector<int64_t> keys = rows.keys;
    std::sort(keys.begin(), keys.end());
    EXPECT_TRUE(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
  };
  std::atomic<int64_t> turn{0};  // Workers of one kind take different keys.
  const auto update = [&](int round) {
    ThreadFor pf(1 + round % 2);
    const Batch batch = batch_of(turn += 37, kBatch);
    std::vector<RowHandle> handles(kBatch);  // Others insert and erase between lookup and update.
    EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
    const auto add_one = [&](int64_t i, float* row) {
      const float n = row[0] + 1.0f;
      std::fill_n(row, 2 * kDim, n);
      std::fill_n(row + 2 * kDim, kDim, MarkOf(batch.keys[i], n));
    };
    const RowHandle* const located = round % 3 == 0 ? nullptr : handles.data();
    EXPECT_OK(table->Update({batch.ref(), nullptr, located}, RowByRow(add_one), pf));
  };
  const auto insert = [&](int) {
    ThreadFor pf(2);
    std::vector<float> out(kBatch * kDim);
    EXPECT_OK(table->FindOrInsert(batch_of(turn += 101, kBatch).ref(), out.data(), pf));
    expect_equal(out);
  };
  const auto erase = [&](int) {
    SerialFor pf;
    EXPECT_OK(table->Erase(batch_of(turn += 11, 150).ref(), nullptr, pf));
  };
  const auto find = [&](int) {
    SerialFor pf;
    std::vector<float> out(kBatch * kDim);
    EXPECT_OK(table->Find(batch_of(turn += 53, kBatch).ref(), out.data(), nullptr, pf));
    expect_equal(out);
  };
  const auto gather = [&](int) {
    SerialFor pf;
    const Batch batch = batch_of(turn += 7, kBatch);
    std::vector<RowHandle> handles(kBatch);
    std::vector<int64_t> codes(kBatch);
    std::iota(codes.begin(), codes.end(), 1);
    std::vector<float> out(kBatch * kDim);
    EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf));
    EXPECT_OK(table->Gather(batch.ref(), handles.data(), {{codes.data(), kBatch, out.data()}}, pf));
    expect_equal(out);
  };
  const auto export_all = [&](int) {
    ThreadFor pf(2);
    expect_together(ExportAll(*table, pf));
  };
  const auto export_by_pieces = [&](int) {
    SerialFor pf;
    expect_together(ExportByPieces(*table, {0}, true, pf));
  };
  RunAtOnce(12, {update, update, update, update, insert, insert, insert, erase, erase, find, find, gather, gather,
                 export_all, export_all, export_by_pieces});
  SerialFor pf;
  expect_together(ExportAll(*table, pf));
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_LONG_RUNS_H_
