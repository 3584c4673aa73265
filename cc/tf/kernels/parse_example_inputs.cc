#include "cc/tf/kernels/parse_example_inputs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/tf/example_parsing/parser_switch.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::DataTypeString;
using tensorflow::OpInputList;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;
using Config = tensorflow::example::FastParseExampleConfig;

template <class Feature>
bool SameNames(const Keys& keys, const std::vector<Feature>& features) {
  return keys.size() == features.size() && std::equal(keys.begin(), keys.end(), features.begin(),
                                                      [](tensorflow::StringPiece key, const Feature& feature) {
                                                        return key == tensorflow::StringPiece(feature.feature_name);
                                                      });
}

bool SameValue(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const int64_t n = a.NumElements();
  if (n == 0) return true;
  if (a.dtype() == tensorflow::DT_STRING) {
    return std::equal(a.flat<tstring>().data(), a.flat<tstring>().data() + n, b.flat<tstring>().data());
  }
  return std::memcmp(a.data(), b.data(), n * tensorflow::DataTypeSize(a.dtype())) == 0;
}

}  // namespace

bool SameKeys(const ParseInputs& inputs, const Config& config) {
  return SameNames(inputs.dense_keys, config.dense) && SameNames(inputs.sparse_keys, config.sparse) &&
         SameNames(inputs.ragged_keys, config.ragged);
}

bool SameDefaults(const OpInputList& defaults, const Config& config) {
  if (defaults.size() != static_cast<int>(config.dense.size())) return false;
  for (int d = 0; d < defaults.size(); ++d) {
    if (!SameValue(defaults[d], config.dense[d].default_value)) return false;
  }
  return true;
}

tensorflow::Status SetList(tensorflow::OpKernelContext* ctx, const char* name, const std::vector<Tensor>& tensors) {
  OpOutputList outputs;
  TF_RETURN_IF_ERROR(ctx->output_list(name, &outputs));
  for (size_t i = 0; i < tensors.size(); ++i) outputs.set(i, tensors[i]);
  return tensorflow::OkStatus();
}

tensorflow::Status CheckDefaults(const OpInputList& defaults, const DenseAttrs& attrs) {
  for (int d = 0; d < defaults.size(); ++d) {
    const Tensor& value = defaults[d];
    if (attrs.variable_length[d]) {
      if (value.NumElements() != 1) {
        return InvalidArgument(
            "dense_shape[", d, "] is a variable length shape: ", attrs.shapes[d].DebugString(),
            ", therefore def_value[", d,
            "] must contain a single element (the padding element).  But its shape is: ", value.shape().DebugString());
      }
    } else if (value.NumElements() > 0 && !attrs.shapes[d].IsCompatibleWith(value.shape())) {
      return InvalidArgument("def_value[", d, "].shape() == ", value.shape().DebugString(),
                             " is not compatible with dense_shapes_[", d, "] == ", attrs.shapes[d].DebugString());
    }
    if (value.dtype() != attrs.types[d]) {
      return InvalidArgument("dense_defaults[", d, "].dtype() == ", DataTypeString(value.dtype()), " != dense_types_[",
                             d, "] == ", DataTypeString(attrs.types[d]));
    }
  }
  return tensorflow::OkStatus();
}

Config MakeConfig(const ParseInputs& inputs, const DenseAttrs& attrs,
                  absl::Span<const tensorflow::DataType> sparse_types,
                  absl::Span<const tensorflow::DataType> ragged_types,
                  absl::Span<const tensorflow::DataType> split_types) {
  Config config;
  config.dense.reserve(inputs.dense_keys.size());
  for (size_t d = 0; d < inputs.dense_keys.size(); ++d) {
    config.dense.emplace_back(inputs.dense_keys[d], attrs.types[d], attrs.shapes[d], inputs.dense_defaults[d],
                              attrs.variable_length[d], attrs.elements_per_stride[d]);
  }
  config.sparse.reserve(inputs.sparse_keys.size());
  for (size_t s = 0; s < inputs.sparse_keys.size(); ++s) {
    config.sparse.emplace_back(inputs.sparse_keys[s], sparse_types[s]);
  }
  config.ragged.reserve(inputs.ragged_keys.size());
  for (size_t r = 0; r < inputs.ragged_keys.size(); ++r) {
    config.ragged.emplace_back(inputs.ragged_keys[r], ragged_types[r], split_types[r]);
  }
  return config;
}

std::shared_ptr<const ExampleBatchParser> ParserCache::Find(const ParseInputs& inputs) const {
  std::shared_ptr<const ExampleBatchParser> parser;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parser = parser_;
  }
  if (parser == nullptr || parser->level() != ParserSimdLevel()) return nullptr;
  const bool same = SameKeys(inputs, parser->config()) && SameDefaults(inputs.dense_defaults, parser->config());
  return same ? parser : nullptr;
}

void ParserCache::Keep(std::shared_ptr<const ExampleBatchParser> parser) {
  std::lock_guard<std::mutex> lock(mutex_);
  parser_ = std::move(parser);
}

tensorflow::Status SetOutputs(tensorflow::OpKernelContext* ctx, const tensorflow::example::Result& result,
                              bool has_ragged) {
  TF_RETURN_IF_ERROR(SetList(ctx, "sparse_indices", result.sparse_indices));
  TF_RETURN_IF_ERROR(SetList(ctx, "sparse_values", result.sparse_values));
  TF_RETURN_IF_ERROR(SetList(ctx, "sparse_shapes", result.sparse_shapes));
  TF_RETURN_IF_ERROR(SetList(ctx, "dense_values", result.dense_values));
  if (!has_ragged) return tensorflow::OkStatus();
  TF_RETURN_IF_ERROR(SetList(ctx, "ragged_values", result.ragged_values));
  return SetList(ctx, "ragged_row_splits", result.ragged_splits);
}

}  // namespace tf_booster
