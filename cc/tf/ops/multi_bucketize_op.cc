// The buckets of many features' numbers by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;

Status MultiBucketizeShapes(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) c->set_output(i, c->input(i));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterMultiBucketize")
    .Input("numbers: N * T")
    .Output("buckets: N * int32")
    .Attr("N: int >= 1")
    .Attr("T: {int32, int64, float, double}")
    .Attr("boundaries: list(float)")
    .Attr("num_boundaries: list(int)")
    .SetShapeFn(MultiBucketizeShapes)
    .Doc(R"doc(
What Bucketize makes of numbers, for many features at once.

numbers: of any shape. boundaries: those of all features, one after the other, of each in ascending order; num_boundaries of each.
buckets: of the numbers' shapes, how many of its boundaries each number is not below; all of them for a NaN.
)doc");

}  // namespace tensorflow
