#include "cc/tf/example_parsing/parse_errors.h"

#include "cc/tf/example_parsing/core_spec.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tf_booster {
namespace {

using example_parser::ParseError;
using example_parser::ParseErrorKind;
using tensorflow::DataTypeString;
using tensorflow::errors::InvalidArgument;
using tensorflow::strings::StrCat;
using Config = tensorflow::example::FastParseExampleConfig;

// A feature of the config by cc/core's number: dense, sparse, ragged.
struct Feature {
  Feature(const Config& config, size_t number) {
    const size_t dense_size = config.dense.size(), sparse_size = config.sparse.size();
    if (number < dense_size) {
      dense = &config.dense[number];
      name = dense->feature_name;
      dtype = dense->dtype;
    } else if (number < dense_size + sparse_size) {
      name = config.sparse[number - dense_size].feature_name;
      dtype = config.sparse[number - dense_size].dtype;
    } else {
      name = config.ragged[number - dense_size - sparse_size].feature_name;
      dtype = config.ragged[number - dense_size - sparse_size].dtype;
    }
  }

  const Config::Dense* dense = nullptr;
  std::string name;
  tensorflow::DataType dtype;
};

std::string TypesDiffer(const Feature& feature, const ParseError& error) {
  const std::string found = DataTypeString(ToDataType(error.found_type)), wanted = DataTypeString(feature.dtype);
  return feature.dense != nullptr ? StrCat("Data types don't match. Data type: ", found, " but expected type: ", wanted)
                                  : StrCat("Data types don't match. Expected type: ", wanted, ", Actual type: ", found);
}

const char* ListName(tensorflow::DataType dtype) {
  return dtype == tensorflow::DT_STRING ? "bytes" : dtype == tensorflow::DT_FLOAT ? "float" : "int64";
}

std::string Missing(const Feature& feature) {
  return StrCat("Feature: ", feature.name, " (data type: ", DataTypeString(feature.dtype),
                ") is required but could not be found.");
}

tensorflow::Status NotPlain(const ParseError& error) {
  return tensorflow::errors::Unimplemented("record ", error.record, " is not plain");
}

tensorflow::Status NoExample(const std::string& record, size_t bytes) {
  return InvalidArgument("Could not parse example input, ", record, "its ", bytes,
                         " bytes are no serialized tf.train.Example");
}

}  // namespace

tensorflow::Status BatchError(const ParseError& error, const Config& config, const std::string& name,
                              size_t record_bytes, size_t count) {
  if (error.kind == ParseErrorKind::kNotPlain) return NotPlain(error);
  if (error.kind == ParseErrorKind::kBadRecord) {
    return NoExample(StrCat("Name: ", name, ", Index: ", error.record, ": "), record_bytes);
  }
  const Feature feature(config, error.feature);
  if (error.kind == ParseErrorKind::kMissing) return InvalidArgument("Name: ", name, ", ", Missing(feature));
  std::string what;
  switch (error.kind) {
    case ParseErrorKind::kUnsupportedType:
      what = "Unsupported datatype.";
      break;
    case ParseErrorKind::kTypeMismatch:
      what = TypesDiffer(feature, error);
      break;
    case ParseErrorKind::kWrongCount:
      what = StrCat("Number of ", ListName(feature.dtype), " values != expected.  Values size: ", error.found_count,
                    " but output shape: ", feature.dense->shape.DebugString());
      break;
    case ParseErrorKind::kNotMultiple:
      what = StrCat("Number of ", ListName(feature.dtype), " values is not a multiple of stride length. Saw ", count,
                    " values but output shape is: ", feature.dense->shape.DebugString());
      break;
    default:
      what = "Can't parse serialized Example.";
  }
  return InvalidArgument("Name: ", name, ", Key: ", feature.name, ", Index: ", error.record, ".  ", what);
}

tensorflow::Status SingleError(const ParseError& error, const Config& config, size_t record_bytes) {
  if (error.kind == ParseErrorKind::kNotPlain) return NotPlain(error);
  if (error.kind == ParseErrorKind::kBadRecord) return NoExample("", record_bytes);
  const Feature feature(config, error.feature);
  switch (error.kind) {
    case ParseErrorKind::kMissing:
      return InvalidArgument(Missing(feature));
    case ParseErrorKind::kTypeMismatch:
      return InvalidArgument("Key: ", feature.name, ".  ", TypesDiffer(feature, error));
    case ParseErrorKind::kUnsupportedType:
      return InvalidArgument("Key: ", feature.name, ".  Unsupported datatype.");
    default:
      return InvalidArgument("Key: ", feature.name, ".  Can't parse serialized Example.");
  }
}

}  // namespace tf_booster
