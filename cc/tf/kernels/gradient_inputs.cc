#include "cc/tf/kernels/gradient_inputs.h"

#include <algorithm>

#include "cc/tf/kernels/exchange_layouts.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

namespace {

int64_t SumOf(const Tensor& tensor, int64_t rows) {
  const int64_t columns = tensor.dim_size(1);
  int64_t sum = 0;
  for (int64_t i = 0; i < rows * columns; ++i) sum += tensor.flat<int32_t>()(i);
  return sum;
}

}  // namespace

TfStatus ReadSentProbes(OpKernelContext* ctx, int first, GradientLayout* layout, std::vector<SentProbe>* probes,
                        const int64_t** notes) {
  const std::string op = ShortOpName(ctx->op_kernel());
  const int num_probes = static_cast<int>(layout->groups.size());
  for (int p = 0; p < num_probes; ++p) {
    const Tensor& slots = ctx->input(first + p);
    const Tensor& sent = ctx->input(first + num_probes + p);
    TF_RETURN_IF_ERROR(ReadSegments(ctx, sent, "sent", layout->ranks, p, layout));
    const int64_t keys = SumOf(sent, layout->ranks);
    if (keys != slots.NumElements()) {
      return InvalidArgument(op, ": slots[", p, "] has ", slots.NumElements(), " entries, but sent[", p, "] speaks of ",
                             keys, " keys; give both as TableRoute made them");
    }
    probes->push_back({slots.flat<int64_t>().data(), slots.NumElements(), sent.flat<int32_t>().data()});
  }
  const Tensor& all_notes = ctx->input(first + 2 * num_probes);
  if (all_notes.NumElements() != layout->num_notes) {
    return InvalidArgument(op, ": notes has ", all_notes.NumElements(), " entries, but num_notes is ",
                           layout->num_notes);
  }
  *notes = all_notes.flat<int64_t>().data();
  return tensorflow::OkStatus();
}

TfStatus ReadReceived(OpKernelContext* ctx, int first, GradientLayout* layout, std::vector<MergedProbe>* probes) {
  for (size_t p = 0; p < layout->groups.size(); ++p) {
    const Tensor& received = ctx->input(first + static_cast<int>(p));
    TF_RETURN_IF_ERROR(ReadSegments(ctx, received, "received", layout->ranks + 1, static_cast<int64_t>(p), layout));
    probes->push_back({nullptr, SumOf(received, layout->ranks), received.flat<int32_t>().data()});
  }
  return tensorflow::OkStatus();
}

TfStatus ReadMergedProbes(OpKernelContext* ctx, int first, GradientLayout* layout, std::vector<MergedProbe>* probes,
                          const float** scales) {
  const std::string op = ShortOpName(ctx->op_kernel());
  const int num_probes = static_cast<int>(layout->groups.size());
  TF_RETURN_IF_ERROR(ReadReceived(ctx, first + num_probes, layout, probes));
  for (int p = 0; p < num_probes; ++p) {
    const Tensor& codes = ctx->input(first + p);
    MergedProbe& probe = (*probes)[p];
    if (probe.size != codes.NumElements()) {
      return InvalidArgument(op, ": owner_codes[", p, "] has ", codes.NumElements(), " entries, but received[", p,
                             "] speaks of ", probe.size, " keys; give both as the op made them that merged the ids");
    }
    probe.codes = codes.flat<int64_t>().data();
  }
  const Tensor& all_scales = ctx->input(first + 2 * num_probes);
  if (all_scales.NumElements() != layout->ranks) {
    return InvalidArgument(op, ": scales has ", all_scales.NumElements(), " entries for ", layout->ranks, " ranks");
  }
  *scales = all_scales.flat<float>().data();
  return tensorflow::OkStatus();
}

TfStatus WriteNotes(OpKernelContext* ctx, const GradientLayout& layout, const ReceivedGradients& received, int output) {
  Tensor* notes = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, {layout.ranks, layout.num_notes}, &notes));
  for (int32_t r = 0; r < layout.ranks; ++r) {
    std::copy_n(received.notes(r), layout.num_notes, notes->flat<int64_t>().data() + r * layout.num_notes);
  }
  return tensorflow::OkStatus();
}

TfStatus GradientLimits::Read(tensorflow::OpKernelConstruction* ctx, const GradientLayout& layout) {
  op_ = ctx->def().op().substr(sizeof("TfBooster") - 1);
  TF_RETURN_IF_ERROR(ctx->GetAttr("limits", &limits_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("limit_names", &names_));
  if (limits_.size() == names_.size() && 2 * static_cast<int64_t>(limits_.size()) <= layout.num_notes) {
    return tensorflow::OkStatus();
  }
  return InvalidArgument(op_, ": there are ", limits_.size(), " limits, ", names_.size(), " limit_names and ",
                         layout.num_notes, " notes; give each limit a name and two notes");
}

TfStatus GradientLimits::Check(const ReceivedGradients& received, int32_t ranks) const {
  for (size_t i = 0; i < limits_.size(); ++i) {
    int64_t rows = 0, added = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      rows += received.notes(r)[2 * i];
      added += received.notes(r)[2 * i + 1];
    }
    if (rows + added <= limits_[i]) continue;
    return tensorflow::errors::ResourceExhausted(
        op_, " '", names_[i], "': the table has ", rows, " rows on ", ranks, " ranks and needs ", added,
        " more, above its limit max_rows=", limits_[i],
        "; raise max_rows, or let rows leave by an eviction or enter by a min_frequency");
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
