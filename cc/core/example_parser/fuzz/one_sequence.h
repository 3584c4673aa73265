// One input of the fuzzer: specs and two SequenceExamples by its first bytes, at every level and by the reference.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_SEQUENCE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/example_parser/testing/random_sequences.h"
#include "cc/core/example_parser/testing/sequences_against_reference.h"

namespace tf_booster::example_parser::fuzz {

inline std::vector<FeatureSpec> SequenceFeatures(int kinds, bool lists) {
  const char* const names[] = {"a", "ids", "a_name_of_19_bytes_"};
  std::vector<FeatureSpec> features;
  for (int i = 0; i < 3; ++i) {
    FeatureSpec feature;
    feature.name = names[i];
    feature.type = static_cast<ValueType>(1 + (i + kinds) % 3);
    feature.kind = static_cast<FeatureKind>(lists ? 1 + (i + kinds / 3) % 3 : (2 * i + kinds / 3) % 4);
    if (feature.kind == FeatureKind::kVarLenDense && !lists) feature.kind = FeatureKind::kSparse;
    feature.elements = 1 + (kinds / 9 + i) % 2;
    feature.required = kinds % 5 == 4 && feature.kind <= FeatureKind::kVarLenDense;
    feature.default_int64.assign(feature.elements, 7);
    feature.default_float.assign(feature.elements, 7);
    feature.default_bytes.assign(feature.elements, "seven");
    features.push_back(feature);
  }
  return features;
}

// "", or how a level differs. data[0]: the specs; data[1]: where the first record ends, in 256ths.
inline std::string RunOneSequence(const uint8_t* data, size_t size) {
  if (size < 2) return "";
  const auto context = testing::MakeSpec(SequenceFeatures(data[0], false), Semantics::kContext);
  const auto lists = testing::MakeSpec(SequenceFeatures(data[0], true), Semantics::kFeatureLists);
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t split = bytes.size() * data[1] / 255;
  const std::string first = bytes.substr(0, split), second = bytes.substr(split);
  std::string difference = testing::CompareSequenceLevels(context, lists, {first, second}).difference;
  if (difference.empty()) difference = testing::CompareSequenceLevels(context, lists, {second}).difference;
  return difference;
}

}  // namespace tf_booster::example_parser::fuzz

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_SEQUENCE_H_
