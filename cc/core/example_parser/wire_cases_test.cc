// What TensorFlow's parser makes of odd records, case by case: each answer was seen from TensorFlow 2.15.1, but where a
// list claims a string, or packed floats, of 2^31 bytes or more: TensorFlow dies of those.
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/against_reference.h"
#include "cc/core/example_parser/testing/feature.h"
#include "cc/core/example_parser/testing/wire_builder.h"

using namespace tf_booster::example_parser;           // NOLINT
using namespace tf_booster::example_parser::testing;  // NOLINT

namespace {

// a: one int64, 7 by default; f: two floats, 7 and 8; v: sparse int64; s: sparse strings; l: floats in twos; t: two
// strings.
std::vector<FeatureSpec> Features() {
  std::vector<FeatureSpec> features = {FeatureOf("a", ValueType::kInt64, FeatureKind::kFixedDense, 1),
                                       FeatureOf("f", ValueType::kFloat, FeatureKind::kFixedDense, 2),
                                       FeatureOf("v", ValueType::kInt64, FeatureKind::kSparse, 1),
                                       FeatureOf("s", ValueType::kBytes, FeatureKind::kRagged, 1),
                                       FeatureOf("l", ValueType::kFloat, FeatureKind::kVarLenDense, 2),
                                       FeatureOf("t", ValueType::kBytes, FeatureKind::kFixedDense, 2)};
  for (FeatureSpec& feature : features) feature.required = false;
  features[0].default_int64 = {7};
  features[1].default_float = {7, 8};
  features[5].default_bytes = {"x", "y"};
  return features;
}

// "a=7 f=7,8 v=" or "kBadList of 2".
std::string Show(const std::string& record, Semantics semantics) {
  static const char* const kNames[] = {"none",     "bad record",  "unsupported type", "type mismatch",
                                       "bad list", "wrong count", "not a multiple",   "missing"};
  std::shared_ptr<const ParserSpec> spec;
  EXPECT_OK(ParserSpec::Make(Features(), semantics, &spec));
  EXPECT_EQ(CompareLevels(spec, {record}), "");
  const reference::Outcome outcome = reference::ParseRecord(*spec, record);
  if (outcome.error == ParseErrorKind::kBadRecord) return kNames[1];
  std::ostringstream out;
  if (outcome.error != ParseErrorKind::kNone) {
    out << spec->features()[outcome.feature].name << ": " << kNames[static_cast<int>(outcome.error)];
    return out.str();
  }
  // Only what differs from a record without features.
  for (size_t f = 0; f < spec->size(); ++f) {
    const FeatureSpec& feature = spec->features()[f];
    const reference::Values& values = outcome.values[f];
    if (feature.kind == FeatureKind::kFixedDense && values.int64s == feature.default_int64 &&
        values.floats == feature.default_float && values.bytes == feature.default_bytes) {
      continue;
    }
    if (values.int64s.empty() && values.floats.empty() && values.bytes.empty()) continue;
    out << feature.name << "=";
    for (int64_t value : values.int64s) out << value << ",";
    for (float value : values.floats) out << value << ",";
    for (const std::string& value : values.bytes) out << value << ",";
    out << " ";
  }
  return out.str();
}
std::string Batch(const std::string& record) { return Show(record, Semantics::kBatch); }
std::string Single(const std::string& record) { return Show(record, Semantics::kSingle); }

std::string One(const std::string& key, const std::string& feature) { return Example({Entry(key, feature)}); }
// Of a feature whose list has these bytes.
std::string Int64List(const std::string& key, const std::string& list) { return One(key, Field(0x1a, list)); }
std::string FloatList(const std::string& key, const std::string& list) { return One(key, Field(0x12, list)); }

const std::string kOne = PackedFloats({1});

}  // namespace

TEST(Maps) {
  const std::string five = Entry("a", Int64Feature({5})), six = Entry("a", Int64Feature({6}));
  EXPECT_EQ(Batch(Example({five})), "a=5, ");
  EXPECT_EQ(Batch(""), "");
  EXPECT_EQ(Batch(Example({})), "");
  EXPECT_EQ(Batch(Example({five, six})), "a=6, ");
  EXPECT_EQ(Batch(Example({six}) + Example({five})), "a=5, ");
  EXPECT_EQ(Batch(Example({Entry("b", "anything")})), "");
  // Value before key; two keys; no value; a third field; a tag of two bytes.
  EXPECT_EQ(Batch(Example({Field(0x0a, Field(0x12, Int64Feature({5})) + Field(0x0a, "a"))})), "a=5, ");
  EXPECT_EQ(Batch(Example({Field(0x0a, Field(0x0a, "a") + Field(0x0a, "a"))})), "");
  EXPECT_EQ(Batch(Example({Field(0x0a, Field(0x0a, "a"))})), "bad record");
  EXPECT_EQ(Batch(Example({Field(0x0a, Field(0x0a, "a") + Field(0x12, "") + Field(0x0a, "a"))})), "bad record");
  EXPECT_EQ(Batch(Example({Field(0x0a, "\x8a" + std::string(1, '\0') + "\1a" + Field(0x12, Int64Feature({5})))})),
            "a=5, ");
}

TEST(LastOneWinsUnlessItHasNoKind) {
  const std::string a = Entry("a", Int64Feature({5})), v = Entry("v", Int64Feature({5}));
  EXPECT_EQ(Batch(Example({a, Entry("a", "")})), "a=5, ");
  EXPECT_EQ(Single(Example({a, Entry("a", "")})), "a=5, ");
  EXPECT_EQ(Batch(Example({v, Entry("v", "")})), "");
  EXPECT_EQ(Single(Example({v, Entry("v", "")})), "v=5, ");
  EXPECT_EQ(Batch(Example({Entry("v", ""), v})), "v=5, ");
  // A kind that does not exist is an error wherever it stands, a wrong one only in the last place.
  EXPECT_EQ(Batch(Example({Entry("a", "\x22"), a})), "a: unsupported type");
  EXPECT_EQ(Batch(Example({Entry("a", FloatFeature({1})), a})), "a=5, ");
  EXPECT_EQ(Batch(Example({a, Entry("a", FloatFeature({1}))})), "a: type mismatch");
  EXPECT_EQ(Batch(One("v", BytesFeature({}))), "v: type mismatch");
}

TEST(UnknownFields) {
  const std::string a = One("a", Int64Feature({5})), b = One("a", Int64Feature({6}));
  EXPECT_EQ(Batch(a + "\x10\x01" + "\x19" + std::string(8, 'x') + "\x1d" + std::string(4, 'x') + b), "a=6, ");
  EXPECT_EQ(Batch(a + "\x12\x02xy"), "a=5, ");
  EXPECT_EQ(Batch(a + "\x12\x7f\x01"), "a=5, ");                  // Past the end: up to it.
  EXPECT_EQ(Batch(a + "\x12\xff\xff\xff\xff\x0f" + b), "a=6, ");  // 2^32 - 1: nothing.
  EXPECT_EQ(Batch(std::string(1, '\0') + "\x05" + a), "a=5, ");
  EXPECT_EQ(Batch(a + "\x13\x14"), "bad record");  // A group.
  EXPECT_EQ(Batch(a + "\x14"), "bad record");
  EXPECT_EQ(Batch(a + "\x16"), "bad record");
  EXPECT_EQ(Batch(a + "\x19" + std::string(7, 'x')), "bad record");
  EXPECT_EQ(Batch(a + "\x1d" + std::string(3, 'x')), "bad record");
  EXPECT_EQ(Batch(a + "\x10"), "bad record");
}

TEST(LengthsThatLie) {
  const std::string a = Entry("a", Int64Feature({5}));
  EXPECT_EQ(Batch("\x0a\x7f" + a), "a=5, ");
  for (const char* length : {"\xff\xff\xff\xff\x07", "\xff\xff\xff\xff\x0f", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}) {
    EXPECT_EQ(Batch("\x0a" + std::string(length) + a), "a=5, ");
    EXPECT_EQ(Batch("\x0a" + std::string(length)), "");
    EXPECT_EQ(Batch(Example({Field(0x0a, "\x0a" + std::string(length) + "a")})), "bad record");
    EXPECT_EQ(Batch(One("a", "\x1a" + std::string(length) + "\x0a\x01\x05")), "a=5, ");
    EXPECT_EQ(Batch(Int64List("a", "\x0a" + std::string(length) + "\x05")), "a=5, ");
    EXPECT_EQ(Batch(One("s", Field(0x0a, "\x0a" + std::string(length) + "x"))), "s: bad list");
    EXPECT_EQ(Batch(FloatList("l", "\x0a" + std::string(length) + kOne + kOne)), "l: bad list");
    EXPECT_EQ(Batch(FloatList("f", "\x0a" + std::string(length) + kOne + kOne)), "f: wrong count");
    EXPECT_EQ(Batch(FloatList("f", "\x0a" + std::string(length) + kOne)), "f: bad list");
  }
  EXPECT_EQ(Batch("\x0a\x0b\x0a\x7f\x0a\x01"
                  "a\x12\x05\x1a\x03\x0a"),
            "bad record");
}

TEST(Lists) {
  EXPECT_EQ(Batch(Int64List("v", Field(0x0a, "\1\2") + Field(0x0a, "\3"))), "v=1,2, ");
  EXPECT_EQ(Batch(Int64List("v", "\x08\x01\x08\x02")), "v=1,2, ");
  EXPECT_EQ(Batch(Int64List("v", "\x08\x01\x0a\x01\x02")), "v: bad list");
  EXPECT_EQ(Batch(Int64List("v", "\x10\x01")), "v: bad list");
  EXPECT_EQ(Batch(Int64List("v", Field(0x0a, "\1") + "junk")), "v=1, ");
  EXPECT_EQ(Batch(One("v", Int64Feature({1}) + "junk")), "v=1, ");
  EXPECT_EQ(Batch(One("v", Int64Feature({1}) + FloatFeature({2}))), "v=1, ");
  EXPECT_EQ(Batch(One("v", "\x1a")), "v: bad list");
  EXPECT_EQ(Batch(Int64List("a", "")), "a: wrong count");
  EXPECT_EQ(Batch(Int64List("a", Field(0x0a, ""))), "a: wrong count");
  EXPECT_EQ(Batch(Int64List("a", Field(0x0a, "\5\6"))), "a: wrong count");
  EXPECT_EQ(Batch(Int64List("a", Field(0x0a, std::string(9, '\xff') + "\x7f"))), "a=-1, ");
  EXPECT_EQ(Batch(Int64List("a", Field(0x0a, std::string(10, '\xff') + "\x01"))), "a: bad list");
}

// Behind 0 to 130 bytes of whole varints of one or three bytes comes the begin of one more: no list.
TEST(TheLastVarintIsCutOff) {
  for (int64_t value : {1, 100000}) {
    std::vector<int64_t> values;
    for (; PackedVarints(values).size() <= 130; values.push_back(value)) {
      const std::string cut = Field(kLengthTag3, Field(kLengthTag1, PackedVarints(values) + "\x80"));
      EXPECT_EQ(Show(Example({Entry("v", cut)}), Semantics::kBatch), "v: bad list");
      EXPECT_EQ(Show(Example({Entry("a", Int64Feature({1})), Entry("v", cut)}), Semantics::kBatch), "v: bad list");
    }
  }
}

TEST(Floats) {
  EXPECT_EQ(Batch(FloatList("f", Field(0x0a, kOne + kOne))), "f=1,1, ");
  EXPECT_EQ(Batch(FloatList("f", Field(0x0a, kOne))), "f: wrong count");
  EXPECT_EQ(Batch(FloatList("f", "\x0d" + kOne + "\x0d" + kOne)), "f=1,1, ");
  EXPECT_EQ(Batch(FloatList("f", "\x0d" + kOne + "\x0d" + kOne + "\x0d" + kOne)), "f: wrong count");
  EXPECT_EQ(Batch(FloatList("f", "\x0d" + kOne + "\x0d" + kOne + "x")), "f: bad list");
  EXPECT_EQ(Batch(FloatList("l", Field(0x0a, kOne + kOne + "abc"))), "l=1,1, ");
  EXPECT_EQ(Batch(FloatList("l", Field(0x0a, kOne))), "l: not a multiple");
  // A packed list that claims more than there is.
  EXPECT_EQ(Batch(FloatList("f", "\x0a\x0c" + kOne + kOne)), "f: wrong count");
  EXPECT_EQ(Batch(FloatList("f", "\x0a\x0b" + kOne + kOne)), "f=1,1, ");
  EXPECT_EQ(Batch(FloatList("l", "\x0a\x0c" + kOne + kOne)), "l: bad list");
}

TEST(Strings) {
  EXPECT_EQ(Batch(One("s", BytesFeature({"", "ab", std::string(300, 'c')}))), "s=,ab," + std::string(300, 'c') + ", ");
  EXPECT_EQ(Batch(One("t", BytesFeature({"1", "2"}))), "t=1,2, ");
  EXPECT_EQ(Batch(One("t", BytesFeature({"1"}))), "t: wrong count");
  EXPECT_EQ(Batch(One("t", BytesFeature({"1", "2", "3"}))), "t: bad list");
  EXPECT_EQ(Batch(One("s", Field(0x0a, "\x12\x01x"))), "s: bad list");
  EXPECT_EQ(Batch(One("s", Field(0x0a, "\x0a\x05x"))), "s: bad list");
  EXPECT_EQ(Batch(One("s", Field(0x0a, "\x0a\x01x\x0a\x05"))), "s: bad list");
  EXPECT_EQ(Batch(One("s", Field(0x0a, "\x0a\x01x\x0a"))), "s: bad list");
}

// Errors come in TensorFlow's order: entries backwards, then what is missing.
TEST(TheLastErrorInARecordIsReported) {
  const std::string bad_a = Entry("a", FloatFeature({1})), bad_v = Entry("v", BytesFeature({"x"}));
  EXPECT_EQ(Batch(Example({bad_a, bad_v})), "v: type mismatch");
  EXPECT_EQ(Batch(Example({bad_v, bad_a})), "a: type mismatch");
  EXPECT_EQ(Batch(Example({bad_v, bad_a}) + "\x14"), "bad record");
}

TEST(DeepNesting) {
  std::string nested = "x";
  for (int i = 0; i < 20000; ++i) nested = Field(0x0a, nested);
  EXPECT_EQ(Batch(nested), "bad record");
  EXPECT_EQ(Batch(One("s", nested)).size(), nested.size() - 8 + 4);  // Strings: they are not followed.
}
