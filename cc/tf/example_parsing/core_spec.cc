#include "cc/tf/example_parsing/core_spec.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using example_parser::FeatureKind;
using example_parser::FeatureSpec;
using example_parser::Semantics;
using example_parser::ValueType;
using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::tstring;
using Config = tensorflow::example::FastParseExampleConfig;

bool FromDataType(DataType dtype, ValueType* type) {
  switch (dtype) {
    case tensorflow::DT_STRING:
      *type = ValueType::kBytes;
      return true;
    case tensorflow::DT_FLOAT:
      *type = ValueType::kFloat;
      return true;
    case tensorflow::DT_INT64:
      *type = ValueType::kInt64;
      return true;
    default:
      return false;
  }
}

void CopyDefault(const Tensor& value, FeatureSpec* feature) {
  const int64_t n = value.NumElements();
  switch (feature->type) {
    case ValueType::kInt64:
      feature->default_int64.assign(value.flat<int64_t>().data(), value.flat<int64_t>().data() + n);
      break;
    case ValueType::kFloat:
      feature->default_float.assign(value.flat<float>().data(), value.flat<float>().data() + n);
      break;
    case ValueType::kBytes:
      for (int64_t i = 0; i < n; ++i) feature->default_bytes.emplace_back(value.flat<tstring>()(i));
      break;
  }
}

FeatureSpec DenseFeature(const Config::Dense& dense, Semantics semantics) {
  FeatureSpec feature;
  if (semantics == Semantics::kFeatureLists) {
    feature.kind = FeatureKind::kVarLenDense;
    feature.elements = static_cast<size_t>(dense.shape.num_elements());
    feature.required = !dense.variable_length;
    return feature;
  }
  feature.kind = dense.variable_length ? FeatureKind::kVarLenDense : FeatureKind::kFixedDense;
  feature.elements = dense.elements_per_stride;
  feature.required = dense.default_value.NumElements() == 0;
  return feature;
}

}  // namespace

DataType ToDataType(ValueType type) {
  switch (type) {
    case ValueType::kBytes:
      return tensorflow::DT_STRING;
    case ValueType::kFloat:
      return tensorflow::DT_FLOAT;
    default:
      return tensorflow::DT_INT64;
  }
}

tensorflow::Status MakeCoreSpec(const Config& config, Semantics semantics,
                                std::shared_ptr<const example_parser::ParserSpec>* spec) {
  spec->reset();
  std::vector<FeatureSpec> features;
  features.reserve(config.dense.size() + config.sparse.size() + config.ragged.size());
  std::unordered_set<std::string> names;
  const auto add = [&](const tstring& name, DataType dtype, FeatureSpec feature) {
    feature.name = std::string(name.data(), name.size());
    const bool served = FromDataType(dtype, &feature.type) && names.insert(feature.name).second;
    features.push_back(std::move(feature));
    return served;
  };
  for (const Config::Dense& dense : config.dense) {
    FeatureSpec of_dense = DenseFeature(dense, semantics);
    if (of_dense.kind == FeatureKind::kVarLenDense && of_dense.elements == 0) {
      return tensorflow::errors::InvalidArgument(
          "Feature: ", std::string(dense.feature_name), " has the shape ", dense.shape.DebugString(),
          ", whose rows have no elements; no length follows from a list of values");
    }
    if (!add(dense.feature_name, dense.dtype, std::move(of_dense))) return tensorflow::OkStatus();
    FeatureSpec& feature = features.back();
    if (feature.kind == FeatureKind::kFixedDense && !feature.required) CopyDefault(dense.default_value, &feature);
  }
  for (const Config::Sparse& sparse : config.sparse) {
    FeatureSpec feature;
    feature.kind = FeatureKind::kSparse;
    feature.required = false;
    if (!add(sparse.feature_name, sparse.dtype, std::move(feature))) return tensorflow::OkStatus();
  }
  for (const Config::Ragged& ragged : config.ragged) {
    FeatureSpec feature;
    feature.kind = FeatureKind::kRagged;
    feature.required = false;
    if (!add(ragged.feature_name, ragged.dtype, std::move(feature))) return tensorflow::OkStatus();
  }
  const Status made = example_parser::ParserSpec::Make(std::move(features), semantics, spec);
  return made.ok() ? tensorflow::OkStatus() : tensorflow::errors::InvalidArgument(made.message());
}

}  // namespace tf_booster
