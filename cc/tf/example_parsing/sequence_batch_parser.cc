#include "cc/tf/example_parsing/sequence_batch_parser.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/example_parser/sequence_example.h"
#include "cc/tf/example_parsing/batch_outputs.h"
#include "cc/tf/example_parsing/example_batch.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using example_parser::ParseErrorKind;
using example_parser::Semantics;
using example_parser::SequenceHazard;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::errors::InvalidArgument;

namespace {

// TensorFlow is to parse the batch.
TfStatus NotPlain() { return tensorflow::errors::Unimplemented("a record is not plain"); }

// The tensor of the only record: [1, …] becomes […].
TfStatus First(const Tensor& batch, Tensor* one) {
  TensorShape shape = batch.shape();
  shape.RemoveDim(0);
  if (!one->CopyFrom(batch, shape)) {
    return tensorflow::errors::Internal("ParseSequenceExample: ", batch.shape().DebugString(), " is not of one record");
  }
  return tensorflow::OkStatus();
}

// [n, columns] without the first column.
TfStatus DropColumn(const Tensor& matrix, Tensor* rest) {
  const int64_t n = matrix.dim_size(0), columns = matrix.dim_size(1);
  TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {n, columns - 1}, rest));
  const int64_t* from = matrix.flat<int64_t>().data();
  int64_t* to = rest->flat<int64_t>().data();
  for (int64_t i = 0; i < n; ++i) {
    ++from;
    for (int64_t c = 1; c < columns; ++c) *to++ = *from++;
  }
  return tensorflow::OkStatus();
}

// Splits of a batch that is none: TensorFlow gives a scalar that means nothing.
TfStatus NoSplits(std::vector<Tensor>* splits) {
  for (Tensor& tensor : *splits) {
    const tensorflow::DataType dtype = tensor.dtype();
    TF_RETURN_IF_ERROR(AllocateTensor(dtype, {}, &tensor));
    if (dtype == tensorflow::DT_INT32) {
      tensor.scalar<int32_t>()() = 0;
    } else {
      tensor.scalar<int64_t>()() = 0;
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace

TfStatus ParseSequencesAsTensorFlow(const SequenceBatchParser::Config& context,
                                    const SequenceBatchParser::Config& lists, absl::Span<const tstring> records,
                                    absl::Span<const tstring> names, bool batch,
                                    tensorflow::thread::ThreadPool* workers, SequenceResult* result) {
  return tensorflow::example::FastParseSequenceExample(context, lists, records, names, workers, &result->context,
                                                       &result->lists, &result->dense_lengths, batch);
}

TfStatus SequenceBatchParser::Make(const Config& context, const Config& lists,
                                   std::shared_ptr<const SequenceBatchParser>* parser) {
  parser->reset();
  auto made = std::make_shared<SequenceBatchParser>();
  TF_RETURN_IF_ERROR(ExampleBatchParser::Make(context, Semantics::kContext, &made->context_));
  TF_RETURN_IF_ERROR(ExampleBatchParser::Make(lists, Semantics::kFeatureLists, &made->lists_));
  if (made->context_ != nullptr && made->lists_ != nullptr) *parser = std::move(made);
  return tensorflow::OkStatus();
}

TfStatus SequenceBatchParser::Parse(absl::Span<const tstring> records, absl::Span<const tstring> names, bool batch,
                                    tensorflow::thread::ThreadPool* workers, SequenceResult* result) const {
  // Of no records TensorFlow has its own opinion: a context feature without a default is an error then.
  if (!records.empty() && (names.empty() || names.size() == records.size())) {
    TfStatus status = ParsePlain(records, batch, workers, result);
    if (!tensorflow::errors::IsUnimplemented(status)) return status;
    TF_RETURN_IF_ERROR(CheckHazards(records, names));
    *result = SequenceResult();
  }
  return ParseSequencesAsTensorFlow(context_config(), lists_config(), records, names, batch, workers, result);
}

TfStatus SequenceBatchParser::ParsePlain(absl::Span<const tstring> records, bool batch,
                                         tensorflow::thread::ThreadPool* workers, SequenceResult* result) const {
  if (batch) {
    return shares_.Run(records, workers, [&](const BatchPlan& plan, ParallelFor& parallel_for) {
      return ParseShared(records, plan, parallel_for, result);
    });
  }
  Record context, lists;
  if (!SplitSequenceExample({records[0].data(), records[0].size()}, &context, &lists)) return NotPlain();
  TF_RETURN_IF_ERROR(context_->ParseSingle(context, &result->context));
  TF_RETURN_IF_ERROR(lists_->Parse({&lists, 1}, {}, workers, &result->lists, &result->dense_lengths));
  return DropBatchDimension(result);
}

TfStatus SequenceBatchParser::ParseShared(absl::Span<const tstring> records, const BatchPlan& plan,
                                          ParallelFor& parallel_for, SequenceResult* result) const {
  const size_t n = records.size();
  // Each piece is split by the thread that parses it, right before.
  const std::unique_ptr<Record[]> contexts(new Record[n]), lists(new Record[n]);
  ExampleBatch context(*context_, {contexts.get(), n}, &result->context, nullptr);
  ExampleBatch list(*lists_, {lists.get(), n}, &result->lists, &result->dense_lengths);
  for (ExampleBatch* part : {&context, &list}) TF_RETURN_IF_ERROR(part->Start(n / plan.pieces()));
  std::atomic<bool> plain{true};
  const int64_t busy_ns = plan.Walk(parallel_for, [&](BatchPlan::Next next) {
    const bool alone = plan.threads == 1;
    ExampleBatch::Walker context_walker(&context, alone), list_walker(&list, alone);
    for (size_t begin, end; plain && next(&begin, &end);) {
      for (size_t i = begin; i < end; ++i) {
        if (!SplitSequenceExample({records[i].data(), records[i].size()}, &contexts[i], &lists[i])) {
          plain = false;
          return;
        }
      }
      if (!context_walker.Parse(begin, end) || !list_walker.Parse(begin, end)) return;
    }
  });
  if (!plain) return NotPlain();
  for (ExampleBatch* part : {&context, &list}) {
    if (part->error().kind != ParseErrorKind::kNone) return NotPlain();
    TF_RETURN_IF_ERROR(part->StartJoin());
  }
  shares_.AddCost(busy_ns, plan.bytes);
  // One loop for both: to ask other threads for help costs as much as a small batch's joining. Lists first: they are
  // the longer tasks.
  const size_t of_lists = list.num_tasks(), tasks = of_lists + context.num_tasks();
  const double ns = list.join_ns() + context.join_ns();
  parallel_for.Run(static_cast<int64_t>(tasks), static_cast<int64_t>(ns / std::max<double>(1, tasks)),
                   [&](int64_t begin, int64_t end) {
                     for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                       i < of_lists ? list.Join(i) : context.Join(i - of_lists);
                     }
                   });
  TF_RETURN_IF_ERROR(context.Finish());
  return list.Finish();
}

TfStatus SequenceBatchParser::DropBatchDimension(SequenceResult* result) const {
  TF_RETURN_IF_ERROR(NoSplits(&result->context.ragged_splits));
  TF_RETURN_IF_ERROR(NoSplits(&result->lists.ragged_outer_splits));
  for (std::vector<Tensor>* tensors : {&result->lists.dense_values, &result->dense_lengths}) {
    for (Tensor& tensor : *tensors) TF_RETURN_IF_ERROR(First(Tensor(tensor), &tensor));
  }
  for (size_t s = 0; s < result->lists.sparse_indices.size(); ++s) {
    TF_RETURN_IF_ERROR(DropColumn(Tensor(result->lists.sparse_indices[s]), &result->lists.sparse_indices[s]));
    const Tensor shape = result->lists.sparse_shapes[s];  // Other features may share it.
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {2}, &result->lists.sparse_shapes[s]));
    for (int i = 0; i < 2; ++i) result->lists.sparse_shapes[s].vec<int64_t>()(i) = shape.vec<int64_t>()(i + 1);
  }
  return tensorflow::OkStatus();
}

TfStatus SequenceBatchParser::CheckHazards(absl::Span<const tstring> records, absl::Span<const tstring> names) const {
  for (size_t i = 0; i < records.size(); ++i) {
    const SequenceHazard hazard = FindHazard({records[i].data(), records[i].size()}, context_->spec(), lists_->spec());
    const std::string name = names.empty() ? "<unknown>" : std::string(names[i]);
    if (hazard.kind == SequenceHazard::Kind::kTooLong) {
      return InvalidArgument("Invalid protocol message input, example id: ", name, ", Index: ", i, ": its ",
                             records[i].size(), " bytes are more than a message may have");
    }
    if (hazard.kind == SequenceHazard::Kind::kLongString) {
      const auto& feature = (hazard.in_context ? context_ : lists_)->spec().features()[hazard.feature];
      return InvalidArgument("Name: ", name, ", ",
                             hazard.in_context ? "Context feature: " : "Feature list: ", feature.name, ", Index: ", i,
                             ".  A string is longer than the list that holds it.");
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
