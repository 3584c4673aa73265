#include "cc/tf/datasets/element_parser.h"

#include <map>
#include <string>
#include <utility>

#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/kernels/ragged_tensor_variant.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OkStatus;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::Variant;

namespace {

TfStatus CheckRowsBatch(const ElementParser::Config& config) {
  if (config.ragged.empty()) return OkStatus();
  return tensorflow::errors::InvalidArgument("TFRecordExampleDataset: feature '",
                                             std::string(config.ragged[0].feature_name),
                                             "' is ragged, and single records have no ragged rows to batch");
}

}  // namespace

TfStatus ElementParser::Make(const Config& config, ExampleBatchParser::Semantics semantics,
                             std::unique_ptr<const ElementParser>* parser) {
  std::unique_ptr<ElementParser> made(new ElementParser);
  made->config_ = config;
  if (semantics == ExampleBatchParser::Semantics::kSingle) TF_RETURN_IF_ERROR(CheckRowsBatch(config));
  TF_RETURN_IF_ERROR(ExampleBatchParser::Make(config, semantics, &made->parser_));
  std::map<std::string, size_t*> by_name;
  const auto add = [&](const auto& features, std::vector<size_t>* places) {
    places->resize(features.size());
    for (size_t i = 0; i < features.size(); ++i) {
      const std::string name(features[i].feature_name);
      if (!by_name.emplace(name, &(*places)[i]).second) {
        return tensorflow::errors::InvalidArgument("TFRecordExampleDataset: feature '", name,
                                                   "' is wanted twice; an element has each name once");
      }
    }
    return OkStatus();
  };
  TF_RETURN_IF_ERROR(add(config.dense, &made->dense_places_));
  TF_RETURN_IF_ERROR(add(config.sparse, &made->sparse_places_));
  TF_RETURN_IF_ERROR(add(config.ragged, &made->ragged_places_));
  size_t place = 0;
  for (const auto& entry : by_name) *entry.second = place++;
  *parser = std::move(made);
  return OkStatus();
}

TfStatus ElementParser::ParseByTensorFlow(const RecordBatch& batch, tensorflow::example::Result* result) const {
  std::vector<tstring> serialized(batch.records.size());
  for (size_t i = 0; i < serialized.size(); ++i) {
    serialized[i].assign_as_view(batch.records[i].data, batch.records[i].size);
  }
  return tensorflow::example::FastParseExample(config_, serialized, {}, nullptr, result);
}

TfStatus ElementParser::Parse(const RecordBatch& batch, std::vector<Tensor>* element) const {
  tensorflow::example::Result result;
  TF_RETURN_IF_ERROR(parser_ != nullptr ? parser_->Parse(batch.records, {}, nullptr, &result)
                                        : ParseByTensorFlow(batch, &result));
  Arrange(&result, element);
  return OkStatus();
}

TfStatus ElementParser::ParseOne(example_parser::Record record, std::vector<Tensor>* element) const {
  tensorflow::example::Result result;
  TF_RETURN_IF_ERROR(parser_ != nullptr ? parser_->ParseSingle(record, &result)
                                        : tensorflow::example::FastParseSingleExample(
                                              config_, tensorflow::StringPiece(record.data, record.size), &result));
  Arrange(&result, element);
  return OkStatus();
}

void ElementParser::Arrange(tensorflow::example::Result* result, std::vector<Tensor>* element) const {
  element->clear();
  element->resize(dense_places_.size() + sparse_places_.size() + ragged_places_.size());
  for (size_t i = 0; i < dense_places_.size(); ++i) (*element)[dense_places_[i]] = std::move(result->dense_values[i]);
  for (size_t i = 0; i < sparse_places_.size(); ++i) {
    Tensor parts(tensorflow::DT_VARIANT, {3});
    auto part = parts.vec<Variant>();
    part(0) = std::move(result->sparse_indices[i]);
    part(1) = std::move(result->sparse_values[i]);
    part(2) = std::move(result->sparse_shapes[i]);
    (*element)[sparse_places_[i]] = std::move(parts);
  }
  for (size_t i = 0; i < ragged_places_.size(); ++i) {
    Tensor ragged(tensorflow::DT_VARIANT, {});
    ragged.scalar<Variant>()() =
        tensorflow::RaggedTensorVariant(std::move(result->ragged_values[i]), {std::move(result->ragged_splits[i])});
    (*element)[ragged_places_[i]] = std::move(ragged);
  }
}

}  // namespace tf_booster
