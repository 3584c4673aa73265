// Random specs and records, right, odd and damaged: every level gives what the reference gives.
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/against_reference.h"
#include "cc/core/example_parser/testing/random_records.h"

using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

TEST(BatchesOfAnySpec) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomRecords source(seed);
    std::vector<std::string> records;
    for (size_t i = 0; i < 8; ++i) records.push_back(source.Record());
    EXPECT_EQ(CompareLevels(source.Spec(), records, seed % 3), "");
    if (tf_booster::testing::Failures() > 0) return (void)printf("  seed %lu\n", static_cast<unsigned long>(seed));
  }
}

// One record a batch, so that a damaged one hides none behind it.
TEST(DamagedRecords) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomRecords source(seed + 1000000);
    const auto spec = source.Spec();
    for (int i = 0; i < 5; ++i) {
      const std::string record = source.Record();
      EXPECT_EQ(CompareLevels(spec, {record, source.Damaged(record)}), "");
    }
    if (tf_booster::testing::Failures() > 0) return (void)printf("  seed %lu\n", static_cast<unsigned long>(seed));
  }
}

TEST(RecordsCutAtEveryByte) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomRecords source(seed + 2000000);
    const std::string record = source.Record();
    if (record.size() > 1500) continue;
    for (size_t size = 0; size < record.size(); ++size) {
      EXPECT_EQ(CompareLevels(source.Spec(), {record.substr(0, size)}), "");
    }
    if (tf_booster::testing::Failures() > 0) return (void)printf("  seed %lu\n", static_cast<unsigned long>(seed));
  }
}
