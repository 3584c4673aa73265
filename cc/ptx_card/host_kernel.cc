#include "cc/ptx_card/host_kernel.h"

#include <set>
#include <utility>

#include "cc/ptx_card/card_tensors.h"
#include "cc/ptx_card/held_variables.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster::card {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorValue;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

bool PassesThrough(const std::string& op) {
  static const auto& ops = *new std::set<std::string>{"Bitcast",
                                                      "Const",
                                                      "DestroyTemporaryVariable",
                                                      "ExpandDims",
                                                      "Identity",
                                                      "IsVariableInitialized",
                                                      "Rank",
                                                      "RefIdentity",
                                                      "PlaceholderWithDefault",
                                                      "PreventGradient",
                                                      "Reshape",
                                                      "Shape",
                                                      "ShapeN",
                                                      "Size",
                                                      "Squeeze",
                                                      "StopGradient",
                                                      "Variable",
                                                      "VariableV2",
                                                      "TemporaryVariable",
                                                      "_EagerConst"};
  return ops.count(op) != 0;
}

TfStatus HostDevice::MakeTensorFromProto(const tensorflow::TensorProto& proto, tensorflow::AllocatorAttributes,
                                         Tensor* tensor) {
  if (tensor->FromProto(tensorflow::cpu_allocator(), proto)) return tensorflow::OkStatus();
  return errors::InvalidArgument("no tensor: ", proto.DebugString());
}

HostKernel::HostKernel(OpKernelConstruction* c)
    : OpKernel(c), host_(c->device()), passes_(PassesThrough(c->def().op())) {
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  OP_REQUIRES_OK(
      c, tensorflow::NodeProperties::CreateFromNodeDef(c->def(), tensorflow::OpRegistry::Global(), &properties));
  OpKernel* kernel = nullptr;
  tensorflow::DeviceBase* const device = passes_ ? c->device() : &host_;
  OP_REQUIRES_OK(
      c, tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, device, tensorflow::cpu_allocator(), c->function_library(),
                                    c->resource_manager(), properties, c->graph_def_version(), &kernel));
  kernel_.reset(kernel);
}

void HostKernel::Compute(OpKernelContext* ctx) {
  if (passes_) {
    kernel_->Compute(ctx);
    return;
  }
  HeldVariables variables;
  OP_REQUIRES_OK(ctx, variables.Lock(ctx));
  const int count = ctx->num_inputs();
  std::vector<Tensor> inputs(count), before(count);  // before: of inputs by reference, which the kernel may change.
  std::vector<TensorValue> values(count);
  std::vector<tensorflow::mutex> mutexes(count);
  for (int i = 0; i < count; ++i) {
    if (!ctx->has_input(i)) continue;
    if (ctx->input_is_ref(i)) {
      OP_REQUIRES_OK(ctx, ToHostInput(ctx, i, ctx->mutable_input(i, true), &inputs[i]));
      if (inputs[i].IsInitialized()) before[i] = tensorflow::tensor::DeepCopy(inputs[i]);
      values[i] = TensorValue(&mutexes[i], &inputs[i]);
    } else {
      OP_REQUIRES_OK(ctx, ToHostInput(ctx, i, ctx->input(i), &inputs[i]));
      values[i] = TensorValue(&inputs[i]);
    }
  }
  variables.SetHandles(&inputs);

  std::vector<std::unique_ptr<Tensor>> outputs(num_outputs());
  OP_REQUIRES_OK(ctx, ComputeOnHost(ctx, values, &outputs));

  OP_REQUIRES_OK(ctx, variables.WriteBack(ctx));
  for (int i = 0; i < count; ++i) {
    const bool changed = ctx->has_input(i) && ctx->input_is_ref(i) && inputs[i].IsInitialized() &&
                         ctx->input_memory_type(i) == tensorflow::DEVICE_MEMORY && !Equal(before[i], inputs[i]);
    if (!changed) continue;
    Tensor on_card;
    OP_REQUIRES_OK(ctx, NewOnCard(ctx, inputs[i], &on_card));
    ctx->replace_ref_input(i, on_card, true);
  }
  for (int i = 0; i < num_outputs(); ++i) {
    if (tensorflow::IsRefType(output_type(i))) {
      ctx->forward_ref_input_to_ref_output(0, i);  // As all of TensorFlow's ops on references do.
    } else if (outputs[i] != nullptr) {
      OP_REQUIRES_OK(ctx, ToOutput(ctx, i, *outputs[i]));
    }
  }
}

TfStatus HostKernel::ToHostInput(OpKernelContext* ctx, int i, const Tensor& given, Tensor* host) {
  const bool on_card = ctx->input_memory_type(i) == tensorflow::DEVICE_MEMORY && IsPlain(given.dtype());
  TF_RETURN_IF_ERROR(CheckPlace(*this, i, given, on_card));
  if (IsOnCard(given)) return ToHost(*this, given, host);
  *host = given;
  return tensorflow::OkStatus();
}

TfStatus HostKernel::ToOutput(OpKernelContext* ctx, int i, const Tensor& host) {
  if (ctx->output_memory_type(i) == tensorflow::HOST_MEMORY || !IsPlain(host.dtype())) {
    ctx->set_output(i, host);
    return tensorflow::OkStatus();
  }
  Tensor* on_card = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(i, host.shape(), &on_card));
  return CopyToCard(*this, host, on_card);
}

TfStatus HostKernel::ComputeOnHost(OpKernelContext* ctx, std::vector<TensorValue> inputs,
                                   std::vector<std::unique_ptr<Tensor>>* outputs) {
  std::vector<tensorflow::AllocatorAttributes> input_attributes(inputs.size()), output_attributes(num_outputs());
  OpKernelContext::Params params;
  params.step_id = ctx->step_id();
  params.op_kernel = kernel_.get();
  params.device = &host_;
  params.output_attr_array = output_attributes.data();
  params.resource_manager = ctx->resource_manager();
  params.step_container = ctx->step_container();
  params.rendezvous = ctx->rendezvous();
  params.session_state = ctx->session_state();
  params.session_metadata = ctx->session_metadata();
  params.tensor_store = ctx->tensor_store();
  params.cancellation_manager = ctx->cancellation_manager();
  params.inputs = inputs;
  params.input_alloc_attrs = input_attributes;
  params.frame_iter = ctx->frame_iter();
  params.call_frame = ctx->call_frame();
  params.function_library = ctx->function_library();
  params.runner = ctx->runner();
  OpKernelContext host(&params, num_outputs());
  kernel_->Compute(&host);
  TF_RETURN_IF_ERROR(host.status());
  for (int i = 0; i < num_outputs(); ++i) {
    const TensorValue value = host.release_output(i);
    if (!value.is_ref()) (*outputs)[i].reset(value.tensor);
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster::card
