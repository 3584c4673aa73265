#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow {

// Horovod's ops are registered stateless: TensorFlow folds one whose input is constant, merges two with one input, and
// drops one that only control edges lead from. Between ops that say that they have state, none of this happens.
REGISTER_OP("TfBoosterPin")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc("x as it is. TensorFlow's optimizers neither see through it nor leave it out.");

REGISTER_OP("TfBoosterCollectiveMark")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("collective: string")
    .Attr("entering: bool")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc("x as it is; counts, for the watchdog, that the collective is entered, or that it has been left.");

REGISTER_OP("TfBoosterPackRows")
    .Input("tensors: T")
    .Output("packed: uint8")
    .Attr("T: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      shape_inference::ShapeHandle unused;
      for (int i = 0; i < c->num_inputs(); ++i) TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(i), 1, &unused));
      c->set_output(0, c->Vector(c->UnknownDim()));
      return OkStatus();
    })
    .Doc(R"doc(
Tensors with any numbers of rows, and of any number types, in one, for an all-gather.

tensors: of rank 1 at least; the shape without the first dimension is the same on all ranks.
packed: first the number of rows of each as an int64, then their bytes; each part begins at a multiple of 64.
)doc");

REGISTER_OP("TfBoosterUnpackRows")
    .Input("packed: uint8")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("row_shapes: list(shape) >= 1")
    .Attr("ranks: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      std::vector<PartialTensorShape> rows;
      TF_RETURN_IF_ERROR(c->GetAttr("row_shapes", &rows));
      if (rows.size() != c->num_outputs()) return errors::InvalidArgument("UnpackRows: a row shape for each tensor");
      for (int i = 0; i < c->num_outputs(); ++i) {
        shape_inference::ShapeHandle row, shape;
        if (!rows[i].IsFullyDefined()) return errors::InvalidArgument("UnpackRows: row_shapes must be known");
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(rows[i], &row));
        TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(c->UnknownDim()), row, &shape));
        c->set_output(i, shape);
      }
      return OkStatus();
    })
    .Doc(R"doc(
What PackRows made on each of `ranks` ranks, one after another, as tensors again: of each tensor the rows of all ranks, in their order.

row_shapes: of each tensor the shape without the first dimension.
)doc");

}  // namespace tensorflow
