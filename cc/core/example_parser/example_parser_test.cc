// The contract of ExampleParser: rows, slices, memory that is kept, errors, keys in any order.
#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/against_reference.h"
#include "cc/core/example_parser/testing/feature.h"
#include "cc/core/example_parser/testing/guarded_memory.h"
#include "cc/core/example_parser/testing/wire_builder.h"

using namespace tf_booster;                           // NOLINT
using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

namespace {

std::shared_ptr<const ParserSpec> Spec(std::vector<FeatureSpec> features) {
  std::shared_ptr<const ParserSpec> spec;
  EXPECT_OK(ParserSpec::Make(std::move(features), Semantics::kBatch, &spec));
  return spec;
}

std::vector<FeatureSpec> Everything() {
  return {FeatureOf("id", ValueType::kInt64, FeatureKind::kFixedDense),
          FeatureOf("weights", ValueType::kFloat, FeatureKind::kFixedDense, 3),
          FeatureOf("history_of_item_ids_of_a_user", ValueType::kInt64, FeatureKind::kSparse),
          FeatureOf("words", ValueType::kBytes, FeatureKind::kRagged),
          FeatureOf("name", ValueType::kBytes, FeatureKind::kFixedDense),
          FeatureOf("pairs", ValueType::kInt64, FeatureKind::kVarLenDense, 2)};
}

std::vector<std::string> EntriesOf(int64_t i) {
  const float x = static_cast<float>(i);
  return {Entry("id", Int64Feature({i * i * 100})),
          Entry("weights", FloatFeature({x, -x, x / 3})),
          Entry("history_of_item_ids_of_a_user", Int64Feature(std::vector<int64_t>(i % 90, i))),
          Entry("words", BytesFeature({"a", std::to_string(i)})),
          Entry("name", BytesFeature({"name" + std::to_string(i)})),
          Entry("pairs", Int64Feature({i, -i}))};
}

}  // namespace

TEST(SpecsThatCannotBe) {
  std::shared_ptr<const ParserSpec> spec;
  const auto fails = [&](std::vector<FeatureSpec> features, const std::string& text) {
    const Status status = ParserSpec::Make(std::move(features), Semantics::kBatch, &spec);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
    EXPECT_TRUE(status.message().find(text) != std::string::npos);
  };
  FeatureSpec a = FeatureOf("a", ValueType::kInt64, FeatureKind::kFixedDense, 2);
  fails({a, a}, "same name");
  a.required = false;
  a.default_int64 = {1};
  fails({a}, "default of 1 values, but 2");
  fails({FeatureOf("a", ValueType::kInt64, FeatureKind::kVarLenDense, 0)}, "stride of 0");
  fails({FeatureOf("a", ValueType::kInt64, FeatureKind::kFixedDense, size_t{1} << 31)}, "elements");
}

TEST(KeysInAnyOrder) {
  std::mt19937_64 random(3);
  std::vector<std::string> records;
  for (int64_t i = 0; i < 200; ++i) {
    auto entries = EntriesOf(i);
    if (i >= 50) std::shuffle(entries.begin(), entries.end(), random);
    if (i % 3 == 0) entries.insert(entries.begin() + i % 5, Entry("nobody_asked", Int64Feature({1})));
    records.push_back(Example(entries));
  }
  EXPECT_EQ(CompareLevels(Spec(Everything()), records), "");
}

// Values go to memory that was lent, just enough of it, and to the slice's own when that is full; records that follow
// go behind those before.
TEST(ValuesGoToLentMemory) {
  const auto spec = Spec({FeatureOf("ids", ValueType::kInt64, FeatureKind::kSparse),
                          FeatureOf("floats", ValueType::kFloat, FeatureKind::kRagged)});
  for (SimdLevel level : RunnableSimdLevels()) {
    const ExampleParser parser(spec, level);
    ParsedSlice slice;
    for (const size_t room : {30, 29}) {
      std::vector<int64_t> ids(32, -7);
      std::vector<float> floats(32, -7);
      parser.Empty(&slice);
      for (int64_t i = 0; i < 3; ++i) {
        const std::string record = Example({Entry("ids", Int64Feature(std::vector<int64_t>(10, i + (i << 20)))),
                                            Entry("floats", FloatFeature(std::vector<float>(10, i + 0.5f)))});
        const Record view = {record.data(), record.size()};
        slice.LendInt64s(0, ids.data(), std::min<size_t>(room, 20));  // More room comes with the last record.
        if (i == 2) slice.LendInt64s(0, ids.data(), room);
        slice.LendFloats(1, floats.data(), room);
        ParseError error;
        EXPECT_TRUE(parser.Append(&view, 1, i, nullptr, &slice, &error));
      }
      EXPECT_EQ(slice.num_records(), 3u);
      EXPECT_EQ(slice.lengths(0)[2], 10u);
      EXPECT_EQ(slice.int64s(0).size(), 30u);
      EXPECT_EQ(slice.int64s(0).is_lent(), room == 30);
      EXPECT_EQ(slice.floats(1).is_lent(), room == 30);
      EXPECT_EQ(slice.int64s(0).data() == ids.data(), room == 30);
      for (size_t v = 0; v < 30; ++v) {
        EXPECT_EQ(slice.int64s(0)[v], static_cast<int64_t>(v / 10 + (v / 10 << 20)));
        EXPECT_EQ(slice.floats(1)[v], v / 10 + 0.5f);
      }
      for (size_t v = room; v < 32; ++v) EXPECT_TRUE(ids[v] == -7 && floats[v] == -7);
    }
    EXPECT_EQ(Compare(parser, {Example(EntriesOf(3))}, 0, &slice), "");  // In its own again.
  }
}

// A slice of rows in the middle of a batch leaves all others alone; what it kept from another batch does no harm.
TEST(SlicesWriteTheirRowsOnly) {
  const auto spec = Spec(Everything());
  const ExampleParser parser(spec);
  ParsedSlice slice;
  std::vector<std::string> records;
  for (int64_t i = 0; i < 7; ++i) records.push_back(Example(EntriesOf(i + 20)));
  EXPECT_EQ(Compare(parser, records, 0, &slice), "");
  records.resize(3);
  EXPECT_EQ(Compare(parser, records, 2, &slice), "");
  EXPECT_EQ(slice.lengths(2).size(), 3u);
  EXPECT_EQ(slice.int64s(2).size(), 20u + 21u + 22u);
  EXPECT_EQ(Compare(parser, {}, 0, &slice), "");
  EXPECT_EQ(slice.int64s(2).size(), 0u);

  std::vector<int64_t> ids(5, -1);
  std::vector<float> weights(15, -1);
  void* const fixed[] = {ids.data(), weights.data(), nullptr, nullptr, nullptr, nullptr};
  const Record record = {records[1].data(), records[1].size()};
  ParseError error;
  EXPECT_TRUE(parser.Parse(&record, 1, 2, fixed, &slice, &error));
  EXPECT_TRUE(ids == std::vector<int64_t>({-1, -1, 21 * 21 * 100, -1, -1}));
  EXPECT_EQ(weights[5], -1.0f);
  EXPECT_EQ(weights[6], 21.0f);
  EXPECT_EQ(weights[9], -1.0f);
}

TEST(ASliceMayServeAnotherParser) {
  ParsedSlice slice;
  EXPECT_EQ(Compare(ExampleParser(Spec(Everything())), {Example(EntriesOf(4))}, 0, &slice), "");
  EXPECT_EQ(Compare(ExampleParser(Spec({FeatureOf("words", ValueType::kBytes, FeatureKind::kSparse)})),
                    {Example(EntriesOf(4))}, 0, &slice),
            "");
  EXPECT_EQ(Compare(ExampleParser(Spec({})), {Example(EntriesOf(4)), ""}, 0, &slice), "");
}

TEST(ErrorsNameRecordAndFeature) {
  const auto spec = Spec(Everything());
  auto entries = EntriesOf(3);
  entries[1] = Entry("weights", FloatFeature({1, 2}));
  const std::vector<std::string> records = {Example(EntriesOf(1)), Example(EntriesOf(2)), Example(entries), "\x14"};
  EXPECT_EQ(CompareLevels(spec, records, 5), "");
  std::vector<Record> views;
  for (const auto& record : records) views.push_back({record.data(), record.size()});
  const FixedOutputs outputs(*spec, 9);
  ParsedSlice slice;
  ParseError error;
  EXPECT_FALSE(ExampleParser(spec).Parse(views.data(), 4, 5, outputs.pointers(), &slice, &error));
  const Status status = ToStatus(error, *spec);
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
  EXPECT_EQ(status.message(), "Parser: record 7, feature 'weights' has 2 values, but 3 are wanted");
}

// Features that come and go, over more slices than a choice to write their default everywhere lasts; odd records too.
TEST(DefaultsOfFeaturesThatAreOftenMissing) {
  std::vector<FeatureSpec> features = {FeatureOf("id", ValueType::kInt64, FeatureKind::kFixedDense),
                                       FeatureOf("weights", ValueType::kFloat, FeatureKind::kFixedDense, 3),
                                       FeatureOf("name", ValueType::kBytes, FeatureKind::kFixedDense)};
  for (FeatureSpec& feature : features) feature.required = false;
  features[0].default_int64 = {-5};
  features[1].default_float = {1, 2, 3};
  features[2].default_bytes = {"nobody"};
  features.push_back(FeatureOf("label", ValueType::kInt64, FeatureKind::kFixedDense));
  const auto spec = Spec(features);
  std::mt19937_64 random(4);
  for (SimdLevel level : RunnableSimdLevels()) {
    const ExampleParser parser(spec, level);
    ParsedSlice slice;
    for (int batch = 0; batch < 50; ++batch) {
      std::vector<std::string> records;
      for (int64_t i = 0; i < 20; ++i) {
        const auto all = EntriesOf(i + 20);
        std::vector<std::string> entries = {Entry("label", Int64Feature({i}))};
        for (size_t k : {0, 1, 4}) {
          const int percent = batch < 20 ? 50 : batch < 30 ? 100 : 5;
          if (static_cast<int>(random() % 100) < percent) entries.push_back(all[k]);
        }
        if (random() % 50 == 0) entries.push_back(entries.back());
        records.push_back(Example(entries));
      }
      EXPECT_EQ(Compare(parser, records, 0, &slice), "");
    }
    EXPECT_EQ(Compare(parser, {Example({})}, 0, &slice), "");  // The label is required.
  }
}

// At the end and at the start of what may be read, at every level; also cut off at every byte.
TEST(NothingOutsideTheRecordIsRead) {
  const auto spec = Spec(Everything());
  GuardedMemory memory(1 << 14);
  const FixedOutputs outputs(*spec, 1);
  for (SimdLevel level : RunnableSimdLevels()) {
    ParsedSlice slice;
    const ExampleParser parser(spec, level);
    for (int64_t i : {0, 1, 5, 20, 63, 64, 89}) {
      auto entries = EntriesOf(i);
      for (size_t turn = 0; turn < entries.size(); ++turn) {
        std::rotate(entries.begin(), entries.begin() + 1, entries.end());
        const std::string whole = Example(entries);
        for (size_t size = 0; size <= whole.size(); ++size) {
          const std::string bytes = whole.substr(0, size);
          const reference::Outcome wanted = reference::ParseRecord(*spec, bytes);
          for (const uint8_t* p : {memory.AtStart(bytes), memory.AtEnd(bytes)}) {
            const Record record = {reinterpret_cast<const char*>(p), bytes.size()};
            ParseError error;
            EXPECT_EQ(parser.Parse(&record, 1, 0, outputs.pointers(), &slice, &error),
                      wanted.error == ParseErrorKind::kNone);
          }
        }
      }
    }
  }
}

// A length field of 1 GB in a record of 20 bytes reserves nothing of the sort.
TEST(MemoryFollowsBytesNotLengths) {
  const auto spec = Spec(Everything());
  const std::string huge = "\x80\x80\x80\x80\x04";
  for (const char* key : {"words", "history_of_item_ids_of_a_user"}) {
    const std::string record = Example({Entry(key, (key[0] == 'w' ? "\x0a" : "\x1a") + huge + "\x0a" + huge + "\x01")});
    EXPECT_EQ(CompareLevels(spec, {record}), "");
  }
}

TEST(ManyFeatures) {
  std::vector<FeatureSpec> features;
  std::vector<std::string> entries;
  for (int f = 0; f < 3000; ++f) {
    features.push_back(FeatureOf("feature_" + std::to_string(f), ValueType::kInt64,
                                 f % 2 ? FeatureKind::kFixedDense : FeatureKind::kSparse));
    entries.push_back(Entry(features.back().name, Int64Feature({f})));
  }
  std::vector<std::string> records = {Example(entries)};
  std::reverse(entries.begin(), entries.end());
  records.push_back(Example(entries));
  EXPECT_EQ(CompareLevels(Spec(features), records), "");
}

TEST(ThreadsShareAParser) {
  const ExampleParser parser(Spec(Everything()));
  std::vector<std::thread> threads;
  std::vector<std::string> differences(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ParsedSlice slice;
      std::vector<std::string> records;
      for (int64_t i = 0; i < 50; ++i) records.push_back(Example(EntriesOf(i + 100 * t)));
      for (int k = 0; k < 5; ++k) differences[t] += Compare(parser, records, 3, &slice);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& difference : differences) EXPECT_EQ(difference, "");
}
