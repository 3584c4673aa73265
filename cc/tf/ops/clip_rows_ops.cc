// Rows of many tensors clipped by their norms, by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {
namespace {

// Output i has the shape of the i-th of the last inputs.
Status ShapesOfRows(shape_inference::InferenceContext* c) {
  std::vector<float> max_norms;
  TF_RETURN_IF_ERROR(c->GetAttr("max_norms", &max_norms));
  const int n = c->num_outputs();
  if (static_cast<int>(max_norms.size()) != n) {
    return errors::InvalidArgument("ClipRows: ", max_norms.size(), " max_norms, wanted ", n, ", as there are rows");
  }
  for (int i = 0; i < n; ++i) {
    if (!(max_norms[i] > 0)) {
      return errors::InvalidArgument("ClipRows: max_norms[", i, "] is ", max_norms[i], ", wanted above 0");
    }
    shape_inference::ShapeHandle rows = c->input(c->num_inputs() - n + i);
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(rows, 1, &rows));
    if (c->num_inputs() > n) TF_RETURN_IF_ERROR(c->Merge(rows, c->input(i), &rows));
    c->set_output(i, rows);
  }
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterClipRows")
    .Input("rows: N * float")
    .Output("clipped: N * float")
    .Attr("N: int >= 1")
    .Attr("max_norms: list(float)")
    .SetShapeFn(ShapesOfRows)
    .Doc(R"doc(
tf.clip_by_norm of each row of N tensors, the last dimension of which is the row: row * max_norms[i] / max(norm, max_norms[i]).
)doc");

REGISTER_OP("TfBoosterClipRowsGrad")
    .Input("gradients: N * float")
    .Input("rows: N * float")
    .Output("gradients_of_rows: N * float")
    .Attr("N: int >= 1")
    .Attr("max_norms: list(float)")
    .SetShapeFn(ShapesOfRows)
    .Doc(R"doc(
The gradients of the rows that ClipRows was given, from those of what it made of them.
)doc");

}  // namespace tensorflow
