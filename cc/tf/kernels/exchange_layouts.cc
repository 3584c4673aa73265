#include "cc/tf/kernels/exchange_layouts.h"

#include <algorithm>
#include <string>

#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

namespace {

constexpr int64_t kMaxGroup = int64_t{1} << 23;

TfStatus ReadGroups(OpKernelConstruction* ctx, int64_t num_probes, std::vector<int64_t>* groups) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("groups", groups));
  const auto wrong = [](int64_t group) { return group < 0 || group >= kMaxGroup; };
  if (static_cast<int64_t>(groups->size()) == num_probes && std::none_of(groups->begin(), groups->end(), wrong)) {
    return tensorflow::OkStatus();
  }
  return InvalidArgument(ctx->def().op(), ": groups must have a number from 0 to ", kMaxGroup - 1, " for each of the ",
                         num_probes, " probes");
}

}  // namespace

TfStatus ReadExchangeLayout(OpKernelConstruction* ctx, ExchangeLayout* layout, std::vector<int64_t>* groups,
                            std::vector<int64_t>* first_segments) {
  const std::string& op = ctx->def().op();
  std::vector<int64_t> dims, probes, fields;
  std::vector<bool> counted;
  std::string partition;
  int num_probes = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr("P", &num_probes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("ranks", &layout->ranks));
  TF_RETURN_IF_ERROR(ctx->GetAttr("partition", &partition));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dims", &dims));
  TF_RETURN_IF_ERROR(ctx->GetAttr("counted", &counted));
  TF_RETURN_IF_ERROR(ctx->GetAttr("segment_probes", &probes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("segment_fields", &fields));
  TF_RETURN_IF_ERROR(ReadGroups(ctx, num_probes, groups));
  ParsePartition(partition, &layout->mode);
  if (static_cast<int>(dims.size()) != num_probes || static_cast<int>(counted.size()) != num_probes ||
      probes.size() != fields.size()) {
    return InvalidArgument(op, ": dims and counted must have ", num_probes,
                           " entries, and segment_fields as many as segment_probes");
  }
  for (int p = 0; p < num_probes; ++p) layout->probes.push_back({dims[p], {}, counted[p]});
  for (size_t s = 0; s < probes.size(); ++s) {
    if (probes[s] < 0 || probes[s] >= num_probes || fields[s] < 0 || (s > 0 && probes[s] < probes[s - 1])) {
      return InvalidArgument(op, ": segment ", s, " is of probe ", probes[s], " and field ", fields[s],
                             "; segments go through the ", num_probes, " probes in order, and fields count from 0");
    }
    layout->probes[probes[s]].fields.push_back(static_cast<uint32_t>(fields[s]));
  }
  int64_t first = 0;
  for (int p = 0; p < num_probes; ++p) {
    first_segments->push_back(first);
    first += static_cast<int64_t>(layout->probes[p].fields.size());
    if (dims[p] < 1) return InvalidArgument(op, ": dims[", p, "] is ", dims[p], ", but must be at least 1");
  }
  return tensorflow::OkStatus();
}

TfStatus ReadGradientLayout(OpKernelConstruction* ctx, GradientLayout* layout) {
  const std::string& op = ctx->def().op();
  std::vector<int64_t> dims, streams, probes, segments;
  std::vector<bool> by_row;
  int num_probes = 0, num_streams = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr("M", &num_streams));
  TF_RETURN_IF_ERROR(ctx->GetAttr("P", &num_probes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dims", &dims));
  TF_RETURN_IF_ERROR(ctx->GetAttr("by_row", &by_row));
  TF_RETURN_IF_ERROR(ctx->GetAttr("lane_streams", &streams));
  TF_RETURN_IF_ERROR(ctx->GetAttr("lane_probes", &probes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("lane_segments", &segments));
  TF_RETURN_IF_ERROR(ctx->GetAttr("ranks", &layout->ranks));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_notes", &layout->num_notes));
  TF_RETURN_IF_ERROR(ReadGroups(ctx, num_probes, &layout->groups));
  if (static_cast<int>(dims.size()) != num_streams || static_cast<int>(by_row.size()) != num_streams ||
      streams.size() != probes.size() || streams.size() != segments.size()) {
    return InvalidArgument(op, ": dims and by_row must have ", num_streams,
                           " entries, and lane_streams, lane_probes and lane_segments as many as each other");
  }
  layout->num_segments.assign(num_probes, 0);
  for (int t = 0; t < num_streams; ++t) layout->streams.push_back({dims[t], by_row[t], {}});
  for (size_t l = 0; l < streams.size(); ++l) {
    if (streams[l] < 0 || streams[l] >= num_streams || (l > 0 && streams[l] < streams[l - 1]) || probes[l] < 0 ||
        probes[l] >= num_probes || segments[l] < 0) {
      return InvalidArgument(op, ": lane ", l, " is of gradient ", streams[l], ", probe ", probes[l], " and segment ",
                             segments[l], "; lanes go through the gradients in order, and there are ", num_probes,
                             " probes");
    }
    layout->streams[streams[l]].lanes.push_back({probes[l], segments[l]});
  }
  return tensorflow::OkStatus();
}

TfStatus ReadSegments(OpKernelContext* ctx, const Tensor& tensor, const char* name, int64_t rows, int64_t probe,
                      GradientLayout* layout) {
  if (!TensorShapeUtils::IsMatrix(tensor.shape()) || tensor.dim_size(0) != rows) {
    return InvalidArgument(ctx->op_kernel().type_string(), ": ", name, "[", probe, "] has the shape ",
                           tensor.shape().DebugString(), ", but must be [", rows, ", segments of the probe]");
  }
  layout->num_segments[probe] = tensor.dim_size(1);
  for (const GradientStream& stream : layout->streams) {
    for (const GradientStream::Lane& lane : stream.lanes) {
      if (lane.probe != probe || lane.segment < tensor.dim_size(1)) continue;
      return InvalidArgument(ctx->op_kernel().type_string(), ": a lane is of segment ", lane.segment, " of ", name, "[",
                             probe, "], which has ", tensor.dim_size(1));
    }
  }
  return tensorflow::OkStatus();
}

TfStatus CheckMessage(OpKernelContext* ctx, const Tensor& message, const Tensor& splits, int32_t ranks) {
  if (TensorShapeUtils::IsVector(message.shape()) && TensorShapeUtils::IsVector(splits.shape()) &&
      splits.NumElements() == ranks) {
    return tensorflow::OkStatus();
  }
  return InvalidArgument(ctx->op_kernel().type_string(), ": message has the shape ", message.shape().DebugString(),
                         " and splits ", splits.shape().DebugString(), ", but they must be [n] and [", ranks,
                         "]; pass on what the all-to-all gives");
}

TfStatus MessageMemory::Allocate(OpKernelContext* ctx, int output, int64_t words, int32_t** data) {
  constexpr int64_t kGranule = 1024;
  int64_t capacity = capacity_.load();
  while (words > capacity) {
    const int64_t larger =
        std::min((words + words / 4 + kGranule - 1) / kGranule * kGranule, std::max(words, kMaxExchangeWords));
    if (capacity_.compare_exchange_weak(capacity, larger)) capacity = larger;
  }
  Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, {capacity}, &tensor));
  *data = tensor->flat<int32_t>().data();
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
