// The contract of tables, part 1: finding, inserting, assigning, erasing, updating, handles, growth.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_BASICS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_BASICS_H_

#include <random>

#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

// A row's update that depends on the batch's place and on what the row held, so that a wrong, missed or doubled one
// shows.
inline void TestUpdate(int64_t position, float* values, int64_t n) {
  for (int64_t c = 0; c < n; ++c) values[c] = values[c] * 0.5f + static_cast<float>(position + c % 3);
}

// Random operations on random batches (duplicates in them) against the model.
inline void RunRandomOperations(const TableMaker& make, const TableOptions& options, Pattern pattern, int threads,
                                int rounds, int64_t pool_size = 300, int64_t max_batch = 200) {
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  ThreadFor pf(threads);
  std::mt19937_64 random(options.dim * 100 + threads);
  const std::vector<int64_t> pool = MakeKeys(pattern, pool_size);
  const auto draw = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = Rounds(rounds); round-- > 0;) {
    Batch batch;
    for (int64_t i = draw(max_batch); i >= 0; --i) {
      batch.Add({static_cast<uint32_t>(draw(options.fields.size())), pool[draw(pool.size())]});
    }
    const std::vector<FieldKey> keys = batch.all();
    std::vector<float> values(batch.size() * options.dim);
    switch (draw(8)) {
      case 0: {
        EXPECT_OK(table->FindOrInsert(batch.ref(), values.data(), pf));
        for (const FieldKey& key : keys) model.Insert(key);
        std::vector<float> again(values.size());
        EXPECT_OK(table->Find(batch.ref(), again.data(), nullptr, pf));
        EXPECT_TRUE(values == again);
        break;
      }
      case 1:
        for (float& value : values) value = static_cast<float>(draw(1000));
        EXPECT_OK(table->InsertOrAssign(batch.ref(), values.data(), pf));
        for (size_t i = 0; i < keys.size(); ++i) model.Assign(keys[i], &values[i * options.dim]);
        break;
      case 2: {
        int64_t erased = -1, expected = 0;
        batch.keys.resize(1 + batch.size() / 4);
        batch.fields.resize(batch.keys.size());
        for (const FieldKey& key : batch.all()) expected += model.Erase(key);
        EXPECT_OK(table->Erase(batch.ref(), &erased, pf));
        EXPECT_EQ(erased, expected);
        break;
      }
      case 3: {  // A field goes out and comes back, thinned out and later; other fields stay.
        const uint32_t field = static_cast<uint32_t>(draw(options.fields.size()));
        if (draw(4) == 0) {
          EXPECT_OK(table->Clear(field));
          model.Clear(field);
          break;
        }
        TableContents contents = ExportFields(*table, {field}, pf);
        EXPECT_EQ(static_cast<int64_t>(contents.keys.size()), model.FieldSize(field));
        const Borrow whole(contents, {field});
        ContentsIn in = whole.refs[0];
        for (; in.rows > 0 && draw(3) > 0; --in.rows) model.rows.erase({field, in.keys[in.rows - 1]});
        for (; in.pending > 0 && draw(3) > 0; --in.pending)
          model.pending.erase({field, in.pending_keys[in.pending - 1]});
        model.steps[field] = in.step += 2;
        EXPECT_OK(table->Import({in}, pf));
        break;
      }
      default: {
        std::vector<uint32_t> stepping;
        for (const uint32_t field : AllFields(*table)) {
          if (draw(3) > 0) stepping.push_back(field);
        }
        const auto steps = [&](uint32_t f) { return std::count(stepping.begin(), stepping.end(), f) > 0; };
        std::map<FieldKey, int64_t> counted;
        for (const FieldKey& key : keys) {
          if (stepping.empty() || steps(key.first)) ++counted[key];
        }
        Batch distinct;
        std::vector<int64_t> counts;
        for (const auto& [key, count] : counted) {
          distinct.Add(key);
          counts.push_back(count);
        }
        std::vector<RowHandle> handles(distinct.size());
        EXPECT_OK(table->FindHandles(distinct.ref(), handles.data(), pf));
        const int64_t width = (1 + options.slot_initial_values.size()) * options.dim;
        const auto update = [&](int64_t i, float* row) { TestUpdate(i, row, width); };
        const bool with_handles = draw(2) == 0;
        EXPECT_OK(table->Update({distinct.ref(), counts.data(), with_handles ? handles.data() : nullptr, stepping},
                                RowByRow(update), pf));
        model.Update(distinct.all(), counts, update, stepping);
      }
    }
    ExpectFinds(*table, model, batch, pf);
  }
  ExpectSame(*table, model, pf);
}

inline void RandomOperations(const TableMaker& make) {
  for (const int64_t dim : {1, 3, 4, 16, 64, 200}) {
    for (const Pattern pattern : kPatterns) {
      RunRandomOperations(make, OneField(dim, dim % 3), pattern, 1 + dim % 4, 40);
    }
  }
}

inline void RandomOperationsWithPolicies(const TableMaker& make) {
  for (const Pattern pattern : kPatterns) {
    TableOptions options = ThreeFields(5, 2);
    options.fields[0].min_frequency = 3;
    options.fields[0].eviction.max_idle_steps = 4;
    options.fields[1].eviction = {0, 40, EvictionOrder::kLru};
    options.fields[2].min_frequency = 2;
    options.fields[2].eviction = {0, 30, EvictionOrder::kLfu};
    for (const int threads : {1, 3}) RunRandomOperations(make, options, pattern, threads, 150);
  }
}

// One key more at a time, past every size at which something grows.
inline void GrowsOneByOne(const TableMaker& make) {
  const TableOptions options = OneField(3);
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  SerialFor pf;
  Batch all;
  for (const int64_t key : MakeKeys(Pattern::kRandom, 1500)) {
    const Batch one({key});
    std::vector<float> out(3);
    EXPECT_OK(table->FindOrInsert(one.ref(), out.data(), pf));
    model.Insert(one.at(0));
    all.keys.push_back(key);
    if (all.size() % 97 == 0 || (all.size() & (all.size() - 1)) == 0) ExpectFinds(*table, model, all, pf);
  }
  ExpectSame(*table, model, pf);
}

// One batch that makes a small table large, more than one visit of a room and one slab.
inline void GrowsInOneBatch(const TableMaker& make) {
  const TableOptions options = OneField(2);
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  ThreadFor pf(3);
  const Batch batch(MakeKeys(Pattern::kRandom, 70000));
  std::vector<float> out(batch.size() * 2);
  EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
  for (const FieldKey& key : batch.all()) model.Insert(key);
  ExpectSame(*table, model, pf);
  ExpectFinds(*table, model, batch, pf);
}

// Erasing and inserting for ever must not fill the index with tombstones, nor take ever more rows.
inline void ErasesAndInsertsForever(const TableMaker& make) {
  std::unique_ptr<HashTable> table = make(OneField(4));
  SerialFor pf;
  int64_t bytes = 0;
  for (int round = 0; round < Rounds(400); ++round) {
    const Batch batch(MakeKeys(Pattern::kRandom, 100, round));
    std::vector<float> out(batch.size() * 4);
    int64_t erased = 0;
    EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
    EXPECT_OK(table->Erase(batch.ref(), &erased, pf));
    EXPECT_EQ(erased, 100);
    if (round == 50) bytes = table->Stats().bytes;
  }
  EXPECT_TRUE(table->Stats().bytes <= 2 * bytes);
  EXPECT_EQ(table->Stats().rows, 0);
}

// Of duplicates the last value counts, however many threads share the batch.
inline void LastOfDuplicatesWins(const TableMaker& make) {
  const TableOptions options = OneField(4);
  for (const int threads : {1, 4}) {
    std::unique_ptr<HashTable> table = make(options);
    TableModel model(options);
    ThreadFor pf(threads);
    for (int round = 0; round < 2; ++round) {  // On new keys, then on known ones.
      Batch batch;
      std::vector<float> values;
      for (int64_t i = 0; i < 20000; ++i) {
        batch.keys.push_back(i * i % 501);
        values.insert(values.end(), 4, static_cast<float>(i + round));
        model.Assign({0, batch.keys.back()}, &values[i * 4]);
      }
      EXPECT_OK(table->InsertOrAssign(batch.ref(), values.data(), pf));
      ExpectSame(*table, model, pf);
    }
  }
}

// Nothing of a batch may depend on the number of threads: not the rows, nor their order.
inline void ThreadsLeaveNoTrace(const TableMaker& make) {
  TableOptions options = ThreeFields(6);
  options.fields[0].eviction = {0, 900, EvictionOrder::kLru};
  options.fields[1].eviction = {0, 800, EvictionOrder::kLfu};
  options.fields[2].min_frequency = 2;
  TableContents first;
  for (const int threads : {1, 2, 5}) {
    std::unique_ptr<HashTable> table = make(options);
    ThreadFor pf(threads);
    for (int step = 0; step < 12; ++step) {
      std::map<FieldKey, int64_t> counted;
      for (int64_t i = 0; i < 3000; ++i) {
        const uint64_t draw = Mix64(step * 10007 + i);
        ++counted[{draw % 3, static_cast<int64_t>(draw >> 8) % 2000}];
      }
      Batch batch;
      std::vector<int64_t> counts;
      for (const auto& [key, count] : counted) {
        batch.Add(key);
        counts.push_back(count);
      }
      EXPECT_OK(table->Update({batch.ref(), counts.data(), nullptr},
                              RowByRow([](int64_t i, float* row) { TestUpdate(i, row, 12); }), pf));
    }
    EXPECT_TRUE(table->Stats().evicted > 1000);
    const TableContents contents = ExportAll(*table, pf);
    if (threads == 1) first = contents;
    EXPECT_TRUE(Same(contents, first));
  }
}

inline void HandlesAreNeverWrong(const TableMaker& make) {
  const TableOptions options = OneField(4);
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  ThreadFor pf(2);
  const Batch batch(MakeKeys(Pattern::kExtreme, 400)), others(MakeKeys(Pattern::kRandom, 400));
  std::vector<float> out(batch.size() * 4);
  std::vector<int64_t> codes;
  for (int64_t i = 0; i < batch.size(); ++i) codes.push_back((int64_t{i % 5} << 40) | (i + 1));
  codes.push_back(0);
  std::vector<RowHandle> handles(batch.size());
  const auto expect_gathers = [&](const char* when) {
    std::vector<float> gathered(codes.size() * 4, -7.0f);
    const int64_t half = batch.size() / 3, rest = static_cast<int64_t>(codes.size()) - half;
    const std::vector<GatherPart> parts = {
        {codes.data(), half, gathered.data()}, {}, {codes.data() + half, rest, gathered.data() + half * 4}};
    EXPECT_OK(table->Gather(batch.ref(), handles.data(), parts, pf));
    bool same = true;
    for (int64_t i = 0; i < batch.size(); ++i) {
      same &= std::vector<float>(&gathered[i * 4], &gathered[i * 4] + 4) == model.Find(batch.at(i));
    }
    same &= std::vector<float>(gathered.end() - 4, gathered.end()) == std::vector<float>(4, 0.0f);
    EXPECT_EQ(std::string(same ? when : "wrong rows"), when);
  };
  const auto find_handles = [&] { EXPECT_OK(table->FindHandles(batch.ref(), handles.data(), pf)); };
  const auto insert = [&](const Batch& keys) {
    std::vector<float> values(keys.size() * 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + keys.keys[0] % 7;
    EXPECT_OK(table->InsertOrAssign(keys.ref(), values.data(), pf));
    for (int64_t i = 0; i < keys.size(); ++i) model.Assign(keys.at(i), &values[i * 4]);
  };
  const auto erase = [&](const Batch& keys) {
    EXPECT_OK(table->Erase(keys.ref(), nullptr, pf));
    for (const FieldKey& key : keys.all()) model.Erase(key);
  };

  find_handles();
  EXPECT_EQ(handles[0], kNoRow);
  expect_gathers("no rows yet");
  insert(batch);
  expect_gathers("handles older than the rows");
  find_handles();
  expect_gathers("fresh handles");
  insert(others);
  expect_gathers("handles older than growth");
  erase(batch);
  expect_gathers("rows erased");
  insert(others);
  insert(Batch(MakeKeys(Pattern::kSequential, 300)));
  expect_gathers("rows given to other keys");
  insert(batch);
  expect_gathers("keys back in other rows");
  erase(batch);
  insert(batch);
  expect_gathers("keys back, perhaps in their rows");
  for (RowHandle& handle : handles) handle = static_cast<RowHandle>(static_cast<uint64_t>(handle) * 3 + 1);
  expect_gathers("handles that nobody gave");
  find_handles();
  EXPECT_OK(table->Clear(0));
  model.rows.clear();
  expect_gathers("table cleared");
  find_handles();
  insert(others);
  insert(batch);
  expect_gathers("after clear and insert");

  // Stale handles in an update: every row of the batch is updated, and no other.
  std::vector<RowHandle> stale(batch.size());
  EXPECT_OK(table->FindHandles(batch.ref(), stale.data(), pf));
  erase(batch);
  insert(Batch(MakeKeys(Pattern::kSequential, 350)));
  const auto update = [](int64_t i, float* row) { TestUpdate(i, row, 8); };
  EXPECT_OK(table->Update({batch.ref(), nullptr, stale.data()}, RowByRow(update), pf));
  model.Update(batch.all(), std::vector<int64_t>(batch.size(), 1), update);
  ExpectSame(*table, model, pf);
}

inline void GatherRefusesUnknownCodes(const TableMaker& make) {
  std::unique_ptr<HashTable> table = make(OneField(4));
  SerialFor pf;
  const Batch batch({5, 6});
  const std::vector<RowHandle> handles(2, kNoRow);
  const int64_t codes[] = {1, 3};
  std::vector<float> out(8);
  const Status status =
      table->Gather(batch.ref(), handles.data(), {{codes, 1, out.data()}, {codes + 1, 1, out.data() + 4}}, pf);
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
  EXPECT_TRUE(status.message().find("user_emb") != std::string::npos);
}

inline void EmptyBatches(const TableMaker& make) {
  std::unique_ptr<HashTable> table = make(OneField(4));
  ThreadFor pf(2);
  const KeyBatch none;
  int64_t erased = -1;
  EXPECT_OK(table->Find(none, nullptr, nullptr, pf));
  EXPECT_OK(table->FindOrInsert(none, nullptr, pf));
  EXPECT_OK(table->InsertOrAssign(none, nullptr, pf));
  EXPECT_OK(table->Erase(none, &erased, pf));
  EXPECT_OK(table->Gather(none, nullptr, {}, pf));
  EXPECT_OK(table->Gather(none, nullptr, {{}, {}}, pf));
  EXPECT_OK(table->Update({}, RowByRow([](int64_t, float*) {}), pf));
  EXPECT_EQ(erased, 0);
  EXPECT_EQ(table->Stats().step, 1);
  EXPECT_EQ(table->Stats().bytes, 0);
  EXPECT_EQ(ExportByPieces(*table, {0}, true, pf).keys.size(), size_t{0});
  EXPECT_EQ(ExportAll(*table, pf).keys.size(), size_t{0});
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_BASICS_H_
