// Whether all of many tensors is finite, by one op.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterAllFinite")
    .Input("numbers: N * T")
    .Output("all_finite: bool")
    .Attr("N: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
Whether no number of any tensor is infinite or NaN: IsFinite and All of each, and All of these.

numbers: of any shapes. all_finite: a scalar; true where there are none.
)doc");

}  // namespace tensorflow
