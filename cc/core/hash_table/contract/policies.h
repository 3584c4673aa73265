// The contract of tables, part 2: admission, eviction, export and import.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_POLICIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_POLICIES_H_

#include <set>

#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

inline void AddOne(int64_t, float* row) { row[0] += 1.0f; }

// One step on keys that were seen `counts` times, on table and model; returns the places that were updated.
inline std::set<int64_t> Step(HashTable* table, TableModel* model, const Batch& batch,
                              const std::vector<int64_t>& counts, ParallelFor& pf) {
  std::set<int64_t> updated;
  SerialFor serial;
  EXPECT_OK(table->Update({batch.ref(), counts.data(), nullptr}, RowByRow([&](int64_t i, float* row) {
                            AddOne(i, row);
                            updated.insert(i);
                          }),
                          serial));
  if (model != nullptr) {
    model->Update(batch.all(), counts, AddOne);
    ExpectSame(*table, *model, pf);
  }
  return updated;
}

inline void AdmitsWithTheNthSighting(const TableMaker& make) {
  TableOptions options = OneField(4);
  options.fields[0].min_frequency = 5;
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  ThreadFor pf(2);
  using Places = std::set<int64_t>;
  const Batch keys({10, 20, 30, INT64_MIN});
  EXPECT_TRUE(Step(table.get(), &model, keys, {1, 4, 5, 9}, pf) == (Places{2, 3}));  // The batch's own sightings count.
  EXPECT_EQ(table->Stats().pending, 2);
  ExpectFinds(*table, model, keys, pf);  // Pending keys read as their initial values, and are not found.
  EXPECT_TRUE(Step(table.get(), &model, keys, {3, 1, 1, 1}, pf) == (Places{1, 2, 3}));
  std::vector<float> out(16);
  for (int i = 0; i < 10; ++i) EXPECT_OK(table->Find(keys.ref(), out.data(), nullptr, pf));  // Finding counts nothing.
  ExpectSame(*table, model, pf);

  EXPECT_OK(table->Erase(Batch({10}).ref(), nullptr, pf));  // Erasing forgets the four sightings.
  model.Erase({0, 10});
  EXPECT_TRUE(Step(table.get(), &model, Batch({10}), {4}, pf) == Places{});
  EXPECT_TRUE(Step(table.get(), &model, Batch({10}), {1}, pf) == Places{0});

  // Inserting by name passes the filter, and the frequency starts at 1.
  EXPECT_TRUE(Step(table.get(), &model, Batch({50, 60}), {4, 4}, pf) == Places{});
  EXPECT_OK(table->FindOrInsert(Batch({50}).ref(), out.data(), pf));
  EXPECT_OK(table->InsertOrAssign(Batch({60}).ref(), out.data(), pf));
  model.Insert({0, 50});
  model.Assign({0, 60}, out.data());
  ExpectSame(*table, model, pf);
  EXPECT_EQ(table->Stats().pending, 0);
}

// Counts up to the greatest min_frequency are exact and never become another state.
inline void CountsFarUp(const TableMaker& make) {
  TableOptions options = OneField(1);
  options.fields[0].min_frequency = (int64_t{1} << 31) - 1;
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  SerialFor pf;
  const Batch keys({1, 2});
  Step(table.get(), &model, keys, {(int64_t{1} << 31) - 2, 1}, pf);
  Step(table.get(), &model, keys, {1, 2}, pf);
  Step(table.get(), &model, keys, {1, INT64_MAX - 7}, pf);
  EXPECT_EQ(table->Stats().rows, 2);
}

// Frequencies and last-use steps are exact beyond 31 and 32 bits: of rows that grow that far, leave, come back or come
// by an import, and in the order in which rows leave.
inline void CountsOfAnySize(const TableMaker& make) {
  constexpr int64_t kBig = int64_t{1} << 31;
  TableOptions options = OneField(2);
  options.fields[0].eviction = {0, 6, EvictionOrder::kLfu};
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  ThreadFor pf(2);
  const Batch keys({1, 2, 3, 4, 5, 6});
  for (const int64_t more : {int64_t{1}, kBig - 2, int64_t{1}, 2 * kBig, INT64_MAX - 5 * kBig}) {
    Step(table.get(), &model, keys, {kBig - 2, kBig - 1, kBig, 2 * kBig - 1, more, 1}, pf);
  }
  Step(table.get(), &model, Batch({7, 8}), {9 * kBig, 3}, pf);  // Two leave: 8 and 6.
  EXPECT_EQ(table->FieldSize(0), 6);
  for (int round = 0; round < 3; ++round) {  // Rows that had high counts are taken by others.
    EXPECT_OK(table->Erase(Batch({1, 2, 7}).ref(), nullptr, pf));
    for (const int64_t key : {1, 2, 7}) model.Erase({0, key});
    Step(table.get(), &model, Batch({11, 12, 1, 2, 7}), {3, kBig, kBig - 1, 2, INT64_MAX}, pf);
  }
  TableContents contents = ExportAll(*table, pf);
  contents.steps[0] = 4 * kBig;
  for (size_t i = 0; i < contents.last_steps.size(); ++i) contents.last_steps[i] = kBig / 2 * static_cast<int64_t>(i);
  EXPECT_OK(table->Import(Borrow(contents), pf));
  EXPECT_TRUE(Same(ExportAll(*table, pf), contents));
  Step(table.get(), nullptr, Batch({1, 2, 7}), {1, 1, 1}, pf);
  const TableContents after = ExportAll(*table, pf);
  for (size_t i = 0; i < after.keys.size(); ++i) {
    const bool used = after.keys[i] == 1 || after.keys[i] == 2 || after.keys[i] == 7;
    if (used) EXPECT_EQ(after.last_steps[i], 4 * kBig + 1);
    const size_t was = std::find(contents.keys.begin(), contents.keys.end(), after.keys[i]) - contents.keys.begin();
    if (!used && was < contents.keys.size()) EXPECT_EQ(after.last_steps[i], contents.last_steps[was]);
  }
}

inline void EvictsTheIdle(const TableMaker& make) {
  TableOptions options = OneField(2);
  options.fields[0].eviction.max_idle_steps = 3;
  std::unique_ptr<HashTable> table = make(options);
  TableModel model(options);
  SerialFor pf;
  Step(table.get(), &model, Batch({1, 2, 3}), {1, 1, 1}, pf);
  Step(table.get(), &model, Batch({2}), {1}, pf);
  Step(table.get(), &model, Batch({4}), {1}, pf);
  EXPECT_EQ(table->Stats().rows, 4);
  Step(table.get(), &model, Batch({4}), {1}, pf);  // 1 and 3 were not used in the last three steps.
  EXPECT_EQ(table->Stats().rows, 2);
  EXPECT_EQ(table->Stats().evicted, 2);
  Step(table.get(), &model, Batch(), {}, pf);
  EXPECT_EQ(table->Stats().rows, 1);
  Step(table.get(), &model, Batch({1}), {1}, pf);  // An evicted key may come back, in a row of its own.
}

inline void EvictsDownToMaxRows(const TableMaker& make) {
  for (const EvictionOrder order : {EvictionOrder::kLru, EvictionOrder::kLfu}) {
    TableOptions options = OneField(2);
    options.fields[0].eviction = {0, 100, order};
    std::unique_ptr<HashTable> table = make(options);
    TableModel model(options);
    ThreadFor pf(2);
    for (int step = 0; step < 40; ++step) {
      std::set<int64_t> keys;
      for (int64_t i = 0; i < 60; ++i) keys.insert(Mix64(step * 64 + i) % (20 + 30 * (i % 7)));
      const Batch batch(std::vector<int64_t>(keys.begin(), keys.end()));
      std::vector<int64_t> counts;
      for (const int64_t key : keys) counts.push_back(1 + key % 3);
      Step(table.get(), &model, batch, counts, pf);
      if (step % 10 == 7) {  // Rows erased by hand leave entries behind that must not evict anybody.
        const Batch gone({*keys.begin(), *keys.rbegin()});
        EXPECT_OK(table->Erase(gone.ref(), nullptr, pf));
        EXPECT_OK(table->FindOrInsert(Batch({*keys.begin()}).ref(), std::vector<float>(2).data(), pf));
        for (const FieldKey& key : gone.all()) model.Erase(key);
        model.Insert(gone.at(0));
      }
    }
    EXPECT_TRUE(table->Stats().evicted > 100);
  }
}

// Rows that differ late in (score, hash) only: many of one step or frequency with hashes that begin alike, and scores
// of all sizes.
inline void EvictsAmongTies(const TableMaker& make) {
  for (const EvictionOrder order : {EvictionOrder::kLru, EvictionOrder::kLfu}) {
    TableOptions options = OneField(1);
    options.fields[0].eviction = {0, 200, order};
    std::unique_ptr<HashTable> table = make(options);
    TableModel model(options);
    ThreadFor pf(2);
    for (uint64_t step = 0; step < 14; ++step) {
      Batch batch;
      std::vector<int64_t> counts;
      for (uint64_t i = 0; i < 130; ++i) {
        const uint64_t random = Mix64(step * 64 + i);
        const uint64_t hash = i % 5 == 0 ? random : (i % 2 ? 0x123456789Aull : 0xFEDCBA9876ull) << 24 | random >> 40;
        batch.Add({0, KeyOfHash(hash, 0)});
        counts.push_back((step % 2 == 0 ? int64_t{1} : int64_t{1} << random % 50) + static_cast<int64_t>(random % 3));
      }
      Step(table.get(), &model, batch, counts, pf);
    }
    EXPECT_EQ(table->FieldSize(0), 200);
    // Last-use steps that are far apart come by imports alone.
    TableContents contents = ExportAll(*table, pf);
    contents.steps[0] = int64_t{1} << 60;
    for (size_t i = 0; i < contents.last_steps.size(); ++i) {
      const uint64_t random = Mix64(i);
      contents.last_steps[i] = static_cast<int64_t>(random >> (4 + random % 56));
    }
    EXPECT_OK(table->Import(Borrow(contents), pf));
    for (uint64_t step = 0; step < 5; ++step) {
      const TableContents before = ExportAll(*table, pf);
      using Order = std::pair<int64_t, uint64_t>;
      std::vector<Order> orders;
      for (size_t i = 0; i < before.keys.size(); ++i) {
        orders.emplace_back(order == EvictionOrder::kLru ? before.last_steps[i] : before.frequencies[i],
                            HashKey(before.keys[i], 0));
      }
      std::sort(orders.begin(), orders.end());
      Batch batch;
      const int64_t more = 7 + 10 * static_cast<int64_t>(step);
      for (int64_t i = 0; i < more; ++i) batch.Add({0, static_cast<int64_t>(Mix64(1000 * step + i) >> 1)});
      const std::vector<int64_t> often(more, INT64_MAX);  // New rows stay.
      Step(table.get(), nullptr, batch, often, pf);
      for (int64_t i = 0; i < 200; ++i) {
        std::vector<uint8_t> found(1);
        std::vector<float> row(1);
        EXPECT_OK(table->Find(Batch({KeyOfHash(orders[i].second, 0)}).ref(), row.data(), found.data(), pf));
        EXPECT_EQ(found[0] != 0, i >= more);
      }
    }
  }
}

// Rows that were imported as used in steps to come are younger than what comes after.
inline void EvictsByStepsToCome(const TableMaker& make) {
  for (const EvictionOptions& eviction : {EvictionOptions{3, 0}, EvictionOptions{0, 1, EvictionOrder::kLru}}) {
    TableOptions options = OneField(1);
    options.fields[0].eviction = eviction;
    std::unique_ptr<HashTable> table = make(options);
    ThreadFor pf(2);
    Step(table.get(), nullptr, Batch({1}), {1}, pf);
    TableContents contents = ExportAll(*table, pf);
    contents.steps[0] = 10;
    contents.last_steps = {100};
    EXPECT_OK(table->Import(Borrow(contents), pf));
    Step(table.get(), nullptr, Batch(), {}, pf);
    for (int64_t key = 11; key < 20; ++key) Step(table.get(), nullptr, Batch({key}), {1}, pf);
    EXPECT_EQ(table->FieldSize(0), eviction.max_rows > 0 ? 1 : 4);  // Idle: those of the last three steps, too.
    std::vector<uint8_t> found(2);
    std::vector<float> rows(2);
    EXPECT_OK(table->Find(Batch({1, 19}).ref(), rows.data(), found.data(), pf));
    EXPECT_TRUE(found[0]);
    EXPECT_EQ(found[1] != 0, eviction.max_rows == 0);
  }
}

// Key by key erased and inserted again for ever: a queue must not grow by it.
inline void EvictionForgetsErasedRows(const TableMaker& make) {
  TableOptions options = OneField(2);
  options.fields[0].eviction = {0, 1000, EvictionOrder::kLru};
  std::unique_ptr<HashTable> table = make(options);
  SerialFor pf;
  std::vector<float> out(2 * 100);
  const Batch batch(MakeKeys(Pattern::kSequential, 100));
  int64_t bytes = 0;
  for (int round = 0; round < 300; ++round) {
    EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
    EXPECT_OK(table->Erase(batch.ref(), nullptr, pf));
    if (round == 20) bytes = table->Stats().bytes;
  }
  EXPECT_TRUE(table->Stats().bytes <= 2 * bytes);
}

// A table with rows (3000 in field 0), pending keys, slots, three fields and some history.
inline std::unique_ptr<HashTable> TableWithHistory(const TableMaker& make, const TableOptions& options) {
  std::unique_ptr<HashTable> table = make(options);
  ThreadFor pf(2);
  for (int step = 0; step < 5; ++step) {
    Batch batch;
    for (int64_t i = 0; i < 3000; ++i) batch.Add({static_cast<uint32_t>(i % 3), (i + 1) * (1 + step % 3)});
    EXPECT_OK(table->Update({batch.ref(), nullptr, nullptr},
                            RowByRow([](int64_t i, float* row) { row[i % 6] += static_cast<float>(i); }), pf));
  }
  Batch gone;
  for (int64_t i = 0; i < 500; ++i) gone.Add({1, i});
  EXPECT_OK(table->Erase(gone.ref(), nullptr, pf));
  return table;
}

inline TableOptions HistoryOptions() {
  TableOptions options = ThreeFields(3, 2);
  options.fields[2].min_frequency = 4;
  return options;
}

inline void ExportsAndImports(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  ThreadFor pf(3);
  const TableContents before = ExportAll(*TableWithHistory(make, options), pf);
  EXPECT_TRUE(before.pending_keys.size() > 100);
  std::unique_ptr<HashTable> other = TableWithHistory(make, options);
  EXPECT_OK(other->Import(Borrow(before), pf));
  const TableContents once = ExportAll(*other, pf);
  EXPECT_TRUE(RowsOf(once, 3) == RowsOf(before, 3));
  EXPECT_TRUE(once.keys == before.keys);  // The order of rows survives too.
  EXPECT_EQ(once.pending_keys.size(), before.pending_keys.size());
  EXPECT_TRUE(once.steps == before.steps);
  EXPECT_EQ(other->FieldSize(1), static_cast<int64_t>(std::count(before.fields.begin(), before.fields.end(), 1u)));
  std::unique_ptr<HashTable> third = make(options);
  EXPECT_OK(third->Import(Borrow(once), pf));
  EXPECT_TRUE(Same(ExportAll(*third, pf), once));
}

// What Import need not be given: slots and frequencies start anew, steps are the table's, seeds stay.
inline void ImportFillsInWhatIsMissing(const TableMaker& make) {
  const TableOptions options = OneField(2, 2);
  std::unique_ptr<HashTable> table = make(options);
  SerialFor pf;
  const int64_t keys[] = {-1, 7};
  const float values[] = {1, 2, 3, 4}, slot[] = {5, 6, 7, 8};
  ContentsIn in;
  in.rows = 2;
  in.keys = keys;
  in.values = values;
  in.slots = {nullptr, slot};
  in.step = 9;
  EXPECT_OK(table->Import({in}, pf));
  TableModel model(options);
  model.steps = {9};
  model.rows[{0, -1}] = {{1, 2, 0.1f, 0.1f, 5, 6}, 1, 9};
  model.rows[{0, 7}] = {{3, 4, 0.1f, 0.1f, 7, 8}, 1, 9};
  ExpectSame(*table, model, pf);
  ExpectFinds(*table, model, Batch({-1, 7, 8}), pf);
  in.seed = 77;  // A restored seed gives new keys the values that they would have had.
  EXPECT_OK(table->Import({in}, pf));
  TableOptions reseeded = options;
  reseeded.fields[0].seed = 77;
  ExpectFinds(
      *table,
      [&] {
        TableModel other(reseeded);
        other.rows = model.rows;
        return other;
      }(),
      Batch({-1, 7, 8, 9}), pf);
}

inline void ImportIsAllOrNothing(const TableMaker& make) {
  TableOptions options = HistoryOptions();
  options.fields[0].max_rows = 3000;
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  ThreadFor pf(2);
  const TableContents before = ExportAll(*table, pf);
  const auto refuses = [&](StatusCode code, auto spoil) {
    TableContents contents = before;
    spoil(contents);
    const Status status = table->Import(Borrow(contents), pf);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    EXPECT_TRUE(status.message().find("user_emb") != std::string::npos);
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
  };
  using C = TableContents;
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.keys[5] = c.keys[8], c.fields[5] = c.fields[8]; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.pending_keys[0] = c.keys[8], c.pending_fields[0] = c.fields[8]; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.fields[5] = 3; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.pending_counts[0] = 0; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.pending_counts[0] = int64_t{1} << 31; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.frequencies[3] = -1; });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.slots.pop_back(); });
  refuses(StatusCode::kInvalidArgument, [](C& c) { c.steps[1] = -1; });
  refuses(StatusCode::kResourceExhausted, [](C& c) {
    for (size_t i = 0; i < c.keys.size(); ++i) c.keys[i] = static_cast<int64_t>(i), c.fields[i] = 0;
  });
}

// The same picture as Export's, of all fields and of some, and of rows that take more than a piece.
inline void ExportsInPieces(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  ThreadFor pf(2);
  for (const std::vector<uint32_t>& fields : {std::vector<uint32_t>{0, 1, 2}, {2, 0}, {1}, {}}) {
    TableContents whole = ExportFields(*table, fields, pf);
    EXPECT_TRUE(Same(ExportByPieces(*table, fields, true, pf), whole));
    whole.slots.clear();
    EXPECT_TRUE(Same(ExportByPieces(*table, fields, false, pf), whole));
  }
  std::unique_ptr<HashTable> wide = make(OneField(300, 1));
  const Batch batch(MakeKeys(Pattern::kRandom, Rounds(10000)));
  EXPECT_OK(
      wide->Update({batch.ref(), nullptr, nullptr}, RowByRow([](int64_t i, float* row) { row[i % 600] = i; }), pf));
  EXPECT_TRUE(Same(ExportByPieces(*wide, {0}, true, pf), ExportAll(*wide, pf)));
}

// All fields or one, in pieces of any size, are what they are as a whole.
inline void ImportsInPieces(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  ThreadFor pf(2);
  const TableContents history = ExportAll(*TableWithHistory(make, options), pf);
  const Borrow borrowed(history);
  for (const int64_t most : {100, 5000, 100000}) {
    std::unique_ptr<HashTable> table = make(options);
    std::vector<ContentsSource> sources;
    for (const ContentsIn& in : borrowed.refs) sources.push_back(InPieces(in, options.dim, most));
    EXPECT_OK(table->ImportPieces(sources, pf));
    const TableContents found = ExportAll(*table, pf);
    EXPECT_TRUE(found.keys == history.keys && SameRows(found, history, options.dim));
    for (const ContentsIn& in : borrowed.refs) {  // A field in the place of itself.
      EXPECT_OK(table->ImportPieces({InPieces(in, options.dim, most)}, pf));
      EXPECT_TRUE(SameRows(ExportAll(*table, pf), history, options.dim));
    }
  }
}

// Whatever ends it behind some pieces, of all fields or of one, the table is as it was.
inline void AnImportThatEndsEarlyLeavesNothing(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  ThreadFor pf(2);
  const TableContents before = ExportAll(*table, pf);
  TableContents repeated = before;  // The last row of field 0 is the first once more, some pieces later.
  const auto of_0 = std::count(before.fields.begin(), before.fields.end(), 0u);
  repeated.keys[of_0 - 1] = repeated.keys[0];
  TableContents admitted = before;  // A pending key has a row.
  admitted.pending_keys.back() = before.keys.back();
  EXPECT_EQ(admitted.pending_fields.back(), before.fields.back());
  const auto refuses = [&](const TableContents& contents, bool all, const Status& end, StatusCode code) {
    const Borrow borrowed(contents);
    const uint32_t field = contents.pending_keys == before.pending_keys ? 0 : before.fields.back();
    std::vector<ContentsSource> sources;
    for (const ContentsIn& in : borrowed.refs) {
      if (all || in.field == field) sources.push_back(InPieces(in, options.dim, 500, end));
    }
    const Status status = table->ImportPieces(sources, pf);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    EXPECT_EQ(table->FieldSize(field), std::count(before.fields.begin(), before.fields.end(), field));
  };
  for (const bool all : {false, true}) {
    refuses(before, all, Status(StatusCode::kInternal, "the file ends"), StatusCode::kInternal);
    refuses(repeated, all, Status(), StatusCode::kInvalidArgument);
    refuses(admitted, all, Status(), StatusCode::kInvalidArgument);
  }
  EXPECT_OK(table->Import(Borrow(before), pf));
  EXPECT_TRUE(SameRows(ExportAll(*table, pf), before, options.dim));
}

inline void ExportPassesErrorsOn(const TableMaker& make) {
  const TableOptions options = HistoryOptions();
  std::unique_ptr<HashTable> table = TableWithHistory(make, options);
  SerialFor pf;
  const auto refuse = [](std::vector<ContentsOut>*) { return Status(StatusCode::kInternal, "no"); };
  EXPECT_EQ(table->Export({0}, refuse, pf).message(), std::string("no"));
  const auto want_nothing = [](std::vector<ContentsOut>*) { return Status(); };
  EXPECT_OK(table->Export(AllFields(*table), want_nothing, pf));
  EXPECT_OK(table->Export({}, want_nothing, pf));
  const auto refuse_heads = [](const std::vector<ContentsOut>&) { return Status(StatusCode::kInternal, "no"); };
  const auto take_heads = [](const std::vector<ContentsOut>&) { return Status(); };
  const auto take = [](const ContentsPiece&) { return Status(); };
  EXPECT_EQ(table->ExportPieces({0}, true, refuse_heads, take, pf).message(), std::string("no"));
  for (int left = 0, done = 0; done == 0; ++left) {  // The first piece, the second, …
    int pieces = 0;
    const auto refuse_later = [&](const ContentsPiece&) {
      return pieces++ < left ? Status() : Status(StatusCode::kInternal, "full");
    };
    const Status status = table->ExportPieces(AllFields(*table), true, take_heads, refuse_later, pf);
    EXPECT_EQ(status.message(), std::string(status.ok() ? "" : "full"));
    EXPECT_EQ(pieces, status.ok() ? left : left + 1);
    done = status.ok();
  }
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_POLICIES_H_
