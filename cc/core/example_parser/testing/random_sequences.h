// Random specs of SequenceExamples, records that fit them, and records that were damaged.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_SEQUENCES_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_SEQUENCES_H_

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/example_parser/parser_spec.h"
#include "cc/core/example_parser/testing/random_records.h"
#include "cc/core/example_parser/testing/wire_builder.h"

namespace tf_booster::example_parser::testing {

inline std::shared_ptr<const ParserSpec> MakeSpec(std::vector<FeatureSpec> features, Semantics semantics) {
  std::shared_ptr<const ParserSpec> spec;
  if (!ParserSpec::Make(std::move(features), semantics, &spec).ok()) std::abort();
  return spec;
}

class RandomSequences {
 public:
  explicit RandomSequences(uint64_t seed) : contexts_(seed), random_(seed) {
    const char* const names[] = {"", "h", "clicks", "a_list_of_26_bytes_by_name", "viewed_items"};
    for (size_t i = 0; i < 5; ++i) {
      FeatureSpec list;
      list.name = names[i] + std::string(Below(20) == 0 ? 130 : 0, 'z');
      list.type = static_cast<ValueType>(1 + Below(3));
      list.kind = static_cast<FeatureKind>(1 + Below(3));
      list.elements = Below(2) == 0 ? 1 : 1 + Below(12);
      list.required = list.kind == FeatureKind::kVarLenDense && Below(2) == 0;
      if (Below(3) > 0) lists_.push_back(list);
    }
  }

  std::shared_ptr<const ParserSpec> Context() const {
    return MakeSpec(contexts_.Spec()->features(), Semantics::kContext);
  }
  std::shared_ptr<const ParserSpec> Lists() const { return MakeSpec(lists_, Semantics::kFeatureLists); }

  std::string Record() {
    std::vector<std::string> entries;
    for (const FeatureSpec& list : lists_) {
      if (list.required || Below(5) > 0) entries.push_back(Entry(list.name, Steps(list)));
      if (Below(100) == 0) entries.push_back(Entry(list.name, Steps(list)));
      if (Below(6) == 0) entries.push_back(Entry("unknown", Steps(list)));
    }
    if (Below(3) == 0) std::shuffle(entries.begin(), entries.end(), random_);
    std::string lists;
    for (const std::string& entry : entries) lists += entry;
    const std::string context = contexts_.Record();
    lists = entries.empty() && Below(2) == 0 ? "" : Field(kLengthTag2, lists);
    std::string record = Below(5) == 0 ? lists + context : context + lists;
    if (Below(50) == 0) record += std::string("\x18\x05", 2);  // A field of no SequenceExample.
    if (Below(50) == 0) record += lists;
    return record;
  }

  std::string Damaged(std::string record) { return contexts_.Damaged(std::move(record)); }

 private:
  size_t Below(size_t n) { return random_() % n; }

  std::string Steps(const FeatureSpec& list) {
    const size_t n = Below(4) == 0 ? Below(3) : Below(60);
    const bool one = Below(2) == 0, packed = Below(5) > 0, any_width = Below(2) == 0;
    const int width = static_cast<int>(Below(64));
    std::string steps;
    for (size_t i = 0; i < n; ++i) {
      size_t count = list.elements;
      if (list.kind != FeatureKind::kVarLenDense) count = one ? 1 : Below(20) == 0 ? Below(300) : Below(4);
      if (Below(1000) == 0) ++count;
      std::vector<int64_t> ids(count);
      std::vector<float> floats(count);
      std::vector<std::string> strings(count);
      for (size_t k = 0; k < count; ++k) {
        ids[k] = static_cast<int64_t>(random_() >> (any_width ? Below(64) : width));
        floats[k] = static_cast<float>(ids[k]);
        strings[k] = std::string(Below(40) == 0 ? Below(300) : Below(12), static_cast<char>('a' + k % 26));
      }
      std::string feature = list.type == ValueType::kBytes ? BytesFeature(strings)
                            : list.type == ValueType::kInt64
                                ? (packed ? Int64Feature(ids) : TaggedInt64Feature(ids))
                                : (packed ? FloatFeature(floats) : TaggedFloatFeature(floats));
      if (count == 0 && Below(3) == 0) feature = "";
      if (count == 0 && Below(3) == 0 && list.type != ValueType::kBytes) {
        feature = Field(static_cast<uint8_t>(static_cast<int>(list.type) << 3 | 2), Field(kLengthTag1, ""));
      }
      if (Below(2000) == 0) feature += "behind";
      steps += Field(kLengthTag1, feature);
    }
    return steps;
  }

  RandomRecords contexts_;
  std::mt19937_64 random_;
  std::vector<FeatureSpec> lists_;
};

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_RANDOM_SEQUENCES_H_
