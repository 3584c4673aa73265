// TensorFlow's own GPU kernels on the PTX machine's GPU, computed by its CPU kernels: inputs are copied to host memory,
// outputs to the card's. So TensorFlow's packages for CPUs, which have no GPU kernels, place graphs as those with them.
//
// It is also a guard: a tensor that is in host memory where the kernel's registration says the card's, or the other way
// round, is an error here, and would be a crash on a card.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster::card {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorValue;
using tensorflow::Var;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

// They look at no element of their inputs, so the CPU's kernel does as it is.
const std::set<std::string>& Passing() {
  static const auto& ops = *new std::set<std::string>{
      "Bitcast",   "Const",         "DestroyTemporaryVariable", "ExpandDims",         "Identity", "IsVariableInitialized",
      "Rank",      "RefIdentity",   "PlaceholderWithDefault",   "PreventGradient",    "Reshape",  "Shape",
      "ShapeN",    "Size",                           "Squeeze",            "StopGradient",
      "Variable",  "VariableV2",    "TemporaryVariable",        "_EagerConst"};
  return ops;
}

bool IsOnCard(const Tensor& tensor) {
  return tensor.TotalBytes() > 0 && (reinterpret_cast<uint64_t>(tensor.data()) >> 56) != 0;  // ptx_machine/memory.h
}

bool IsPlain(DataType type) { return tensorflow::DataTypeCanUseMemcpy(type); }

// CPU's threads and memory, of a GPU device.
class HostDevice : public tensorflow::DeviceBase {
 public:
  explicit HostDevice(DeviceBase* card) : DeviceBase(card->env()), card_(card) {}
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return card_->tensorflow_cpu_worker_threads();
  }
  bool has_eigen_cpu_device() const override { return card_->has_eigen_cpu_device(); }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return card_->eigen_cpu_device(); }
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override { return tensorflow::cpu_allocator(); }
  const tensorflow::DeviceAttributes& attributes() const override { return card_->attributes(); }
  const std::string& name() const override { return card_->name(); }
  TfStatus MakeTensorFromProto(const tensorflow::TensorProto& proto, tensorflow::AllocatorAttributes,
                               Tensor* tensor) override {
    return tensor->FromProto(tensorflow::cpu_allocator(), proto) ? tensorflow::OkStatus()
                                                                 : errors::InvalidArgument("no tensor: ", proto.DebugString());
  }

 private:
  DeviceBase* const card_;
};

TfStatus Copy(const OpKernel& op, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0 || cudaMemcpy(to, from, bytes, kind) == cudaSuccess) return tensorflow::OkStatus();
  return errors::Internal(op.type_string(), " '", op.name(), "': a copy failed");
}

TfStatus ToHost(const OpKernel& op, const Tensor& card, Tensor* host) {
  *host = Tensor(tensorflow::cpu_allocator(), card.dtype(), card.shape());
  return Copy(op, host->data(), card.data(), card.TotalBytes(), cudaMemcpyDeviceToHost);
}

class HostKernel : public OpKernel {
 public:
  explicit HostKernel(OpKernelConstruction* c)
      : OpKernel(c), host_(c->device()), passes_(Passing().count(c->def().op()) != 0) {
    std::shared_ptr<const tensorflow::NodeProperties> properties;
    OP_REQUIRES_OK(c, tensorflow::NodeProperties::CreateFromNodeDef(c->def(), tensorflow::OpRegistry::Global(), &properties));
    OpKernel* kernel = nullptr;
    tensorflow::DeviceBase* device = passes_ ? c->device() : &host_;
    OP_REQUIRES_OK(c, tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, device, tensorflow::cpu_allocator(),
                                                 c->function_library(), c->resource_manager(), properties,
                                                 c->graph_def_version(), &kernel));
    kernel_.reset(kernel);
  }

  void Compute(OpKernelContext* ctx) override {
    if (passes_) {
      kernel_->Compute(ctx);
      return;
    }
    const int inputs = ctx->num_inputs();
    std::vector<Tensor> on_host(inputs);
    std::vector<TensorValue> values(inputs);
    std::vector<tensorflow::mutex> mutexes(inputs);
    std::vector<Tensor> before(inputs);
    std::vector<Held> held;
    // Variables stay locked until what was done to their copies is in them.
    OP_REQUIRES_OK(ctx, LockVariables(ctx, &held));
    for (int i = 0; i < inputs; ++i) {
      if (!ctx->has_input(i)) continue;
      if (ctx->input_is_ref(i)) {
        const Tensor value = ctx->mutable_input(i, true);
        OP_REQUIRES_OK(ctx, FromCard(ctx, i, value, &on_host[i]));
        before[i] = tensorflow::tensor::DeepCopy(on_host[i]);
        values[i] = TensorValue(&mutexes[i], &on_host[i]);
      } else {
        OP_REQUIRES_OK(ctx, FromCard(ctx, i, ctx->input(i), &on_host[i]));
        values[i] = TensorValue(&on_host[i]);
      }
    }
    for (Held& variable : held) {
      Tensor handle(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
      handle.scalar<tensorflow::ResourceHandle>()() = variable.handle;
      for (const int i : variable.inputs) on_host[i] = handle;
    }

    OpKernelContext::Params params;
    std::vector<tensorflow::AllocatorAttributes> output_attributes(num_outputs()), input_attributes(inputs);
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
    params.inputs = values;
    params.input_alloc_attrs = input_attributes;
    params.frame_iter = ctx->frame_iter();
    params.call_frame = ctx->call_frame();
    params.function_library = ctx->function_library();
    params.runner = ctx->runner();
    OpKernelContext host(&params, num_outputs());
    kernel_->Compute(&host);
    OP_REQUIRES_OK(ctx, host.status());

    for (Held& variable : held) OP_REQUIRES_OK(ctx, WriteBack(ctx, &variable));
    for (int i = 0; i < inputs; ++i) {
      if (ctx->has_input(i) && ctx->input_is_ref(i)) OP_REQUIRES_OK(ctx, WriteBackRef(ctx, i, before[i], on_host[i]));
    }
    for (int i = 0; i < num_outputs(); ++i) {
      if (IsRefType(output_type(i))) {
        ctx->forward_ref_input_to_ref_output(0, i);
        continue;
      }
      const TensorValue value = host.release_output(i);
      std::unique_ptr<Tensor> tensor(value.tensor);
      if (tensor != nullptr) OP_REQUIRES_OK(ctx, ToOutput(ctx, i, *tensor));
    }
  }

 private:
  struct Held {
    tensorflow::core::RefCountPtr<Var> var;
    tensorflow::ResourceHandle handle;  // Owns the copy.
    Var* copy = nullptr;
    Tensor before;
    std::vector<int> inputs;
    std::unique_ptr<tensorflow::mutex_lock> lock;
  };

  TfStatus FromCard(OpKernelContext* ctx, int i, const Tensor& given, Tensor* host) {
    const bool wants_card = ctx->input_memory_type(i) == tensorflow::DEVICE_MEMORY && IsPlain(given.dtype());
    if (given.TotalBytes() > 0 && wants_card != IsOnCard(given)) {
      return errors::Internal(type_string(), " '", name(), "': input ", i, ", ", requested_input(i), ", is in ",
                              wants_card ? "host memory, and should be on the card" : "the card's memory, and should not be");
    }
    if (!wants_card || !given.IsInitialized()) {
      *host = given;
      return tensorflow::OkStatus();
    }
    return ToHost(*this, given, host);
  }

  // Of all Variables among the inputs; one that is there twice is locked once.
  TfStatus LockVariables(OpKernelContext* ctx, std::vector<Held>* held) {
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      if (!ctx->has_input(i) || ctx->input_dtype(i) != tensorflow::DT_RESOURCE) continue;
      tensorflow::core::RefCountPtr<Var> var;
      if (!LookupResource(ctx, tensorflow::HandleFromInput(ctx, i), &var).ok()) continue;  // Some other resource.
      bool known = false;
      for (Held& other : *held) {
        if (other.var.get() == var.get()) other.inputs.push_back(i), known = true;
      }
      if (known) continue;
      held->emplace_back();
      held->back().var = std::move(var);
      held->back().inputs.push_back(i);
    }
    std::sort(held->begin(), held->end(), [](const Held& a, const Held& b) { return a.var->mu() < b.var->mu(); });
    for (Held& variable : *held) {
      Var& var = *variable.var;
      variable.lock = std::make_unique<tensorflow::mutex_lock>(*var.mu());
      auto copy = tensorflow::core::RefCountPtr<Var>(new Var(var.tensor()->dtype()));
      if (var.tensor()->IsInitialized()) {
        if (IsOnCard(*var.tensor())) {
          TF_RETURN_IF_ERROR(ToHost(*this, *var.tensor(), copy->tensor()));
        } else {
          *copy->tensor() = tensorflow::tensor::DeepCopy(*var.tensor());
        }
        variable.before = tensorflow::tensor::DeepCopy(*copy->tensor());
      }
      copy->is_initialized = var.is_initialized;
      copy->copy_on_read_mode = var.copy_on_read_mode.load();
      variable.copy = copy.get();
      variable.handle = tensorflow::ResourceHandle::MakeRefCountingHandle(copy.release(), ctx->device()->name());
    }
    return tensorflow::OkStatus();
  }

  static bool Equal(const Tensor& a, const Tensor& b) {
    return a.IsInitialized() == b.IsInitialized() && a.shape() == b.shape() &&
           (a.TotalBytes() == 0 || std::memcmp(a.data(), b.data(), a.TotalBytes()) == 0);
  }

  // A new buffer: others may still read the old one.
  TfStatus WriteBack(OpKernelContext* ctx, Held* variable) {
    Var& var = *variable->var;
    var.is_initialized = variable->copy->is_initialized;
    var.copy_on_read_mode = variable->copy->copy_on_read_mode.load();
    const Tensor& now = *variable->copy->tensor();
    if (!now.IsInitialized() || Equal(now, variable->before)) return tensorflow::OkStatus();
    const bool in_host_memory = var.tensor()->IsInitialized() && var.tensor()->TotalBytes() > 0 && !IsOnCard(*var.tensor());
    if (in_host_memory) {
      *var.tensor() = tensorflow::tensor::DeepCopy(now);
      return tensorflow::OkStatus();
    }
    return ToCard(ctx, now, var.tensor());
  }

  TfStatus WriteBackRef(OpKernelContext* ctx, int i, const Tensor& before, const Tensor& now) {
    if (!now.IsInitialized() || Equal(before, now)) return tensorflow::OkStatus();
    if (ctx->input_memory_type(i) == tensorflow::HOST_MEMORY) return tensorflow::OkStatus();  // It was no copy.
    Tensor card;
    TF_RETURN_IF_ERROR(ToCard(ctx, now, &card));
    ctx->replace_ref_input(i, card, true);
    return tensorflow::OkStatus();
  }

  TfStatus ToCard(OpKernelContext* ctx, const Tensor& host, Tensor* card) {
    Tensor copy;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(host.dtype(), host.shape(), &copy));
    TF_RETURN_IF_ERROR(Copy(*this, copy.data(), host.data(), host.TotalBytes(), cudaMemcpyHostToDevice));
    *card = copy;
    return tensorflow::OkStatus();
  }

  TfStatus ToOutput(OpKernelContext* ctx, int i, const Tensor& host) {
    if (ctx->output_memory_type(i) == tensorflow::HOST_MEMORY || !IsPlain(host.dtype())) {
      ctx->set_output(i, host);
      return tensorflow::OkStatus();
    }
    Tensor* card = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, host.shape(), &card));
    return Copy(*this, card->data(), host.data(), host.TotalBytes(), cudaMemcpyHostToDevice);
  }

  HostDevice host_;
  const bool passes_;
  std::unique_ptr<OpKernel> kernel_;
};

// The CPU's would copy a value that others read, too, as if it were in host memory.
class AssignKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(1);
    OP_REQUIRES(ctx, value.TotalBytes() == 0 || IsOnCard(value),
                errors::Internal(type_string(), " '", name(), "': the value, ", requested_input(1),
                                 ", is in host memory, and should be on the card"));
    tensorflow::core::RefCountPtr<Var> var;
    OP_REQUIRES_OK(ctx, tensorflow::LookupOrCreateResource<Var>(ctx, tensorflow::HandleFromInput(ctx, 0), &var,
                                                                [&](Var** made) {
                                                                  *made = new Var(value.dtype());
                                                                  return tensorflow::OkStatus();
                                                                }));
    Tensor copy;
    OP_REQUIRES_OK(ctx, ctx->allocate_temp(value.dtype(), value.shape(), &copy));
    OP_REQUIRES_OK(ctx, Copy(*this, copy.data(), value.data(), value.TotalBytes(), cudaMemcpyDeviceToDevice));
    tensorflow::mutex_lock lock(*var->mu());
    *var->tensor() = copy;
    var->is_initialized = true;
  }
};

OpKernel* MakeAssignKernel(OpKernelConstruction* c) { return new AssignKernel(c); }
OpKernel* MakeHostKernel(OpKernelConstruction* c) { return new HostKernel(c); }

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

using Types = std::map<std::string, DataType>;

// Whether this TensorFlow has a kernel for these types already; some need no CUDA. Those of every device that compute
// something are not for this one: they take its memory for the host's.
bool IsThere(const tensorflow::KernelList& kernels, const Types& types) {
  return std::any_of(kernels.kernel().begin(), kernels.kernel().end(), [&](const tensorflow::KernelDef& kernel) {
    return (kernel.device_type() == tensorflow::DEVICE_GPU ||
            (kernel.device_type() == tensorflow::DEVICE_DEFAULT && Passing().count(kernel.op()) != 0)) &&
           std::all_of(kernel.constraint().begin(), kernel.constraint().end(), [&](const auto& constraint) {
             const auto& allowed = constraint.allowed_values().list().type();
             const auto type = types.find(constraint.name());
             return type == types.end() || std::find(allowed.begin(), allowed.end(), type->second) != allowed.end();
           });
  });
}

// A line: an op, the types of its attributes, and which arguments are in host memory: "Sum T=float16,float32
// Tidx=int32,int64 host=reduction_indices".
void Register(const std::string& line) {
  const std::vector<std::string> words = Split(line, ' ');
  std::vector<std::string> in_host_memory;
  std::vector<Types> all(1);
  for (size_t w = 1; w < words.size(); ++w) {
    const size_t equals = words[w].find('=');
    const std::string name = words[w].substr(0, equals);
    const std::vector<std::string> given = Split(words[w].substr(equals + 1), ',');
    if (name == "host") {
      in_host_memory = given;
      continue;
    }
    std::vector<Types> longer;
    for (const Types& types : all) {
      for (const std::string& type : given) {
        longer.push_back(types);
        CHECK(tensorflow::DataTypeFromString(type, &longer.back()[name])) << line;
      }
    }
    all = std::move(longer);
  }
  const tensorflow::KernelList there = tensorflow::GetRegisteredKernelsForOp(words[0]);
  for (const Types& types : all) {
    if (IsThere(there, types)) continue;
    tensorflow::KernelDefBuilder builder(words[0].c_str());
    builder.Device(tensorflow::DEVICE_GPU);
    for (const auto& [name, type] : types) builder.TypeConstraint(name.c_str(), type);
    for (const std::string& argument : in_host_memory) builder.HostMemory(argument.c_str());
    tensorflow::kernel_factory::OpKernelRegistrar registrar(
        builder.Build(), "HostKernel", words[0] == "AssignVariableOp" ? MakeAssignKernel : MakeHostKernel);
  }
}

}  // namespace
}  // namespace tf_booster::card

// Registers the kernels of a file, a line a kernel. Says how many there were.
extern "C" int ptx_card_register(const char* path) {
  std::ifstream file(path);
  int kernels = 0;
  for (std::string line; std::getline(file, line); ++kernels) tf_booster::card::Register(line);
  return kernels;
}
