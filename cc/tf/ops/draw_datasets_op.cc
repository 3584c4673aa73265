#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

Status DrawDatasetsShape(InferenceContext* c) {
  ShapeHandle logits, seeds;
  DimensionHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &logits));
  TF_RETURN_IF_ERROR(c->WithValue(c->Dim(logits, 0), 1, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &seeds));
  TF_RETURN_IF_ERROR(c->WithValue(c->Dim(seeds, 1), 2, &unused));
  c->set_output(0, c->Vector(c->Dim(seeds, 0)));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterDrawDatasets")
    .Input("logits: T")
    .Input("seeds: int64")
    .Output("numbers: int64")
    .Attr("T: {float, double}")
    .SetShapeFn(DrawDatasetsShape)
    .Doc(R"doc(
What tf.random.stateless_categorical(logits, 1, seed) gives for each of many seeds, as tf.data's sample_from_datasets asks.

logits: [1, n], the unnormalized log-probability of each of n datasets.
seeds: [m, 2].
numbers: [m], each from 0 to n - 1.
)doc");

}  // namespace tensorflow
