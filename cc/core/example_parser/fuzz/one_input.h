// One input of the fuzzer: a spec and two records by its first bytes, parsed at every level and by the reference.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_INPUT_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/example_parser/testing/against_reference.h"

namespace tf_booster::example_parser::fuzz {

// Short keys are easy to hit; the others are of the lengths at which the scanner compares differently.
inline std::vector<FeatureSpec> Features(int kinds) {
  const char* const names[] = {"a",
                               "k0",
                               "f12",
                               "ids_of_9",
                               "user_item_17_byte",
                               "history_of_item_ids_26_byt",
                               "history_of_category_ids_of_the_user_43_byte"};
  std::vector<FeatureSpec> features;
  for (int i = 0; i < 7; ++i) {
    FeatureSpec feature;
    feature.name = names[i];
    feature.type = static_cast<ValueType>(1 + (i + kinds) % 3);
    feature.kind = static_cast<FeatureKind>((i / 2 + kinds / 3) % 4);
    feature.elements = i % 3 == 0 ? 1 : 2;
    feature.required = feature.kind == FeatureKind::kFixedDense && kinds % 5 == 4;
    feature.default_int64.assign(feature.elements, 7);
    feature.default_float.assign(feature.elements, 7);
    feature.default_bytes.assign(feature.elements, "seven");
    features.push_back(feature);
  }
  return features;
}

// "", or how a level differs. data[0]: the spec; data[1]: where the first record ends, in 256ths.
inline std::string RunOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return "";
  std::shared_ptr<const ParserSpec> spec;
  const Semantics semantics = data[0] >= 128 ? Semantics::kSingle : Semantics::kBatch;
  const Status status = ParserSpec::Make(Features(data[0] % 128), semantics, &spec);
  if (!status.ok()) return status.message();
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t split = bytes.size() * data[1] / 255;
  // In a batch, where the first teaches the order of keys; and alone, where no error hides another.
  const std::string first = bytes.substr(0, split), second = bytes.substr(split);
  std::string difference = testing::CompareLevels(spec, {first, second}, 1);
  if (difference.empty()) difference = testing::CompareLevels(spec, {second});
  return difference;
}

}  // namespace tf_booster::example_parser::fuzz

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FUZZ_ONE_INPUT_H_
