// ExampleBatchParser::ParseSingle: one record, no batch dimension.
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/example_batch_parser.h"
#include "cc/tf/example_parsing/parse_errors.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using example_parser::ParsedSlice;
using example_parser::ParseError;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;

TfStatus ExampleBatchParser::ParseSingle(Record record, Result* result) const {
  ResizeResult(result);
  for (size_t d = 0; d < config_.dense.size(); ++d) {
    const auto& dense = config_.dense[d];
    if (!IsFixed(d)) continue;
    TF_RETURN_IF_ERROR(AllocateTensor(dense.dtype, {}, dense.shape, 0, &result->dense_values[d]));
  }
  std::vector<std::unique_ptr<ParsedSlice>> slices;
  pool_.Take(1, &slices);
  ParsedSlice* slice = slices[0].get();
  ParseError error;
  TfStatus status;
  try {
    if (parser_.Parse(&record, 1, 0, FixedOutputs(result).data(), slice, &error)) {
      CopyStrings(*slice, 0, 0, result);
    } else {
      status = SingleError(error, config_, record.size);
    }
  } catch (const std::bad_alloc&) {
    status = tensorflow::errors::ResourceExhausted("ParseSingleExample: no memory for the values of a record");
  }
  for (size_t i = 0; status.ok() && i < joined_.size(); ++i) {
    status = SingleFeature(SlicesOf(joined_[i], {&slice, 1}), result);
  }
  pool_.Give(std::move(slices));
  return status;
}

TfStatus ExampleBatchParser::SingleFeature(const FeatureSlices& from, Result* result) const {
  size_t f = from.feature;
  Tensor values;
  TF_RETURN_IF_ERROR(JoinValues(from, &values));
  const int64_t length = values.NumElements();
  if (f < config_.dense.size()) {
    const auto& dense = config_.dense[f];
    tensorflow::TensorShape shape({static_cast<int64_t>(length / dense.elements_per_stride)});
    for (int i = 1; i < dense.shape.dims(); ++i) TF_RETURN_IF_ERROR(shape.AddDimWithStatus(dense.shape.dim_size(i)));
    if (!result->dense_values[f].CopyFrom(values, shape)) {
      return tensorflow::errors::Internal("ParseSingleExample: ", length, " values against ", shape.DebugString());
    }
    return tensorflow::OkStatus();
  }
  f -= config_.dense.size();
  if (f < config_.sparse.size()) {
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {length, 1}, &result->sparse_indices[f]));
    int64_t* indices = result->sparse_indices[f].flat<int64_t>().data();
    std::iota(indices, indices + length, 0);
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {1}, &result->sparse_shapes[f]));
    result->sparse_shapes[f].vec<int64_t>()(0) = length;
    result->sparse_values[f] = std::move(values);
    return tensorflow::OkStatus();
  }
  f -= config_.sparse.size();
  result->ragged_values[f] = std::move(values);
  return AllocateTensor(config_.ragged[f].splits_dtype, {0}, &result->ragged_splits[f]);
}

}  // namespace tf_booster
