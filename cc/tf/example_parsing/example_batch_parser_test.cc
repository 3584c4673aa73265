// One parser over batches that come one after another, alone and on several threads, against TensorFlow's: where values
// go depends on the batch before, and on which thread parsed which records.
#include "cc/tf/example_parsing/example_batch_parser.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/wire_builder.h"
#include "cc/tf/example_parsing/testing/same_results.h"
#include "tensorflow/core/platform/env.h"

namespace tf_booster {
namespace {

using example_parser::testing::BytesFeature;
using example_parser::testing::Entry;
using example_parser::testing::Example;
using example_parser::testing::FloatFeature;
using example_parser::testing::Int64Feature;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::thread::ThreadPool;
using testing::ExpectSame;
using Lengths = std::function<size_t(size_t record)>;

ExampleBatchParser::Config Spec() {
  ExampleBatchParser::Config config;
  const Tensor no_number(tensorflow::DT_INT64, {0}), no_string(tensorflow::DT_STRING, {0});
  Tensor padding(tensorflow::DT_INT64, {1});
  padding.vec<int64_t>()(0) = -1;
  config.dense.emplace_back("pair", tensorflow::DT_INT64, tensorflow::PartialTensorShape({2}), no_number, false, 2);
  config.dense.emplace_back("name", tensorflow::DT_STRING, tensorflow::PartialTensorShape({}), no_string, false, 1);
  config.dense.emplace_back("padded", tensorflow::DT_INT64, tensorflow::PartialTensorShape({-1}), padding, true, 1);
  config.sparse.emplace_back("ids", tensorflow::DT_INT64);
  config.sparse.emplace_back("weights", tensorflow::DT_FLOAT);
  config.sparse.emplace_back("words", tensorflow::DT_STRING);
  config.ragged.emplace_back("hashes", tensorflow::DT_INT64, tensorflow::DT_INT32);
  config.ragged.emplace_back("one", tensorflow::DT_INT64, tensorflow::DT_INT64);
  return config;
}

std::vector<tstring> Records(size_t n, const Lengths& length) {
  std::vector<tstring> records;
  for (size_t i = 0; i < n; ++i) {
    const size_t k = length(i);
    const int64_t id = static_cast<int64_t>(i);
    const uint64_t hash = (i + 1) * 0x9e3779b97f4a7c15;
    records.emplace_back(
        Example({Entry("pair", Int64Feature({id, -id})), Entry("name", BytesFeature({"n"})),
                 Entry("padded", Int64Feature(std::vector<int64_t>(k % 3, id))),
                 Entry("ids", Int64Feature(std::vector<int64_t>(k, id * 1000))),
                 Entry("weights", FloatFeature(std::vector<float>(k, 0.5f * id))),
                 Entry("words", BytesFeature(std::vector<std::string>(k % 2, "word"))),
                 Entry("hashes", Int64Feature(std::vector<int64_t>(k / 2, hash))), Entry("one", Int64Feature({id}))}));
  }
  return records;
}

std::vector<ExampleBatchParser::Record> Views(const std::vector<tstring>& records) {
  std::vector<ExampleBatchParser::Record> views;
  for (const tstring& record : records) views.push_back({record.data(), record.size()});
  return views;
}

const struct {
  size_t records;
  Lengths length;
} kBatches[] = {
    {3000, [](size_t) { return 8; }},                        // Nothing is known yet.
    {3000, [](size_t) { return 8; }},                        // All at their places.
    {3000, [](size_t i) { return i == 1700 ? 9 : 8; }},      // One value too many for its place.
    {3000, [](size_t i) { return i * 7 % 17; }},             //
    {3000, [](size_t i) { return i * 5 % 17; }},             // Places with room.
    {2000, [](size_t i) { return i < 1000 ? 30 : 0; }},      // More in the first half than there is room for.
    {3000, [](size_t i) { return i < 1500 ? 0 : 30; }},      // In the second.
    {3000, [](size_t) { return 2; }},                        // Less than half of the memory.
    {3000, [](size_t) { return 0; }},                        // Nothing.
    {3000, [](size_t i) { return i % 2; }},                  // Nothing was there before.
    {0, [](size_t) { return 8; }},                           //
    {1, [](size_t) { return 8; }},                           //
    {5000, [](size_t i) { return i % 500 == 0 ? 700 : 4; }}  // Lists longer than all others together.
};

TEST(BatchesOneAfterAnotherAreTensorFlows) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 4);
  for (ThreadPool* workers : {static_cast<ThreadPool*>(nullptr), &pool}) {
    std::shared_ptr<const ExampleBatchParser> parser;
    EXPECT_TRUE(ExampleBatchParser::Make(Spec(), ExampleBatchParser::Semantics::kBatch, &parser).ok());
    std::vector<ExampleBatchParser::Result> kept(std::size(kBatches));
    std::vector<tensorflow::example::Result> theirs(std::size(kBatches));
    for (size_t b = 0; b < std::size(kBatches); ++b) {
      const std::vector<tstring> records = Records(kBatches[b].records, kBatches[b].length);
      EXPECT_TRUE(parser->Parse(Views(records), {}, workers, &kept[b]).ok());
      EXPECT_TRUE(tensorflow::example::FastParseExample(Spec(), records, {}, nullptr, &theirs[b]).ok());
    }
    // Batches that are kept are not written over by later ones.
    for (size_t b = 0; b < std::size(kBatches); ++b) {
      ExpectSame(kept[b], theirs[b]);
      kept[b] = {};  // Memory for the next turn.
    }
  }
}

TEST(ManyThreadsMayUseOneParser) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 3);
  std::shared_ptr<const ExampleBatchParser> parser;
  EXPECT_TRUE(ExampleBatchParser::Make(Spec(), ExampleBatchParser::Semantics::kBatch, &parser).ok());
  std::vector<std::vector<tstring>> records;
  for (size_t b : {0, 1, 3}) records.push_back(Records(kBatches[b].records, kBatches[b].length));
  std::vector<tensorflow::example::Result> theirs(records.size());
  for (size_t b = 0; b < records.size(); ++b) {
    EXPECT_TRUE(tensorflow::example::FastParseExample(Spec(), records[b], {}, nullptr, &theirs[b]).ok());
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t turn = 0; turn < 8; ++turn) {
        const size_t b = (t + turn) % records.size();
        ExampleBatchParser::Result ours;
        EXPECT_TRUE(parser->Parse(Views(records[b]), {}, &pool, &ours).ok());
        ExpectSame(ours.sparse_values, theirs[b].sparse_values);
        ExpectSame(ours.dense_values, theirs[b].dense_values);
        ExpectSame(ours.ragged_values, theirs[b].ragged_values);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TheErrorIsTheFirstRecordsHoweverManyThreads) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 4);
  std::shared_ptr<const ExampleBatchParser> parser;
  EXPECT_TRUE(ExampleBatchParser::Make(Spec(), ExampleBatchParser::Semantics::kBatch, &parser).ok());
  std::vector<tstring> records = Records(3000, [](size_t i) { return i % 9; });
  std::vector<tstring> names;
  for (size_t i = 0; i < records.size(); ++i) names.emplace_back("record " + std::to_string(i));
  for (size_t first : {0, 700, 1499, 2999}) {
    std::vector<tstring> broken = records;
    for (size_t i : {first, size_t{2990}, size_t{2999}}) broken[i] = Example({Entry("pair", Int64Feature({1}))});
    for (int turn = 0; turn < 5; ++turn) {
      ExampleBatchParser::Result result;
      const tensorflow::Status status = parser->Parse(Views(broken), names, &pool, &result);
      const std::string first_name = "record " + std::to_string(std::min<size_t>(first, 2990)) + ",";
      EXPECT_TRUE(std::string(status.message()).find(first_name) != std::string::npos);
    }
  }
}

TEST(MemoryOfDeadTensorsIsUsedAgain) {
  const auto memory = std::make_shared<ValueMemory>();
  memory->StartBatch(1 << 20);
  const auto tensor = [&] {
    return memory->AsTensor(memory->Take(100 << 10), tensorflow::DT_INT64, tensorflow::TensorShape({100 << 7}));
  };
  Tensor a = tensor(), b = tensor();
  const void* const data = a.data();
  EXPECT_TRUE(b.data() != data);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  EXPECT_EQ(a.AllocatedBytes(), size_t{104} << 10);
  EXPECT_EQ(memory->kept(), 0u);
  a = Tensor();
  EXPECT_EQ(memory->kept(), size_t{104} << 10);  // In eighths of 64 KiB.
  a = tensor();
  EXPECT_EQ(a.data(), data);
  EXPECT_EQ(memory->kept(), 0u);
  a = b = Tensor();
  for (int batch = 0; batch < 100; ++batch) memory->StartBatch(10);  // Batches are small now.
  EXPECT_EQ(memory->kept(), 0u);
}

TEST(MemoryIsSharedByAllParsers) {
  const std::vector<tstring> records = Records(1000, [](size_t) { return 1; });
  std::shared_ptr<const ExampleBatchParser> parsers[2];
  const void* data[2];
  for (int p : {0, 1}) {
    EXPECT_TRUE(ExampleBatchParser::Make(Spec(), ExampleBatchParser::Semantics::kBatch, &parsers[p]).ok());
    ExampleBatchParser::Result result;
    EXPECT_TRUE(parsers[p]->Parse(Views(records), {}, nullptr, &result).ok());
    data[p] = result.dense_values[0].data();
  }
  EXPECT_EQ(data[0], data[1]);
  const std::weak_ptr<ValueMemory> memory = ValueMemory::OfAllParsers();
  EXPECT_TRUE(memory.lock()->kept() > 0);
  parsers[0] = nullptr;
  EXPECT_TRUE(!memory.expired());
  parsers[1] = nullptr;
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace tf_booster
