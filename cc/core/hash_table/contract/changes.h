// The contract of tables, part 6: what changed since a mark, put upon the picture of then, is the picture of now.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CHANGES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CHANGES_H_

#include <random>
#include <set>

#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/contract/table_checks.h"

namespace tf_booster::contract {

using Embeddings = std::map<FieldKey, std::vector<float>>;

inline Embeddings EmbeddingsOf(const HashTable& table, const std::vector<uint32_t>& fields, ParallelFor& pf) {
  const TableContents all = ExportFields(table, fields, pf);
  Embeddings found;
  for (size_t i = 0; i < all.keys.size(); ++i) {
    const auto row = all.values.begin() + i * all.dim;
    found.emplace(FieldKey{all.fields[i], all.keys[i]}, std::vector<float>(row, row + all.dim));
  }
  return found;
}

inline std::vector<FieldMark> MarksOf(const HashTable& table) {
  std::vector<FieldMark> marks(AllFields(table).size());
  for (const uint32_t f : AllFields(table)) EXPECT_OK(table.ReadMark(f, &marks[f]));
  return marks;
}

// What ExportChanges gave of one field.
struct GivenChanges {
  FieldChanges settled;
  std::vector<int64_t> keys, all_keys, left_keys;
  std::vector<float> values;
};

inline std::vector<GivenChanges> ExportChanges(const HashTable& table, const std::vector<FieldChanges>& wanted,
                                               ParallelFor& pf) {
  std::vector<GivenChanges> given(wanted.size());
  std::vector<std::pair<size_t, int>> order;
  const auto begin = [&](const std::vector<FieldChanges>& settled) {
    for (size_t i = 0; i < settled.size(); ++i) given[i].settled = settled[i];
    return Status();
  };
  const auto write = [&](const ContentsPiece& piece) {
    const auto append = [&](auto* to) {
      using T = typename std::decay_t<decltype(*to)>::value_type;
      const T* const data = static_cast<const T*>(piece.data);
      to->insert(to->end(), data, data + piece.bytes / static_cast<int64_t>(sizeof(T)));
    };
    EXPECT_TRUE(piece.bytes > 0);
    order.push_back({piece.place, static_cast<int>(piece.array)});
    GivenChanges& to = given[piece.place];
    EXPECT_TRUE(piece.array == ContentsArray::kKeys || piece.array == ContentsArray::kValues ||
                piece.array == ContentsArray::kAllKeys || piece.array == ContentsArray::kLeftKeys);
    if (piece.array == ContentsArray::kKeys) append(&to.keys);
    if (piece.array == ContentsArray::kValues) append(&to.values);
    if (piece.array == ContentsArray::kAllKeys) append(&to.all_keys);
    if (piece.array == ContentsArray::kLeftKeys) append(&to.left_keys);
    return Status();
  };
  EXPECT_OK(table.ExportChanges(wanted, begin, write, pf));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(given[i].settled.field, wanted[i].field);
    EXPECT_EQ(given[i].values.size(), given[i].keys.size() * table.options().dim);
    EXPECT_TRUE(given[i].settled.all_keys || given[i].all_keys.empty());
    EXPECT_EQ(given[i].settled.left_keys, !given[i].left_keys.empty());
    EXPECT_TRUE(!given[i].settled.left_keys || !given[i].settled.all_keys);
  }
  return given;
}

// Puts changes upon a picture.
inline void Apply(const GivenChanges& changes, int64_t dim, Embeddings* picture) {
  const uint32_t field = changes.settled.field;
  for (const int64_t key : changes.left_keys) picture->erase({field, key});  // Some are back, and among the rows.
  for (size_t i = 0; i < changes.keys.size(); ++i) {
    const auto row = changes.values.begin() + i * dim;
    picture->insert_or_assign({field, changes.keys[i]}, std::vector<float>(row, row + dim));
  }
  if (!changes.settled.all_keys) return;
  const std::set<int64_t> keep(changes.all_keys.begin(), changes.all_keys.end());
  EXPECT_EQ(keep.size(), changes.all_keys.size());
  for (auto it = picture->begin(); it != picture->end();) {
    const bool gone = it->first.first == field && keep.count(it->first.second) == 0;
    it = gone ? picture->erase(it) : std::next(it);
  }
}

// Steps with admission and eviction of all kinds, and now and then an edit of each sort: always the picture of now, and
// without an edit no row more than those of the steps.
inline void ChangesLeadFromPictureToPicture(const TableMaker& make) {
  TableOptions options = ThreeFields(5, 1);
  options.fields.push_back(options.fields[0]);
  options.fields[0].eviction.max_idle_steps = 6;
  options.fields[1].min_frequency = 3;
  options.fields[2].eviction = {0, 60, EvictionOrder::kLfu};
  options.fields[3].name = "user_emb_2";
  ThreadFor pf(2);
  for (const Pattern pattern : kPatterns) {
    std::unique_ptr<HashTable> table = make(options);
    const std::vector<int64_t> pool = MakeKeys(pattern, 200);
    std::mt19937_64 random(11);
    Embeddings picture;
    std::vector<FieldMark> marks(options.fields.size());
    // Listed or not: of some tables from the start, of others later, or never.
    const int list_from = pattern == kPatterns[0] ? 0 : pattern == kPatterns[1] ? 1000 : 9;
    int64_t short_lists = 0, lists_of_left = 0;
    for (int round = 0; round < Rounds(40); ++round) {
      std::vector<std::set<int64_t>> trained(options.fields.size());
      for (const uint32_t f : AllFields(*table)) {
        if (round >= list_from) EXPECT_OK(table->ListLeaving(f));
      }
      for (int step = static_cast<int>(random() % 4); step > 0; --step) {
        Batch batch;
        for (const uint32_t f : AllFields(*table)) {
          for (const int64_t key : pool) {
            if (random() % 8 != 0) continue;
            batch.Add({f, key});
            trained[f].insert(key);
          }
        }
        const auto update = [&](int64_t i, float* row) { row[i % 5] += static_cast<float>(i + round); };
        EXPECT_OK(table->Update({batch.ref(), nullptr, nullptr}, RowByRow(update), pf));
      }
      const uint32_t edited = static_cast<uint32_t>(random() % options.fields.size());
      const KeyBatch some = {pool.data(), nullptr, 20, edited};
      std::vector<float> values(20 * options.dim, static_cast<float>(round));
      const int edit = round % 8;
      if (edit == 3) EXPECT_OK(table->InsertOrAssign(some, values.data(), pf));
      if (edit == 4) EXPECT_OK(table->Erase(some, nullptr, pf));
      if (edit == 5) EXPECT_OK(table->FindOrInsert(some, values.data(), pf));
      if (edit == 6) EXPECT_OK(table->Import(Borrow(ExportFields(*table, {edited}, pf), {edited}), pf));
      if (edit == 7) EXPECT_OK(table->Clear(edited));
      std::vector<FieldChanges> wanted;
      for (const uint32_t f : {2u, 0u, 3u, 1u}) wanted.push_back({f, marks[f]});
      for (const GivenChanges& given : ExportChanges(*table, wanted, pf)) {
        const uint32_t f = given.settled.field;
        Apply(given, options.dim, &picture);
        if (edit < 3 && round > 0) {
          EXPECT_EQ(given.settled.since.step, marks[f].step);
          for (const int64_t key : given.keys) EXPECT_EQ(trained[f].count(key), size_t{1});
          const int64_t left = given.settled.now.evicted - marks[f].evicted;
          EXPECT_EQ(given.settled.all_keys, left > 0 && round < list_from);
          EXPECT_EQ(static_cast<int64_t>(given.left_keys.size()), round < list_from ? 0 : left);
          lists_of_left += given.settled.left_keys;
          short_lists += !given.settled.all_keys;
        }
        marks[f] = given.settled.now;
      }
      EXPECT_TRUE(picture == EmbeddingsOf(*table, AllFields(*table), pf));
      EXPECT_TRUE(MarksOf(*table) == marks);
    }
    if (Rounds(40) < 40) continue;
    EXPECT_TRUE(short_lists > 5);
    EXPECT_EQ(lists_of_left > 5, list_from < 100);
  }
}

// Nothing new, nothing given; no mark, all; all keys for who asks; rows that take more than a piece; other fields stay
// out.
inline void ChangesOfNothingAndOfAll(const TableMaker& make) {
  std::unique_ptr<HashTable> table = TableWithHistory(make, HistoryOptions());
  ThreadFor pf(2);
  const std::vector<FieldMark> marks = MarksOf(*table);
  const std::vector<GivenChanges> none = ExportChanges(*table, {{1, marks[1]}, {0, marks[0], true}}, pf);
  EXPECT_TRUE(none[0].keys.empty() && none[0].all_keys.empty() && !none[0].settled.all_keys);
  EXPECT_TRUE(none[1].keys.empty());
  EXPECT_EQ(static_cast<int64_t>(none[1].all_keys.size()), table->FieldSize(0));
  Embeddings all;
  const std::vector<GivenChanges> whole = ExportChanges(*table, {{2}, {0}}, pf);
  for (const GivenChanges& given : whole) {
    EXPECT_TRUE(given.settled.all_keys);
    EXPECT_EQ(static_cast<int64_t>(given.keys.size()), table->FieldSize(given.settled.field));
    EXPECT_EQ(given.all_keys.size(), given.keys.size());
    Apply(given, 3, &all);
  }
  EXPECT_TRUE(all == EmbeddingsOf(*table, {0, 2}, pf));
  EXPECT_TRUE(ExportChanges(*table, {}, pf).empty());
  std::unique_ptr<HashTable> wide = make(OneField(300, 1));
  const Batch batch(MakeKeys(Pattern::kRandom, Rounds(10000)));
  FieldMark before;
  EXPECT_OK(wide->ReadMark(0, &before));
  EXPECT_OK(
      wide->Update({batch.ref(), nullptr, nullptr}, RowByRow([](int64_t i, float* row) { row[i % 600] = i; }), pf));
  const GivenChanges given = ExportChanges(*wide, {{0, before}}, pf)[0];
  EXPECT_TRUE(given.keys == batch.keys && given.values == ExportAll(*wide, pf).values && given.all_keys.empty());
}

// More rows than a list has room for leave, in one step and in many: none is missed, since all keys come then; and
// lists that grow keep what they had.
inline void ListsOfLeftKeysEndAndGrow(const TableMaker& make) {
  TableOptions options = OneField(1);
  options.fields[0].eviction.max_idle_steps = 1;
  std::unique_ptr<HashTable> table = make(options);
  ThreadFor pf(2);
  const int64_t room = LeftKeysRing::SizeFor(0);
  int64_t next = 0;
  const auto step = [&](int64_t size) {
    Batch batch;
    for (int64_t i = 0; i < size; ++i) batch.keys.push_back(next++);
    EXPECT_OK(table->Update({batch.ref(), nullptr, nullptr}, RowByRow([](int64_t, float*) {}), pf));
  };
  FieldMark mark;
  const auto changes = [&] {
    const FieldMark since = mark;
    EXPECT_OK(table->ReadMark(0, &mark));
    return ExportChanges(*table, {{0, since}}, pf)[0];
  };
  step(10);
  EXPECT_OK(table->ListLeaving(0));
  changes();
  step(7);
  GivenChanges given = changes();
  EXPECT_EQ(given.left_keys.size(), size_t{10});
  if (Rounds(5) < 5) return;  // The room is for 65,536 keys.
  step(room - 7);
  step(0);
  EXPECT_EQ(static_cast<int64_t>(changes().left_keys.size()), room);
  step(room - 7);
  step(5);
  step(0);
  given = changes();  // Round the end.
  EXPECT_EQ(static_cast<int64_t>(given.left_keys.size()), room - 2);
  EXPECT_EQ(std::set<int64_t>(given.left_keys.begin(), given.left_keys.end()).size(), given.left_keys.size());
  EXPECT_EQ(*std::max_element(given.left_keys.begin(), given.left_keys.end()), next - 1);
  step(room + 1);
  step(3);
  given = changes();
  EXPECT_TRUE(given.settled.all_keys && given.left_keys.empty());
  EXPECT_EQ(given.all_keys.size(), size_t{3});
#if defined(__SANITIZE_THREAD__)
  return;  // What follows takes it ten seconds, and no other threads.
#endif
  step(16 * room);  // So many rows have a list of twice as many keys.
  EXPECT_OK(table->ListLeaving(0));
  given = changes();
  EXPECT_EQ(given.left_keys.size(), size_t{3});
  step(1);
  EXPECT_TRUE(changes().settled.all_keys);
  step(2 * room - 1);
  step(0);
  given = changes();
  EXPECT_EQ(static_cast<int64_t>(given.left_keys.size()), 2 * room);
}

inline void ChangesRefuseAndPassErrorsOn(const TableMaker& make) {
  std::unique_ptr<HashTable> table = TableWithHistory(make, HistoryOptions());
  SerialFor pf;
  const auto refuse = [](const std::vector<FieldChanges>&) { return Status(StatusCode::kInternal, "no"); };
  const auto take = [](const std::vector<FieldChanges>&) { return Status(); };
  const auto full = [](const ContentsPiece&) { return Status(StatusCode::kInternal, "full"); };
  EXPECT_EQ(table->ExportChanges({{0}}, refuse, full, pf).message(), std::string("no"));
  EXPECT_EQ(table->ExportChanges({{0}}, take, full, pf).message(), std::string("full"));
  FieldMark mark;
  EXPECT_EQ(static_cast<int>(table->ReadMark(3, &mark).code()), static_cast<int>(StatusCode::kInvalidArgument));
  for (const std::vector<FieldChanges>& wrong : {std::vector<FieldChanges>{{3}}, {{1}, {1}}}) {
    const Status status = table->ExportChanges(wrong, take, full, pf);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
  }
}

}  // namespace tf_booster::contract

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CHANGES_H_
