// Examples per second of the parser alone, by layout and instruction set. One thread, CPU time, medians; levels take
// turns, so that a busy neighbour slows all alike.
//
//   example_parser_bench [rounds = 15] [filter]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/core/example_parser/testing/bench.h"
#include "cc/core/example_parser/testing/feature.h"
#include "cc/core/example_parser/testing/wire_builder.h"

namespace tf_booster::example_parser {
namespace {

using testing::BytesFeature;
using testing::Entry;
using testing::Example;
using testing::FeatureOf;
using testing::FloatFeature;
using testing::Int64Feature;
using testing::Medians;
using testing::Random;
using testing::SmallId;

constexpr size_t kRecords = 2048;
// Parsed at once, as the kernels do it: what a slice holds should stay in the second-level cache until it is copied
// out.
constexpr size_t kSlice = 256;

struct Layout {
  const char* name;
  std::vector<FeatureSpec> features;
  // The entries of one record.
  std::function<std::vector<std::string>(Random&)> entries;
  bool shuffled = false;
};

// `lists` features of `length` ids.
Layout Ids(const char* name, int lists, int length, FeatureKind kind, std::function<int64_t(Random&)> id,
           bool shuffled = false) {
  Layout layout;
  layout.name = name;
  layout.shuffled = shuffled;
  std::vector<std::string> keys;
  for (int i = 0; i < lists; ++i) keys.push_back("f" + std::to_string(i));
  std::sort(keys.begin(), keys.end());
  for (const auto& key : keys) {
    layout.features.push_back(FeatureOf(key, ValueType::kInt64, kind, kind == FeatureKind::kFixedDense ? length : 1));
  }
  layout.entries = [keys, length, id](Random& random) {
    std::vector<std::string> entries;
    for (const auto& key : keys) {
      std::vector<int64_t> values(length);
      for (auto& value : values) value = id(random);
      entries.push_back(Entry(key, Int64Feature(values)));
    }
    return entries;
  };
  return layout;
}

// Criteo's label, 13 numbers and 26 hashed ids, and three histories of up to 60 ids; two features nobody asks for.
Layout Mixed() {
  Layout layout;
  layout.name = "mixed, Criteo with history, about 1.3 kB";
  layout.features.push_back(FeatureOf("label", ValueType::kFloat, FeatureKind::kFixedDense, 1));
  for (int i = 1; i <= 13; ++i) {
    layout.features.push_back(FeatureOf("I" + std::to_string(i), ValueType::kFloat, FeatureKind::kFixedDense, 1));
  }
  for (int i = 1; i <= 26; ++i) {
    layout.features.push_back(FeatureOf("C" + std::to_string(i), ValueType::kInt64, FeatureKind::kFixedDense, 1));
  }
  for (const char* name : {"user_click_history_item_ids", "user_click_history_category_ids", "user_cart_item_ids"}) {
    layout.features.push_back(FeatureOf(name, ValueType::kInt64, FeatureKind::kSparse, 1));
  }
  layout.entries = [](Random& random) {
    std::vector<std::string> entries;
    const auto number = [&] { return static_cast<float>(random() % 1000); };
    entries.push_back(Entry("label", FloatFeature({number()})));
    for (int i = 1; i <= 13; ++i) entries.push_back(Entry("I" + std::to_string(i), FloatFeature({number()})));
    for (int i = 1; i <= 26; ++i) {
      entries.push_back(Entry("C" + std::to_string(i), Int64Feature({static_cast<int64_t>(random() >> 1)})));
    }
    for (const char* name : {"user_click_history_item_ids", "user_click_history_category_ids", "user_cart_item_ids"}) {
      std::vector<int64_t> values(random() % 60);
      for (auto& value : values) value = SmallId(random, 28);
      entries.push_back(Entry(name, Int64Feature(values)));
    }
    entries.push_back(Entry("request_id", BytesFeature({std::string(16, 'x')})));
    entries.push_back(Entry("timestamp", Int64Feature({1700000000})));
    return entries;
  };
  return layout;
}

Layout Strings() {
  Layout layout;
  layout.name = "strings, 26 x 1 of 8 bytes, sparse";
  std::vector<std::string> keys;
  for (int i = 1; i <= 26; ++i) keys.push_back("C" + std::to_string(i));
  for (const auto& key : keys) layout.features.push_back(FeatureOf(key, ValueType::kBytes, FeatureKind::kSparse, 1));
  layout.entries = [keys](Random& random) {
    std::vector<std::string> entries;
    for (const auto& key : keys) {
      char text[17];
      std::snprintf(text, sizeof(text), "%08x", static_cast<unsigned>(random()));
      entries.push_back(Entry(key, BytesFeature({text})));
    }
    return entries;
  };
  return layout;
}

// Each feature in half of the records only; the default stands in.
Layout Missing() {
  Layout layout = Ids("39 x 1, fixed, half of them missing", 39, 1, FeatureKind::kFixedDense,
                      [](Random& random) { return SmallId(random, 20); });
  for (FeatureSpec& feature : layout.features) {
    feature.required = false;
    feature.default_int64 = {0};
  }
  layout.entries = [all = layout.entries](Random& random) {
    std::vector<std::string> some;
    for (auto& entry : all(random)) {
      if (random() % 2 == 0) some.push_back(std::move(entry));
    }
    return some;
  };
  return layout;
}

// Ten features of a hundred.
Layout Few() {
  Layout layout =
      Ids("10 of 100 x 1, fixed", 100, 1, FeatureKind::kFixedDense, [](Random& random) { return SmallId(random, 20); });
  std::vector<FeatureSpec> few;
  for (size_t f = 0; f < layout.features.size(); f += 10) few.push_back(layout.features[f]);
  layout.features = few;
  return layout;
}

struct Data {
  std::vector<std::string> serialized;
  std::vector<Record> records;
  size_t bytes = 0;
};

Data MakeData(const Layout& layout) {
  Random random(7);
  Data data;
  for (size_t r = 0; r < kRecords; ++r) {
    auto entries = layout.entries(random);
    if (layout.shuffled) std::shuffle(entries.begin(), entries.end(), random);
    data.serialized.push_back(Example(entries));
    data.bytes += data.serialized.back().size();
  }
  for (const auto& s : data.serialized) data.records.push_back({s.data(), s.size()});
  return data;
}

void BenchLayout(const Layout& layout, int rounds) {
  const Data data = MakeData(layout);
  std::shared_ptr<const ParserSpec> spec;
  if (!ParserSpec::Make(layout.features, Semantics::kBatch, &spec).ok()) std::abort();
  std::vector<std::vector<int64_t>> outputs(layout.features.size());
  std::vector<void*> fixed(layout.features.size());
  for (size_t f = 0; f < fixed.size(); ++f) {
    outputs[f].resize(kRecords * layout.features[f].elements);
    fixed[f] = outputs[f].data();
  }
  std::vector<std::function<void()>> bodies;
  std::vector<ParsedSlice> slices(4);
  for (SimdLevel level : RunnableSimdLevels()) {
    bodies.push_back([&, level] {
      const ExampleParser parser(spec, level);
      ParseError error;
      for (size_t first = 0; first < kRecords; first += kSlice) {
        if (!parser.Parse(&data.records[first], kSlice, first, fixed.data(), &slices[static_cast<int>(level)],
                          &error)) {
          std::printf("%s\n", ToStatus(error, *spec).message().c_str());
          std::abort();
        }
      }
    });
  }
  const std::vector<double> seconds = Medians(rounds, bodies);
  std::printf("%-42s %5.0f B", layout.name, static_cast<double>(data.bytes) / kRecords);
  for (double s : seconds) std::printf(" %9.0f k/s (%4.1f GB/s)", kRecords / s * 1e-3, data.bytes / s * 1e-9);
  std::printf("\n");
}

// What part of 39 x 1 is what: stepping from entry to entry, each waiting for the length of the one before; reading
// each value too, as if keys were known to be right; and the parser.
void BenchFloors(const Layout& layout, int rounds) {
  const Data data = MakeData(layout);
  const size_t keys = layout.features.size();
  std::vector<size_t> prefix;
  for (const FeatureSpec& feature : layout.features) prefix.push_back(feature.name.size() + 10);
  constexpr size_t kColumn = kRecords + 8;  // Columns a power of two apart would share one set of the cache.
  std::vector<int64_t> out(keys * kColumn);
  const auto first_entry = [](const Record& record) {
    const uint8_t* p = reinterpret_cast<const uint8_t*>(record.data) + 2;
    return p[-1] < 0x80 ? p : p + 1;
  };
  size_t steps = 0;
  const std::function<void()> walk = [&] {
    for (const Record& record : data.records) {
      const uint8_t* end = reinterpret_cast<const uint8_t*>(record.data) + record.size;
      for (const uint8_t* p = first_entry(record); p < end; p += 2 + p[1]) ++steps;
    }
  };
  const std::function<void()> values = [&] {
    for (size_t r = 0; r < kRecords; ++r) {
      const uint8_t* p = first_entry(data.records[r]);
      for (size_t f = 0; f < keys; ++f) {
        const size_t size = 2 + p[1] - prefix[f];
        p += 2 + p[1];
        const uint64_t x = Load64(p - 8) >> (64 - 8 * size) & 0x7f7f7f7f7f7f7f7f;
        out[f * kColumn + r] = static_cast<int64_t>((x & 0x7f) | (x & 0x7f00) >> 1 | (x & 0x7f0000) >> 2);
      }
    }
  };
  const std::vector<double> seconds = Medians(rounds, {walk, values});
  std::printf("%-42s steps alone %.0f k/s, with values of up to three bytes unchecked %.0f k/s (%zu)\n",
              "  floors of 39 x 1, fixed", kRecords / seconds[0] * 1e-3, kRecords / seconds[1] * 1e-3, steps % 10);
}

void Run(int rounds, const std::string& filter) {
  const auto wanted = [&](const char* name) { return std::string(name).find(filter) != std::string::npos; };
  const auto small = [](Random& random) { return SmallId(random, 20); };
  const auto hashed = [](Random& random) { return static_cast<int64_t>(random()); };
  const FeatureKind fixed = FeatureKind::kFixedDense, sparse = FeatureKind::kSparse;
  const std::vector<Layout> layouts = {Ids("39 x 1, fixed", 39, 1, fixed, small),
                                       Ids("39 x 1, fixed, hashed ids", 39, 1, fixed, hashed),
                                       Ids("39 x 1, fixed, shuffled keys", 39, 1, fixed, small, true),
                                       Ids("39 x 1, sparse", 39, 1, sparse, small),
                                       Ids("26 x 20, fixed", 26, 20, fixed, small),
                                       Ids("26 x 20, sparse", 26, 20, sparse, small),
                                       Ids("26 x 20, fixed, hashed ids", 26, 20, fixed, hashed),
                                       Ids("8 x 200, fixed", 8, 200, fixed, small),
                                       Ids("8 x 200, sparse", 8, 200, sparse, small),
                                       Ids("8 x 200, sparse, hashed ids", 8, 200, sparse, hashed),
                                       Missing(),
                                       Few(),
                                       Strings(),
                                       Mixed()};
  std::printf("parser, one thread; levels:");
  for (SimdLevel level : RunnableSimdLevels()) std::printf(" %s", SimdLevelName(level));
  std::printf("\n");
  for (const Layout& layout : layouts) {
    if (wanted(layout.name)) BenchLayout(layout, rounds);
    if (&layout == &layouts[0] && wanted(layout.name)) BenchFloors(layout, rounds);
  }
}

}  // namespace
}  // namespace tf_booster::example_parser

int main(int argc, char** argv) {
  tf_booster::example_parser::Run(argc > 1 ? std::atoi(argv[1]) : 15, argc > 2 ? argv[2] : "");
  return 0;
}
