// One parser over batches that come one after another, alone and on several threads, against TensorFlow's: where values
// go depends on the batch before, and on which thread parsed which records.
#include "cc/tf/example_parsing/sequence_batch_parser.h"

#include <functional>
#include <iterator>
#include <memory>
#include <string>
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
using example_parser::testing::Field;
using example_parser::testing::FloatFeature;
using example_parser::testing::Int64Feature;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::thread::ThreadPool;
using testing::ExpectSame;
using Config = SequenceBatchParser::Config;
using Steps = std::function<size_t(size_t record)>;

Config Context() {
  Config config;
  config.dense.emplace_back("user", tensorflow::DT_INT64, tensorflow::PartialTensorShape({}),
                            Tensor(tensorflow::DT_INT64, {0}), false, 1);
  config.sparse.emplace_back("tags", tensorflow::DT_INT64);
  return config;
}

Config Lists() {
  Config config;
  Tensor number(tensorflow::DT_INT64, {});
  number.scalar<int64_t>()() = 0;
  config.dense.emplace_back("clicks", tensorflow::DT_INT64, tensorflow::PartialTensorShape({2}), number, false, 0);
  config.dense.emplace_back("words", tensorflow::DT_STRING, tensorflow::PartialTensorShape({}), Tensor(tstring()),
                            false, 0);
  config.sparse.emplace_back("prices", tensorflow::DT_FLOAT);
  config.ragged.emplace_back("items", tensorflow::DT_INT64, tensorflow::DT_INT32);
  config.ragged.emplace_back("ids", tensorflow::DT_INT64, tensorflow::DT_INT64);
  return config;
}

std::string List(size_t steps, const std::function<std::string(int64_t step)>& feature) {
  std::string list;
  for (size_t s = 0; s < steps; ++s) list += Field(0x0A, feature(static_cast<int64_t>(s)));
  return list;
}

// `values` of each step of `items`, of which others have one.
std::vector<tstring> Records(size_t n, const Steps& steps, const Steps& values) {
  std::vector<tstring> records;
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<int64_t>(i);
    const size_t k = steps(i);
    const std::string lists =
        Entry("clicks", List(k,
                             [&](int64_t s) {
                               return Int64Feature({id, s});
                             })) +
        Entry("words", List(k % 4, [&](int64_t s) { return BytesFeature({std::to_string(id * s)}); })) +
        Entry("prices", List(k, [&](int64_t s) { return FloatFeature({0.5f * static_cast<float>(s)}); })) +
        Entry("items",
              List(k, [&](int64_t s) { return Int64Feature(std::vector<int64_t>(values(i), id * 1000 + s)); })) +
        Entry("ids", List(k, [&](int64_t s) { return Int64Feature({id << 40 | s}); }));
    records.emplace_back(Example({Entry("user", Int64Feature({id})), Entry("tags", Int64Feature({id, 1}))}) +
                         Field(0x12, lists));
  }
  return records;
}

size_t One(size_t) { return 1; }

const struct {
  size_t records;
  Steps steps, values;
} kBatches[] = {
    {1500, [](size_t) { return 8; }, One},                             // Nothing is known yet.
    {1500, [](size_t) { return 8; }, One},                             // All at their places.
    {1500, [](size_t i) { return i == 900 ? 9 : 8; }, One},            // One step too many for its place.
    {1500, [](size_t i) { return i * 7 % 17; }, One},                  //
    {1500, [](size_t i) { return i * 5 % 17; }, One},                  // Places with room.
    {1500, [](size_t) { return 8; }, [](size_t i) { return i % 3; }},  // Steps of several values, and of none.
    {1500, [](size_t i) { return i < 100 ? 150 : 1; }, One},           // Most bytes are the first records'.
    {1500, [](size_t i) { return i < 1400 ? 0 : 100; }, One},          // The last ones'.
    {1500, [](size_t) { return 0; }, One},                             // Nothing.
    {1500, [](size_t i) { return i % 2; }, One},                       // Nothing was there before.
    {1, [](size_t) { return 8; }, One},                                //
};

TEST(BatchesOneAfterAnotherAreTensorFlows) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 4);
  for (ThreadPool* workers : {static_cast<ThreadPool*>(nullptr), &pool}) {
    std::shared_ptr<const SequenceBatchParser> parser;
    EXPECT_TRUE(SequenceBatchParser::Make(Context(), Lists(), &parser).ok());
    std::vector<SequenceResult> kept(std::size(kBatches)), theirs(std::size(kBatches));
    for (size_t b = 0; b < std::size(kBatches); ++b) {
      const std::vector<tstring> records = Records(kBatches[b].records, kBatches[b].steps, kBatches[b].values);
      EXPECT_TRUE(parser->Parse(records, {}, true, workers, &kept[b]).ok());
      EXPECT_TRUE(ParseSequencesAsTensorFlow(Context(), Lists(), records, {}, true, nullptr, &theirs[b]).ok());
    }
    // Batches that are kept are not written over by later ones.
    for (size_t b = 0; b < std::size(kBatches); ++b) {
      ExpectSame(kept[b].context, theirs[b].context);
      ExpectSame(kept[b].lists, theirs[b].lists);
      ExpectSame(kept[b].dense_lengths, theirs[b].dense_lengths);
    }
  }
}

TEST(ABatchWithAnOddRecordIsTensorFlowsHoweverManyThreads) {
  ThreadPool pool(tensorflow::Env::Default(), "test", 4);
  std::shared_ptr<const SequenceBatchParser> parser;
  EXPECT_TRUE(SequenceBatchParser::Make(Context(), Lists(), &parser).ok());
  const std::vector<tstring> records = Records(
      1500, [](size_t i) { return i % 9; }, One);
  for (const size_t odd : {0, 800, 1499}) {
    std::vector<tstring> batch = records;
    batch[odd] = std::string(batch[odd]) + Field(0x1A, "unknown");
    SequenceResult ours, theirs;
    EXPECT_TRUE(parser->Parse(batch, {}, true, &pool, &ours).ok());
    EXPECT_TRUE(ParseSequencesAsTensorFlow(Context(), Lists(), batch, {}, true, nullptr, &theirs).ok());
    ExpectSame(ours.lists, theirs.lists);
    batch[odd] = "broken";
    EXPECT_TRUE(!parser->Parse(batch, {}, true, &pool, &ours).ok());
  }
}

}  // namespace
}  // namespace tf_booster
