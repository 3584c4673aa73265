#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterUnique")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: {int32, int64}")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->input(0));
      return OkStatus();
    })
    .Doc("The distinct values of x, [u], in no promised order, and idx with y[idx] == x; idx has the shape of x.");

REGISTER_OP("TfBoosterUniqueWithCounts")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: {int32, int64}")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      const auto distinct = c->Vector(c->UnknownDim());
      c->set_output(0, distinct);
      c->set_output(1, c->input(0));
      c->set_output(2, distinct);
      return OkStatus();
    })
    .Doc("As TfBoosterUnique; count [u] is how often each value of y is in x.");

}  // namespace tensorflow
