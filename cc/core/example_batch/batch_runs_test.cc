// A batch shared among threads as the parse ops share it: pieces that are taken and stolen, values at places that the
// batch before foretold, memory and slices of a pool that several batches use at once.
#include "cc/core/example_batch/batch_runs.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/cut_by_bytes.h"
#include "cc/core/base/shared_loop.h"
#include "cc/core/base/test.h"
#include "cc/core/example_batch/batch_plan.h"
#include "cc/core/example_parser/testing/feature.h"
#include "cc/core/example_parser/testing/wire_builder.h"

using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

namespace tf_booster {
namespace {

constexpr size_t kPair = 0, kIds = 1, kWeights = 2, kWords = 3, kFeatures = 4;
using Lengths = std::function<size_t(size_t record)>;

ExampleParser MakeParser() {
  std::vector<FeatureSpec> features = {FeatureOf("pair", ValueType::kInt64, FeatureKind::kFixedDense, 2),
                                       FeatureOf("ids", ValueType::kInt64, FeatureKind::kSparse, 1),
                                       FeatureOf("weights", ValueType::kFloat, FeatureKind::kRagged, 1),
                                       FeatureOf("words", ValueType::kBytes, FeatureKind::kSparse, 1)};
  std::shared_ptr<const ParserSpec> spec;
  EXPECT_OK(ParserSpec::Make(features, Semantics::kBatch, &spec));
  return ExampleParser(spec);
}

std::vector<std::string> Records(size_t n, const Lengths& length) {
  std::vector<std::string> records;
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<int64_t>(i);
    records.push_back(Example({Entry("pair", Int64Feature({id, -id})),
                               Entry("ids", Int64Feature(std::vector<int64_t>(length(i), id * 1000))),
                               Entry("weights", FloatFeature(std::vector<float>(length(i) / 2, 0.5f * id))),
                               Entry("words", BytesFeature({std::to_string(i)}))}));
  }
  return records;
}

// The threads of a pool, which come when they like; the last one when all is over.
class LateHelpers final : public ParallelFor {
 public:
  explicit LateHelpers(int num_threads) : num_threads_(num_threads) {}
  ~LateHelpers() override {
    for (std::thread& thread : threads_) thread.join();
  }

  int num_threads() const override { return num_threads_; }
  void Run(int64_t total, int64_t, FunctionRef<void(int64_t, int64_t)> body) override {
    const auto loop = std::make_shared<SharedLoop>(total, 1, body);
    for (int i = 1; i < num_threads_; ++i) threads_.emplace_back([loop] { loop->Help([] {}); });
    loop->RunAndWait();
    threads_.emplace_back([loop] { loop->Help([] {}); });
  }

 private:
  const int num_threads_;
  std::vector<std::thread> threads_;
};

// One parser's memory from batch to batch.
struct Shared {
  ExampleParser parser = MakeParser();
  KeptMemory memory;
  SlicePool pool;
};

void ParseBatch(Shared* shared, const std::vector<std::string>& records, size_t threads, std::vector<ListSizes>* last) {
  std::vector<Record> views;
  size_t bytes = 0;
  for (const std::string& record : records) {
    views.push_back({record.data(), record.size()});
    bytes += record.size();
  }
  const BatchPlan plan = {
      threads, CutByBytes(views.size(), bytes, 8 * threads, [&](size_t i) { return views[i].size; }), bytes, 1e9};
  shared->memory.StartBatch(bytes);
  ValueRooms rooms(&shared->memory);
  rooms.Make(kFeatures);
  for (const size_t f : {kIds, kWeights}) {
    const ListForecast forecast((*last)[f], views.size() / plan.pieces());
    if (forecast.known()) rooms.Take(f, forecast, views.size(), f == kIds ? sizeof(int64_t) : sizeof(float));
  }
  const KeptMemory::Block pairs = shared->memory.Take(views.size() * 2 * sizeof(int64_t));
  void* const fixed[kFeatures] = {pairs.data, nullptr, nullptr, nullptr};
  std::vector<int> parsed_rows(views.size());  // Written by whoever parses the row.
  {
    BatchRuns runs(&shared->parser, views.data(), views.size(), fixed, &rooms, &shared->pool);
    LateHelpers helpers(static_cast<int>(threads));
    const auto parsed = [&](const ParsedSlice& slice, size_t begin, size_t row) {
      for (; begin < slice.num_records(); ++begin) ++parsed_rows[row++];
    };
    plan.Walk(helpers, [&](BatchPlan::Next next) {
      BatchRuns::Walker walker(&runs, /*alone=*/threads == 1, parsed);
      for (size_t begin, end; next(&begin, &end) && walker.Parse(begin, end);) {
      }
    });
    EXPECT_TRUE(!runs.no_memory() && runs.error().kind == ParseErrorKind::kNone);
    runs.Sort();
    EXPECT_TRUE(std::all_of(parsed_rows.begin(), parsed_rows.end(), [](int times) { return times == 1; }));

    *last = std::vector<ListSizes>(kFeatures);
    ParsedSlice whole;
    ParseError error;
    std::vector<int64_t> whole_pairs(2 * views.size());
    void* const whole_fixed[kFeatures] = {whole_pairs.data(), nullptr, nullptr, nullptr};
    EXPECT_TRUE(shared->parser.Parse(views.data(), views.size(), 0, whole_fixed, &whole, &error));
    EXPECT_EQ(std::memcmp(pairs.data, whole_pairs.data(), whole_pairs.size() * sizeof(int64_t)), 0);
    size_t row = 0, ids = 0, weights = 0, words = 0;
    for (const BatchRun& run : runs.runs()) {
      const ParsedSlice& slice = *run.slice;
      EXPECT_EQ(run.first_row, row);
      const auto same_bytes = [](const BytesView& a, const BytesView& b) {
        return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0;
      };
      const auto &i = slice.int64s(kIds), &all_i = whole.int64s(kIds);
      const auto &w = slice.floats(kWeights), &all_w = whole.floats(kWeights);
      const auto &s = slice.bytes(kWords), &all_s = whole.bytes(kWords);
      EXPECT_TRUE(std::equal(i.data(), i.data() + i.size(), all_i.data() + ids));
      EXPECT_TRUE(std::equal(w.data(), w.data() + w.size(), all_w.data() + weights));
      EXPECT_TRUE(std::equal(s.data(), s.data() + s.size(), all_s.data() + words, same_bytes));
      ids += i.size(), weights += w.size(), words += s.size(), row += slice.num_records();
      for (size_t f : {kIds, kWeights, kWords}) {
        EXPECT_EQ(run.sizes[f].records, slice.num_records());
        (*last)[f].Add(run.sizes[f]);
      }
    }
    EXPECT_EQ(row, views.size());
    EXPECT_EQ(ids, whole.int64s(kIds).size());
  }
  shared->memory.Give(pairs);
}

const Lengths kLengths[] = {[](size_t) { return 8; },                     // All at their places in the second turn.
                            [](size_t i) { return i == 700 ? 9 : 8; },    // One value too many for its place.
                            [](size_t i) { return i * 7 % 17; },          // Places with room.
                            [](size_t i) { return i < 500 ? 30 : 0; },    // More than there is room for.
                            [](size_t) { return 0; },                     //
                            [](size_t i) { return i % 200 ? 4 : 300; }};  // Lists longer than many others together.

TEST(BatchAfterBatch) {
  for (size_t threads : {1, 2, 4}) {
    Shared shared;
    std::vector<ListSizes> last(kFeatures);
    for (const Lengths& length : kLengths) {
      for (size_t n : {1000, 1000, 1, 999}) ParseBatch(&shared, Records(n, length), threads, &last);
    }
  }
}

TEST(SeveralBatchesAtOnce) {
  Shared shared;
  std::vector<std::vector<std::string>> records;
  for (const Lengths& length : kLengths) records.push_back(Records(600, length));
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 3; ++c) {
    callers.emplace_back([&, c] {
      std::vector<ListSizes> last(kFeatures);
      for (size_t turn = 0; turn < 6; ++turn) {
        ParseBatch(&shared, records[(c + turn) % records.size()], 1 + turn % 3, &last);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(TheErrorIsTheFirstRecordsWhoeverFindsIt) {
  const ExampleParser parser = MakeParser();
  const std::vector<std::string> good = Records(900, [](size_t i) { return i % 9; });
  for (size_t first : {0, 300, 640, 899}) {
    std::vector<std::string> records = good;
    for (size_t i : {first, size_t{650}, size_t{899}}) records[i] = "no Example";
    std::vector<Record> views;
    for (const std::string& record : records) views.push_back({record.data(), record.size()});
    std::vector<int64_t> pairs(2 * views.size());
    void* const fixed[kFeatures] = {pairs.data(), nullptr, nullptr, nullptr};
    KeptMemory memory;
    SlicePool pool;
    ValueRooms rooms(&memory);
    rooms.Make(kFeatures);
    BatchRuns runs(&parser, views.data(), views.size(), fixed, &rooms, &pool);
    LateHelpers helpers(4);
    const BatchPlan plan = {4, CutByBytes(views.size(), 0, 32, [](size_t) { return 0; }), 0, 1e9};
    plan.Walk(helpers, [&](BatchPlan::Next next) {
      const auto parsed = [](const ParsedSlice&, size_t, size_t) {};
      BatchRuns::Walker walker(&runs, /*alone=*/false, parsed);
      for (size_t begin, end; next(&begin, &end) && walker.Parse(begin, end);) {
      }
    });
    EXPECT_EQ(runs.error().record, std::min<size_t>(first, 650));
  }
}

}  // namespace
}  // namespace tf_booster
