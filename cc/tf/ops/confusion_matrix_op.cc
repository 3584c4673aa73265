// The counts of a confusion matrix at many thresholds by one op.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::InferenceContext;

Status ConfusionMatrixShapes(InferenceContext* c) {
  std::vector<float> thresholds;
  TF_RETURN_IF_ERROR(c->GetAttr("thresholds", &thresholds));
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(static_cast<int64_t>(thresholds.size())));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterConfusionMatrix")
    .Input("labels: bool")
    .Input("predictions: float")
    .Output("true_positives: float")
    .Output("false_negatives: float")
    .Output("true_negatives: float")
    .Output("false_positives: float")
    .Attr("thresholds: list(float)")
    .SetShapeFn(ConfusionMatrixShapes)
    .Doc(R"doc(
At each threshold, how many predictions lie above it and how many do not, by their labels: what metrics.auc compares by tensors of [thresholds, predictions].

labels, predictions: of any shapes with as many elements, or one for all of the other's. A NaN lies above no threshold.
true_positives, false_positives: [thresholds], those above, labelled true and false; false_negatives, true_negatives: the others.
thresholds: in any order, without NaNs.
)doc");

}  // namespace tensorflow
