// SequenceExamples: every level against the reference, on records by chance and on forms by hand.
#include "cc/core/example_parser/sequence_example.h"

#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/random_sequences.h"
#include "cc/core/example_parser/testing/sequences_against_reference.h"
#include "cc/core/example_parser/testing/wire_builder.h"

using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

namespace {

// id: one int64 of the context, required; and the list h, of this kind and type.
SequenceVerdict Check(ValueType type, FeatureKind kind, const std::string& record, size_t elements = 1,
                      bool required = false) {
  FeatureSpec id;
  id.name = "id";
  FeatureSpec list;
  list.name = "h";
  list.type = type;
  list.kind = kind;
  list.elements = elements;
  list.required = required;
  return CompareSequenceLevels(MakeSpec({id}, Semantics::kContext), MakeSpec({list}, Semantics::kFeatureLists),
                               {record});
}

std::string Step(const std::string& feature) { return Field(kLengthTag1, feature); }
const std::string kId = Example({Entry("id", Int64Feature({7}))});

std::string WithSteps(const std::string& steps) { return kId + Field(kLengthTag2, Entry("h", steps)); }

}  // namespace

TEST(RecordsByChance) {
  int plain = 0;
  constexpr int kSeeds = 400;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RandomSequences source(seed);
    std::vector<std::string> records;
    for (int i = 0; i < 4; ++i) records.push_back(source.Record());
    const SequenceVerdict verdict = CompareSequenceLevels(source.Context(), source.Lists(), records);
    EXPECT_EQ(verdict.difference, "");
    plain += verdict.plain;
    for (const std::string& record : {records[0], source.Damaged(records[1])}) {
      EXPECT_EQ(CompareSequenceLevels(source.Context(), source.Lists(), {record}).difference, "");
    }
    if (tf_booster::testing::Failures() > 0) return (void)printf("  seed %lu\n", static_cast<unsigned long>(seed));
  }
  // Half of the specs' contexts are damaged or repeat a key, which is not plain.
  EXPECT_TRUE(plain > kSeeds / 4);
}

TEST(RecordsCutAtEveryByte) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomSequences source(seed + 1000);
    const std::string record = source.Record();
    if (record.size() > 1500) continue;
    const auto context = source.Context(), lists = source.Lists();
    for (size_t size = 0; size < record.size(); ++size) {
      EXPECT_EQ(CompareSequenceLevels(context, lists, {record.substr(0, size)}).difference, "");
    }
  }
}

// What libraries write is plain; the difference is the reference's business.
TEST(PlainForms) {
  const auto plain = [](ValueType type, FeatureKind kind, const std::string& record, size_t elements = 1) {
    const SequenceVerdict verdict = Check(type, kind, record, elements);
    EXPECT_EQ(verdict.difference, "");
    return verdict.plain;
  };
  const std::string one = Step(Int64Feature({5})), hash = Step(Int64Feature({-3}));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kSparse, WithSteps(one + hash + one)));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kRagged, WithSteps("")));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kVarLenDense, WithSteps(one + one)));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kVarLenDense, WithSteps(Step(Int64Feature({1, 300})) + hash), 2) ==
              false);
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kVarLenDense, WithSteps(Step(Int64Feature({1, 300}))), 2));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kSparse, WithSteps(Step(TaggedInt64Feature({1, -1})) + one)));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kRagged, WithSteps(Step("") + Step(Int64Feature({})) + one)));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kRagged, WithSteps(one + Step(Int64Feature({1, 2, 300})) + one)));
  EXPECT_TRUE(plain(ValueType::kFloat, FeatureKind::kSparse,
                    WithSteps(Step(FloatFeature({1})) + Step(FloatFeature({1, 2})) + Step(TaggedFloatFeature({3})))));
  EXPECT_TRUE(plain(ValueType::kBytes, FeatureKind::kRagged,
                    WithSteps(Step(BytesFeature({"a"})) + Step(BytesFeature({""})) + Step(BytesFeature({"b", "c"})) +
                              Step(BytesFeature({std::string(500, 'x')})))));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kSparse, kId));
  EXPECT_TRUE(plain(ValueType::kInt64, FeatureKind::kSparse, Field(kLengthTag2, "") + kId));
}

TEST(OddForms) {
  const std::string one = Step(Int64Feature({5}));
  const auto odd = [](ValueType type, const std::string& record, bool required = false) {
    const SequenceVerdict verdict = Check(type, FeatureKind::kVarLenDense, record, 1, required);
    EXPECT_EQ(verdict.difference, "");
    return !verdict.plain;
  };
  EXPECT_TRUE(odd(ValueType::kInt64, WithSteps(one) + kId));
  EXPECT_TRUE(odd(ValueType::kInt64, WithSteps(one) + Field(kLengthTag3, "x")));
  EXPECT_TRUE(odd(ValueType::kInt64, kId + Field(kLengthTag2, Entry("h", one) + Entry("h", one))));
  EXPECT_TRUE(odd(ValueType::kInt64, kId, /*required=*/true));
  EXPECT_TRUE(odd(ValueType::kFloat, WithSteps(one)));
  EXPECT_TRUE(odd(ValueType::kInt64, WithSteps(Step(""))));
  EXPECT_TRUE(odd(ValueType::kInt64, Example({Entry("id", "")}) + Field(kLengthTag2, Entry("h", one))));
  EXPECT_TRUE(odd(ValueType::kInt64, WithSteps(Step(Int64Feature({5}) + "behind"))));
}

TEST(Hazards) {
  const auto hazard = [](const std::string& record) {
    EXPECT_EQ(Check(ValueType::kBytes, FeatureKind::kSparse, record).difference, "");
    FeatureSpec name, list;
    name.name = "id";
    list.name = "h";
    name.type = list.type = ValueType::kBytes;
    list.kind = FeatureKind::kSparse;
    const ExactCopy copy(record);
    return FindHazard(copy.record(), *MakeSpec({name}, Semantics::kContext),
                      *MakeSpec({list}, Semantics::kFeatureLists));
  };
  using Kind = SequenceHazard::Kind;
  const std::string long_string = Field(kLengthTag1, std::string("\x0a\x7fx", 3));
  EXPECT_TRUE(hazard(WithSteps(Step(long_string))).kind == Kind::kLongString);
  EXPECT_TRUE(!hazard(WithSteps(Step(long_string))).in_context);
  EXPECT_TRUE(hazard(Example({Entry("id", long_string)})).in_context);
  EXPECT_TRUE(hazard(WithSteps(Step(BytesFeature({"right"})))).kind == Kind::kNone);
  // An entry of the same key behind it counts instead.
  EXPECT_TRUE(hazard(WithSteps(Step(long_string)) + Field(kLengthTag2, Entry("h", ""))).kind == Kind::kNone);
  EXPECT_TRUE(
      FindHazard({"", size_t{1} << 31}, *MakeSpec({}, Semantics::kContext), *MakeSpec({}, Semantics::kFeatureLists))
          .kind == Kind::kTooLong);
}

TEST(ListsHaveNoFixedLength) {
  std::shared_ptr<const ParserSpec> spec;
  FeatureSpec fixed;
  fixed.name = "h";
  EXPECT_TRUE(!ParserSpec::Make({fixed}, Semantics::kFeatureLists, &spec).ok());
}
