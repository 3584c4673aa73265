// Lookups whose rows are in another process, a parameter server: one tensor each way for all lookups of a step, and one
// of gradients.
//
//   here                                                        there
//   sent, kept = LookupRequest(ids, idx, row_splits, …)   ->    ids = RequestedIds(sent)
//   results = RepliedLookups(reply, kept)                 <-    reply = LookupReply(sent, rows gathered by ids)
//   packed = SendGradients(kept, gradients of results)    ->    gradients of rows = SentGradients(sent, packed)
//
// A lookup is pooled there or here, whatever moves fewer bytes: the sizes of the batch decide at each step.
#include "cc/tf/ops/declared_shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

template <int kOutputs>
Status Vectors(shape_inference::InferenceContext* c) {
  for (int i = 0; i < kOutputs; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
  return OkStatus();
}

}  // namespace

REGISTER_OP("TfBoosterLookupRequest")
    .Input("ids: N * Tids")
    .Input("idx: num_pooled * int32")
    .Input("row_splits: num_pooled * int32")
    .Input("zero_rows: num_zeroed * bool")
    .Input("weights: num_weights * float")
    .Output("sent: uint8")
    .Output("kept: uint8")
    .Attr("N: int >= 1")
    .Attr("Tids: {int32, int64}")
    .Attr("num_pooled: int >= 0")
    .Attr("num_zeroed: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("element_bytes: int >= 1")
    .Attr("dims: list(int)")
    .Attr("combiners: list({'none', 'sum', 'mean', 'sqrtn'})")
    .Attr("trained: list(bool)")
    .Attr("zeroed: list(bool)")
    .Attr("weighted: list(bool)")
    .SetShapeFn(Vectors<2>)
    .Doc(R"doc(
What the process that has the rows needs to know of N lookups.

ids: [u] each, distinct. idx, row_splits: of PrepareLookups, for each lookup whose combiner is not 'none', in order.
zero_rows: for each such lookup that `zeroed` marks. weights: for each that `weighted` marks.
sent: for LookupReply. It has idx and what follows only of lookups that are cheaper to pool there.
kept: for RepliedLookups and SendGradients.
element_bytes: of an element of a row. dims: columns of the rows. trained: whether gradients will follow.
)doc");

REGISTER_OP("TfBoosterRequestedIds")
    .Input("sent: uint8")
    .Output("ids: N * Tids")
    .Attr("N: int >= 1")
    .Attr("Tids: {int32, int64}")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      return OkStatus();
    })
    .Doc("The ids that LookupRequest was given.");

REGISTER_OP("TfBoosterLookupReply")
    .Input("sent: uint8")
    .Input("rows: N * T")
    .Output("reply: T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn(Vectors<1>)
    .Doc("rows: [u, dim], of the ids of each lookup. reply: for RepliedLookups, its rows or what they add up to.");

REGISTER_OP("TfBoosterRepliedLookups")
    .Input("reply: T")
    .Input("kept: uint8")
    .Output("results: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("shapes: list(shape)")
    .SetShapeFn(DeclaredShapes)
    .Doc(R"doc(
results: as of PoolLookups, [batch, dim]; of a lookup with combiner 'none' its rows [u, dim]. shapes: what is known of them.
)doc");

REGISTER_OP("TfBoosterSendGradients")
    .Input("kept: uint8")
    .Input("grads: M * T")
    .Output("packed: T")
    .Attr("M: int >= 1")
    .Attr("T: {float, double}")
    .Attr("places: list(int)")
    .SetShapeFn(Vectors<1>)
    .Doc("grads: of the results of the lookups `places`. packed: for SentGradients, of the results or of the rows.");

REGISTER_OP("TfBoosterSentGradients")
    .Input("sent: uint8")
    .Input("packed: T")
    .Output("row_grads: M * T")
    .Attr("M: int >= 1")
    .Attr("T: {float, double}")
    .Attr("places: list(int)")
    .Attr("shapes: list(shape)")
    .SetShapeFn(DeclaredShapes)
    .Doc("row_grads: [u, dim], as of PoolLookupsGrad. shapes: what is known of them.");

REGISTER_OP("TfBoosterOpsFingerprint")
    .Output("fingerprint: int64")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return OkStatus();
    })
    .Doc(
        "Tells which of the library's ops this process knows, with their arguments. Stateful, so that it runs where it "
        "is placed.");

}  // namespace tensorflow
