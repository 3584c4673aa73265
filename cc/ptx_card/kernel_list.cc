// Registers TensorFlow's own GPU kernels, computed on the host, from a list of what a TensorFlow with CUDA registers.
// So its packages for CPUs, which have none, place graphs as those with them do.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cc/ptx_card/card_tensors.h"
#include "cc/ptx_card/host_kernel.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_booster::card {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

// The CPU's would copy a value that others read, too, as if it were in host memory.
class AssignKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckPlace(*this, 1, value, true));
    tensorflow::core::RefCountPtr<Var> var;
    const auto make = [&](Var** made) {
      *made = new Var(value.dtype());
      return tensorflow::OkStatus();
    };
    OP_REQUIRES_OK(ctx, tensorflow::LookupOrCreateResource<Var>(ctx, tensorflow::HandleFromInput(ctx, 0), &var, make));
    Tensor copy;
    OP_REQUIRES_OK(ctx, NewOnCard(ctx, value, &copy));
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
            (kernel.device_type() == tensorflow::DEVICE_DEFAULT && PassesThrough(kernel.op()))) &&
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

// Called by TensorFlow behind SE_InitPlugin. $PTX_CARD_KERNELS: the list, a line a kernel.
extern "C" void TF_InitKernel() {
  const char* const path = std::getenv("PTX_CARD_KERNELS");
  if (path == nullptr) return;
  std::ifstream file(path);
  CHECK(file) << "PTX_CARD_KERNELS: '" << path << "' cannot be read";
  for (std::string line; std::getline(file, line);) tf_booster::card::Register(line);
}
