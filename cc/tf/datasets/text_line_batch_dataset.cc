#include "cc/tf/datasets/text_line_batch_dataset.h"

#include <string>
#include <utility>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph_def_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::Node;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::SerializationContext;
using TfStatus = tensorflow::Status;

TextLineBatchDataset::TextLineBatchDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                                           RecordBatchOptions options)
    : RecordBatchDataset(ctx, "TfBoosterTextLineBatch", files, std::move(options)) {}

TfStatus TextLineBatchDataset::MakeElement(const RecordBatch& batch, std::vector<Tensor>* element) const {
  Tensor lines(tensorflow::DT_STRING, {static_cast<int64_t>(batch.records.size())});
  tstring* line = lines.vec<tstring>().data();
  for (const auto& record : batch.records) (line++)->assign(record.data, record.size);
  element->assign(1, std::move(lines));
  return tensorflow::OkStatus();
}

TfStatus TextLineBatchDataset::AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                                  Node** output) const {
  std::vector<Node*> inputs;
  Attributes attributes;
  TF_RETURN_IF_ERROR(AddPipeline(ctx, b, &inputs, &attributes));
  inputs.emplace_back();
  const RecordPipeline& pipeline = options().pipeline;
  TF_RETURN_IF_ERROR(b->AddScalar(pipeline.header_lines, &inputs.back()));
  const bool csv = pipeline.format == FileFormat::kCsv;
  attributes.emplace_back("csv_delimiter", b->BuildAttrValue(std::string(csv ? 1 : 0, pipeline.csv.delimiter)));
  attributes.emplace_back("csv_quotes", b->BuildAttrValue(pipeline.csv.quotes));
  return b->AddDataset(this, inputs, attributes, output);
}

}  // namespace tf_booster
