#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("TfBoosterArrivedBatch")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: list(type) >= 1")
    .Attr("shapes: list(shape)")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      std::vector<PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      if (static_cast<int>(shapes.size()) != c->num_outputs()) {
        return errors::InvalidArgument("TfBoosterArrivedBatch: attr 'shapes' has ", shapes.size(),
                                       " shapes; wanted one for each of ", c->num_outputs(), " tensors");
      }
      for (int i = 0; i < c->num_outputs(); ++i) {
        shape_inference::ShapeHandle shape;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
        c->set_output(i, shape);
      }
      return OkStatus();
    })
    .Doc(
        "x as they are, of shapes that whoever sent them through a queue knows, and optimizers then know too. They "
        "neither "
        "see through it nor leave it out, so that a run that is fed all of x needs no batch from the queue.");

}  // namespace tensorflow
