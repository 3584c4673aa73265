// Random specs, records that fit them, and records that were damaged.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_RECORDS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_RECORDS_H_

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/core/example_parser/parser_spec.h"
#include "cc/core/example_parser/testing/wire_builder.h"

namespace tf_booster::example_parser::testing {

class RandomRecords {
 public:
  explicit RandomRecords(uint64_t seed) : random_(seed) {
    // Keys on both sides of every length at which the scanner does something else.
    std::vector<size_t> sizes = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   13,  14,  15,  16,  17, 22,
                                 23, 24, 31, 32, 38, 39, 47, 63, 64, 116, 117, 118, 127, 128, 300};
    std::shuffle(sizes.begin(), sizes.end(), random_);
    const size_t n = Below(12);
    for (size_t i = 0; i < n; ++i) features_.push_back(Feature("k" + std::string(sizes[i], 'x'), i));
    // Keys that differ in one byte, at every place.
    const std::string base(10 + Below(30), 'y');
    for (size_t i = 0; i < Below(4); ++i) {
      std::string name = base;
      name[Below(name.size())] = static_cast<char>('a' + i);
      features_.push_back(Feature(name, 100 + i));
    }
    if (Chance(10)) features_.push_back(Feature("", 200));
    semantics_ = Chance(50) ? Semantics::kBatch : Semantics::kSingle;
    shuffle_ = Chance(30);
    damage_ = Chance(30) ? 30 : 0;
  }

  std::shared_ptr<const ParserSpec> Spec() const {
    std::shared_ptr<const ParserSpec> spec;
    if (!ParserSpec::Make(features_, semantics_, &spec).ok()) std::abort();
    return spec;
  }

  std::string Record() {
    std::vector<std::string> entries;
    for (const FeatureSpec& feature : features_) {
      if (Chance(feature.required || Chance(80) ? 100 : 0)) entries.push_back(Entry(feature.name, Serialized(feature)));
      if (Chance(1)) entries.push_back(Entry(feature.name, Serialized(feature)));
      if (Chance(15)) entries.push_back(Entry("unknown" + std::to_string(Below(5)), Int64Feature({1, 2})));
    }
    if (shuffle_) std::shuffle(entries.begin(), entries.end(), random_);
    std::string record = Example(entries);
    if (Chance(2)) record += Example({entries.begin(), entries.begin() + Below(entries.size() + 1)});
    if (Chance(2)) record += std::string("\x10\x05\x1d\x01\x02\x03\x04", 7);  // Fields of no Example.
    return Chance(damage_) ? Damaged(std::move(record)) : record;
  }

  std::string Damaged(std::string record) {
    for (size_t i = 0; i <= Below(3) && !record.empty(); ++i) {
      const size_t at = Below(record.size());
      switch (Below(5)) {
        case 0:
          record[at] = static_cast<char>(random_());
          break;
        case 1:
          record[at] = static_cast<char>(record[at] ^ 1 << Below(8));
          break;
        case 2:
          record.resize(at);
          break;
        case 3:
          record.insert(at, Varint(random_() >> Below(64), static_cast<int>(Below(4))));
          break;
        default:
          record.erase(at, 1 + Below(3));
      }
    }
    return record;
  }

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }
  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

 private:
  int64_t Id() { return static_cast<int64_t>(random_() >> Below(64)); }

  FeatureSpec Feature(const std::string& name, size_t i) {
    FeatureSpec feature;
    feature.name = name + (name.empty() ? "" : std::to_string(i));
    feature.type = static_cast<ValueType>(1 + Below(3));
    feature.kind = static_cast<FeatureKind>(Below(4));
    feature.elements = Chance(50) ? 1 : Chance(10) ? 0 : Below(40);
    if (feature.kind == FeatureKind::kVarLenDense && feature.elements == 0) feature.elements = 3;
    feature.required = Chance(50);
    if (feature.kind != FeatureKind::kFixedDense) feature.required = false;
    for (size_t k = 0; k < feature.elements && !feature.required; ++k) {
      feature.default_int64.push_back(Id());
      feature.default_float.push_back(static_cast<float>(k) + 0.5f);
      feature.default_bytes.push_back("default" + std::to_string(k));
    }
    return feature;
  }

  size_t Count(const FeatureSpec& feature) {
    if (feature.kind == FeatureKind::kFixedDense && !Chance(damage_ / 10)) return feature.elements;
    const size_t stride = feature.kind == FeatureKind::kVarLenDense && !Chance(damage_ / 10) ? feature.elements : 1;
    return stride * (Chance(50) ? 1 : Chance(98) ? Below(40) : Below(4000));
  }

  std::string Serialized(const FeatureSpec& feature) {
    if (Chance(1)) return "";
    const size_t count = Count(feature);
    const ValueType type = Chance(damage_ / 10) ? static_cast<ValueType>(1 + Below(3)) : feature.type;
    // Lists of one width, so that each width meets every place in a block, or of all.
    const bool any_width = Chance(50);
    const uint64_t width = Below(64);
    std::vector<int64_t> ids(count);
    std::vector<float> floats(count);
    std::vector<std::string> strings(count);
    for (size_t i = 0; i < count; ++i) {
      ids[i] = any_width ? Id() : static_cast<int64_t>((random_() | uint64_t{1} << 63) >> width);
      floats[i] = static_cast<float>(ids[i]);
      strings[i] = std::string(Chance(95) ? Below(12) : Below(300), static_cast<char>('a' + i % 26));
    }
    std::string out;
    if (type == ValueType::kBytes) {
      out = BytesFeature(strings);
    } else if (type == ValueType::kFloat) {
      out = Chance(90) ? FloatFeature(floats) : TaggedFloatFeature(floats);
    } else {
      out = Chance(90) ? Int64Feature(ids) : TaggedInt64Feature(ids);
    }
    if (Chance(1)) out += "behind the list";
    return out;
  }

  std::mt19937_64 random_;
  std::vector<FeatureSpec> features_;
  Semantics semantics_;
  bool shuffle_;
  int damage_;
};

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_RECORDS_H_
