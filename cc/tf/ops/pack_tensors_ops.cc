#include "cc/tf/ops/declared_shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterPackTensors")
    .Input("tensors: T")
    .Output("packed: uint8")
    .Output("layout: string")
    .Attr("T: list(type) >= 1")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Scalar());
      return OkStatus();
    })
    .Doc(R"doc(
Tensors of any shapes and number types in one, so that they cross to a device in one copy.

packed: their bytes, each from a multiple of 64 on, in memory that a GPU can read where there is one.
layout: for each its offset, rank and dimensions, as int64s in a string: strings stay in host memory on every device.
)doc");

REGISTER_OP("TfBoosterUnpackTensors")
    .Input("packed: uint8")
    .Input("layout: string")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("shapes: list(shape)")
    .SetShapeFn(DeclaredShapes)
    .Doc(
        "The tensors that PackTensors put into `packed`. They are parts of it: nothing is copied. shapes: what is "
        "known of them.");

}  // namespace tensorflow
