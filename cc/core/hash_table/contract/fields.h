// The contract of tables, part 4: a field lives in a fused table as it would in a table of its own.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FIELDS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FIELDS_H_

#include <atomic>
#include <random>
#include <thread>

#include "cc/core/hash_table/contract/failures.h"
#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

// Filters, evictions, seeds and initializers of all kinds.
inline TableOptions MixedFields() {
  TableOptions options = ThreeFields(5, 2);
  options.fields.push_back(options.fields[0]);
  options.fields[0].min_frequency = 3;
  options.fields[0].eviction.max_idle_steps = 4;
  options.fields[1].eviction = {0, 40, EvictionOrder::kLru};
  options.fields[1].seed = 43;
  options.fields[2].min_frequency = 2;
  options.fields[2].eviction = {0, 30, EvictionOrder::kLfu};
  options.fields[3].name = "user_emb_2";
  return options;
}

// One field as a table of its own.
inline TableOptions Alone(const TableOptions& options, uint32_t field) {
  TableOptions alone = options;
  alone.fields = {options.fields[field]};
  return alone;
}

// `field` of a fused table as a table of one field would have it, and the other way round.
inline TableContents As(TableContents contents, uint32_t field) {
  std::fill(contents.fields.begin(), contents.fields.end(), field);
  std::fill(contents.pending_fields.begin(), contents.pending_fields.end(), field);
  return contents;
}

// The same steps on a fused table and on one table a field, with the same ids in all: equal bits, victims and clocks.
// Now and then every field moves from the one to the other, and back.
inline void FieldsLiveAsTheyWouldAlone(const TableMaker& make) {
  const TableOptions options = MixedFields();
  for (const Pattern pattern : kPatterns) {
    const std::vector<int64_t> pool = MakeKeys(pattern, 120);
    std::unique_ptr<HashTable> fused = make(options);
    std::vector<std::unique_ptr<HashTable>> alone;
    for (const uint32_t f : AllFields(*fused)) alone.push_back(make(Alone(options, f)));
    ThreadFor pf(2);
    std::mt19937_64 random(5);
    for (int step = 0; step < Rounds(60); ++step) {
      Batch batch;
      std::vector<int64_t> counts;
      const std::vector<uint32_t> stepping =
          step % 5 == 4 ? std::vector<uint32_t>{1, 3} : std::vector<uint32_t>{3, 2, 1, 0};
      for (const uint32_t f : stepping) {
        Batch own;
        std::vector<int64_t> own_counts;
        for (const int64_t key : pool) {
          if (random() % 3 != 0 || (f == 2 && step % 7 == 3)) continue;  // At times a field has no keys at all.
          own.keys.push_back(key);
          own_counts.push_back(1 + random() % 2);
          batch.Add({f, key});
          counts.push_back(own_counts.back());
        }
        const auto update = [&](int64_t i, float* row) {
          row[i % 15] += static_cast<float>(own.keys[i] % 1000) + step;
        };
        EXPECT_OK(alone[f]->Update({own.ref(), own_counts.data(), nullptr}, RowByRow(update), pf));
      }
      std::map<uint32_t, int64_t> next;
      std::vector<int64_t> own_place;
      for (int64_t i = 0; i < batch.size(); ++i) own_place.push_back(next[batch.fields[i]]++);
      const auto update = [&](int64_t i, float* row) {
        row[own_place[i] % 15] += static_cast<float>(batch.keys[i] % 1000) + step;
      };
      EXPECT_OK(fused->Update({batch.ref(), counts.data(), nullptr, stepping}, RowByRow(update), pf));
      if (step % 10 != 9) continue;
      for (const uint32_t f : AllFields(*fused)) {
        const TableContents apart = As(ExportAll(*alone[f], pf), f), part = ExportFields(*fused, {f}, pf);
        EXPECT_TRUE(SameRows(apart, part, 5));
        TableStats stats;
        EXPECT_OK(fused->FieldStats(f, &stats));
        EXPECT_EQ(stats.evicted, alone[f]->Stats().evicted);
        if (step % 20 == 9) continue;
        EXPECT_OK(alone[f]->Import(Borrow(As(part, 0), {0}), pf));
        EXPECT_OK(fused->Import(Borrow(apart, {f}), pf));
      }
    }
    EXPECT_TRUE(fused->Stats().evicted > 100);
  }
}

// Import of one field fails at the first allocation, at the second, …: every field is as it was.
inline void ImportOfAFieldStopsAtAnyAllocation(const ScarceTableMaker& make) {
  const TableOptions options = HistoryOptions();
  ThreadFor pf(2);
  const TableContents big = [&] {
    std::unique_ptr<HashTable> table = make(options, nullptr);
    const Batch batch(MakeKeys(Pattern::kRandom, 9000));
    EXPECT_OK(table->Update({batch.ref(), nullptr, nullptr}, RowByRow([](int64_t, float*) {}), pf));
    return ExportFields(*table, {0}, pf);
  }();
  int64_t failed = 0;
  for (bool done = false; !done; ++failed) {
    ScarceMemory memory;
    std::unique_ptr<HashTable> table =
        TableWithHistory([&](const TableOptions& o) { return make(o, &memory); }, options);
    const TableContents before = ExportAll(*table, pf), others = ExportFields(*table, {1, 2}, pf);
    memory.allocations = failed;
    const Status status = table->Import(Borrow(big, {0}), pf);
    memory.allocations = INT64_MAX;
    done = status.ok();
    if (done) {
      EXPECT_EQ(table->FieldSize(0), 9000);
      EXPECT_TRUE(SameRows(ExportFields(*table, {1, 2}, pf), others, 3));
      break;
    }
    EXPECT_TRUE(IsExhausted(status, "bytes"));
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    EXPECT_OK(table->Import(Borrow(big, {0}), pf));
  }
  EXPECT_TRUE(failed > 4);
}

// A field's keys, in a table that is made for it; readers see the old field or the new one, and the others all the
// while.
inline void ReadersSeeAFieldChangeAtOnce(const TableMaker& make) {
  TableOptions options = ThreeFields(4, 0);
  for (FieldOptions& field : options.fields) field.initializer = {InitializerKind::kConstant, 0.0f, 0.0f};
  std::unique_ptr<HashTable> table = make(options);
  const int64_t num_keys = Rounds(2000);  // One visit to the room.
  const std::vector<int64_t> keys = MakeKeys(Pattern::kRandom, num_keys);
  const auto contents_of = [&](uint32_t field, float value) {
    TableContents contents;
    contents.dim = 4;
    contents.keys = keys;
    contents.fields.assign(keys.size(), field);
    contents.values.assign(keys.size() * 4, value);
    contents.frequencies.assign(keys.size(), 1);
    contents.last_steps.assign(keys.size(), 0);
    contents.steps = {0};
    contents.seeds = {1};
    return contents;
  };
  SerialFor serial;
  for (const uint32_t field : {0u, 1u, 2u}) {
    EXPECT_OK(table->Import(Borrow(contents_of(field, 10.0f + field), {field}), serial));
  }
  std::atomic<bool> stop{false};
  const auto read = [&] {
    SerialFor pf;
    std::vector<float> out(keys.size() * 4);
    std::vector<RowHandle> handles(keys.size());
    std::vector<int64_t> codes(keys.size());
    std::iota(codes.begin(), codes.end(), int64_t{1});
    bool right = true;
    while (!stop) {
      for (const uint32_t field : {0u, 1u, 2u}) {
        const KeyBatch batch = {keys.data(), nullptr, static_cast<int64_t>(keys.size()), field};
        EXPECT_OK(table->FindHandles(batch, handles.data(), pf));
        EXPECT_OK(table->Gather(batch, handles.data(), {{codes.data(), batch.size, out.data()}}, pf));
        const float first = out[0];
        for (const float value : out) right &= value == first;
        right &= field == 1 ? first >= 11.0f : first == 10.0f + field;
      }
    }
    EXPECT_TRUE(right);
  };
  std::thread readers[] = {std::thread(read), std::thread(read)};
  for (int round = 0; round < Rounds(60); ++round) {
    ThreadFor pf(2);
    EXPECT_OK(table->Import(Borrow(contents_of(1, 11.0f + round), {1}), pf));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(table->Stats().rows, 3 * num_keys);
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_FIELDS_H_
