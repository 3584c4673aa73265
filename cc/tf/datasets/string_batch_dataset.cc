#include "cc/tf/datasets/string_batch_dataset.h"

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

namespace {

const char* TypeOf(FileFormat format) {
  return format == FileFormat::kTFRecord ? "TfBoosterTFRecordBatch" : "TfBoosterTextLineBatch";
}

}  // namespace

StringBatchDataset::StringBatchDataset(tensorflow::OpKernelContext* ctx, const tensorflow::data::DatasetBase* files,
                                       RecordBatchOptions options)
    : RecordBatchDataset(ctx, TypeOf(options.pipeline.format), files, options) {}

// A record that a shuffle kept is freed as soon as it is copied, and its memory, whose pages are there already, holds
// the next one's copy: of 400 kB a record, fresh pages cost more than reading and copying it.
TfStatus StringBatchDataset::MakeElement(RecordBatch* batch, std::vector<Tensor>* element) const {
  Tensor strings(tensorflow::DT_STRING, {static_cast<int64_t>(batch->records.size())});
  tstring* string = strings.vec<tstring>().data();
  auto owned = batch->owned.begin();  // In the order of the records, of which some lie in blocks.
  for (const auto& record : batch->records) {
    (string++)->assign(record.data, record.size);
    if (owned != batch->owned.end() && owned->get() == record.data) (owned++)->reset();
  }
  element->assign(1, std::move(strings));
  return tensorflow::OkStatus();
}

TfStatus StringBatchDataset::AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                                Node** output) const {
  std::vector<Node*> inputs;
  Attributes attributes;
  TF_RETURN_IF_ERROR(AddPipeline(ctx, b, &inputs, &attributes));
  const RecordPipeline& pipeline = options().pipeline;
  if (pipeline.format != FileFormat::kTFRecord) {
    inputs.emplace_back();
    TF_RETURN_IF_ERROR(b->AddScalar(pipeline.header_lines, &inputs.back()));
    const bool csv = pipeline.format == FileFormat::kCsv;
    attributes.emplace_back("csv_delimiter", b->BuildAttrValue(std::string(csv ? 1 : 0, pipeline.csv.delimiter)));
    attributes.emplace_back("csv_quotes", b->BuildAttrValue(pipeline.csv.quotes));
  }
  return b->AddDataset(this, inputs, attributes, output);
}

}  // namespace tf_booster
