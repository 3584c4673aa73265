// What tests and benchmarks of the parser say of a feature.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_FEATURE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_FEATURE_H_

#include <string>

#include "cc/core/example_parser/example_parser.h"

namespace tf_booster::example_parser::testing {

inline FeatureSpec FeatureOf(const std::string& name, ValueType type, FeatureKind kind, size_t elements = 1) {
  FeatureSpec feature;
  feature.name = name;
  feature.type = type;
  feature.kind = kind;
  feature.elements = elements;
  return feature;
}

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_FEATURE_H_
