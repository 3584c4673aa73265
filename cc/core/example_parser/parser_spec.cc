#include "cc/core/example_parser/parser_spec.h"

#include <utility>

namespace tf_booster::example_parser {
namespace {

Status Invalid(const FeatureSpec& feature, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, "Parser: feature '" + feature.name + "' " + what);
}

size_t DefaultSize(const FeatureSpec& feature) {
  switch (feature.type) {
    case ValueType::kInt64:
      return feature.default_int64.size();
    case ValueType::kFloat:
      return feature.default_float.size();
    default:
      return feature.default_bytes.size();
  }
}

Status Check(const FeatureSpec& feature, Semantics semantics) {
  constexpr size_t kMaxElements = 0x7fffffff;  // No record has room for more.
  if (feature.elements > kMaxElements) {
    return Invalid(feature, "has " + std::to_string(feature.elements) + " elements, but at most 2^31 - 1 are possible");
  }
  if (feature.kind == FeatureKind::kFixedDense && semantics == Semantics::kFeatureLists) {
    return Invalid(feature, "is of a fixed length, but a list has as many steps as it likes; use kVarLenDense");
  }
  if (feature.kind == FeatureKind::kVarLenDense && feature.elements == 0) {
    return Invalid(feature, "has a stride of 0; give every inner dimension at least 1");
  }
  if (feature.kind == FeatureKind::kFixedDense && !feature.required && DefaultSize(feature) != feature.elements) {
    return Invalid(feature, "has a default of " + std::to_string(DefaultSize(feature)) + " values, but " +
                                std::to_string(feature.elements) + " are wanted");
  }
  return Status();
}

}  // namespace

Status ParserSpec::Make(std::vector<FeatureSpec> features, Semantics semantics,
                        std::shared_ptr<const ParserSpec>* spec) {
  std::shared_ptr<ParserSpec> made(new ParserSpec);
  made->features_ = std::move(features);
  made->semantics_ = semantics;
  std::vector<const std::string*> names;
  for (const FeatureSpec& feature : made->features_) {
    TFB_RETURN_IF_ERROR(Check(feature, semantics));
    names.push_back(&feature.name);
    std::vector<BytesView> views;
    for (const std::string& value : feature.default_bytes) views.push_back({value.data(), value.size()});
    made->default_views_.push_back(std::move(views));
  }
  if (!made->index_.Build(names)) {
    return Status(StatusCode::kInvalidArgument, "Parser: two features have the same name; name each once");
  }
  *spec = std::move(made);
  return Status();
}

}  // namespace tf_booster::example_parser
