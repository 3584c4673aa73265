#include "cc/tf/kernels/multi_formula_op.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cc/tf/kernels/dense_formulas.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

namespace {

int IntAttr(OpKernelConstruction* ctx, const char* name) {
  int value = 0;
  ctx->SetStatus(ctx->GetAttr(name, &value));
  return value;
}

// How many tensors there are for each Variable.
int EachHas(OpKernelConstruction* ctx, const char* name) { return IntAttr(ctx, name) / std::max(IntAttr(ctx, "N"), 1); }

}  // namespace

MultiFormulaOpBase::MultiFormulaOpBase(OpKernelConstruction* ctx)
    : VariablesOp(ctx, EachHas(ctx, "V") - 1, std::vector<const char*>(IntAttr(ctx, "S"), "number"), nullptr) {
  for (const char* name : {"V", "B"}) {
    OP_REQUIRES(ctx, num_vars_ > 0 && IntAttr(ctx, name) % num_vars_ == 0,
                errors::InvalidArgument(Where(), name, " is ", IntAttr(ctx, name),
                                        "; wanted a multiple of N, which is ", num_vars_));
  }
  std::vector<std::string> operations;
  std::vector<tensorflow::int64> operands, results;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("operations", &operations));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("operands", &operands));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("results", &results));
  const std::string wrong =
      MakeFormula(1 + slots_, EachHas(ctx, "B"), static_cast<int>(scalars_.size()), operations,
                  {operands.begin(), operands.end()}, {results.begin(), results.end()}, &formula_);
  OP_REQUIRES(ctx, wrong.empty(), errors::InvalidArgument(Where(), "its formula is none: ", wrong));
}

TfStatus MultiFormulaOpBase::CheckShapes(OpKernelContext* ctx, const LockedVariables& vars) const {
  TF_RETURN_IF_ERROR(CheckSlots(vars));
  for (int i = 0; i < num_vars_; ++i) {
    for (int k = 0; k < formula_.tensors; ++k) {
      const auto& shape = tensor(ctx, k, i).shape();
      if (shape == vars.shape(i)) continue;
      return errors::InvalidArgument(Where(), "variable ", requested_input(i), " has shape ",
                                     vars.shape(i).DebugString(), ", but tensor ", k, " of its formula has ",
                                     shape.DebugString());
    }
  }
  return tensorflow::OkStatus();
}

namespace {

// Elements that go through the formula at once: of floats 4 KB an array, so that all of them stay in a first-level
// cache. A multiple of every packet, so that elements go through packets as they do in TensorFlow's own kernels.
constexpr int64_t kElements = 1024;

// An operand on the elements of a block: so many numbers, or one for all.
template <class T>
struct Operand {
  const T* numbers;
  bool one;
};

template <class T, class Compute>
void OfTwo(Operand<T> a, Operand<T> b, int64_t n, const Compute& compute) {
  const dense::ConstBlock<T> left(a.numbers, n), right(b.numbers, n);
  if (a.one && b.one) return compute(right.constant(*a.numbers), right.constant(*b.numbers));
  if (a.one) return compute(right.constant(*a.numbers), right);
  if (b.one) return compute(left, left.constant(*b.numbers));
  compute(left, right);
}

template <class T, class Compute>
void OfOne(Operand<T> a, int64_t n, const Compute& compute) {
  const dense::ConstBlock<T> numbers(a.numbers, n);
  if (a.one) return compute(numbers.constant(*a.numbers));
  compute(numbers);
}

// The Eigen expressions that TensorFlow's kernels of these ops evaluate.
template <class T>
void Operate(Operation operation, Operand<T> a, Operand<T> b, T* to, int64_t n) {
  dense::Block<T> result(to, n);
  switch (operation) {
    case Operation::kAdd:
      return OfTwo(a, b, n, [&](const auto& x, const auto& y) { result = x + y; });
    case Operation::kSub:
      return OfTwo(a, b, n, [&](const auto& x, const auto& y) { result = x - y; });
    case Operation::kMul:
      return OfTwo(a, b, n, [&](const auto& x, const auto& y) { result = x * y; });
    case Operation::kDiv:
      return OfTwo(a, b, n, [&](const auto& x, const auto& y) { result = x / y; });
    case Operation::kMaximum:
      return OfTwo(a, b, n,
                   [&](const auto& x, const auto& y) { result = x.template cwiseMax<Eigen::PropagateNaN>(y); });
    case Operation::kMinimum:
      return OfTwo(a, b, n,
                   [&](const auto& x, const auto& y) { result = x.template cwiseMin<Eigen::PropagateNaN>(y); });
    case Operation::kNeg:
      return OfOne(a, n, [&](const auto& x) { result = -x; });
    case Operation::kAbs:
      return OfOne(a, n, [&](const auto& x) { result = x.abs(); });
    case Operation::kSign:
      return OfOne(a, n, [&](const auto& x) { result = x.sign(); });
    case Operation::kSquare:
      return OfOne(a, n, [&](const auto& x) { result = x.square(); });
    case Operation::kSqrt:
      return OfOne(a, n, [&](const auto& x) { result = x.sqrt(); });
    case Operation::kRsqrt:
      return OfOne(a, n, [&](const auto& x) { result = x.rsqrt(); });
  }
}

template <class T>
class MultiFormulaOp final : public MultiFormulaOpBase {
 public:
  explicit MultiFormulaOp(OpKernelConstruction* ctx) : MultiFormulaOpBase(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckScalars(ctx));
    LockedVariables vars;
    OP_REQUIRES_OK(ctx, vars.Lock(ctx, 0, first_scalar(), tensorflow::DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(ctx, CheckShapes(ctx, vars));
    OP_REQUIRES_OK(ctx, vars.PrepareToUpdate(ctx));
    const std::vector<T> numbers = ReadScalars<T>(ctx);
    std::vector<Memory> memory(num_vars_);
    std::vector<int64_t> first_block = {0};
    for (int i = 0; i < num_vars_; ++i) {
      for (int k = 0; k < formula_.arrays; ++k) memory[i].arrays[k] = vars.data<T>(k * num_vars_ + i);
      for (int k = 0; k < formula_.tensors; ++k) memory[i].tensors[k] = tensor(ctx, k, i).template flat<T>().data();
      memory[i].size = vars.shape(i).num_elements();
      first_block.push_back(first_block.back() + (memory[i].size + kElements - 1) / kElements);
    }
    const auto step = [&](int64_t begin, int64_t end) {
      if (begin == end) return;
      // What `new` gives is not aligned for the widest packets; Eigen's maps do not ask for it.
      std::vector<T> temporaries(formula_.temporaries * kElements);
      int64_t i = std::upper_bound(first_block.begin(), first_block.end(), begin) - first_block.begin() - 1;
      for (int64_t b = begin; b < end; ++b) {
        while (b >= first_block[i + 1]) ++i;
        Step(memory[i], (b - first_block[i]) * kElements, numbers, temporaries.data());
      }
    };
    if (vars.HasDuplicates(first_scalar())) {
      // Two handles of one Variable: one update after the other, as TensorFlow's ops would.
      for (int i = 0; i < num_vars_; ++i) step(first_block[i], first_block[i + 1]);
      return;
    }
    TfParallelFor(ctx).Run(first_block.back(), static_cast<int64_t>(kNsPerStep * formula_.size), step);
  }

 private:
  struct Memory {
    T* arrays[kMostFormulaArrays];
    const T* tensors[kMostFormulaTensors];
    int64_t size;
  };
  static constexpr double kNsPerStep = 100;  // Of kElements; roots and divisions take four times as long.

  void Step(const Memory& memory, int64_t begin, const std::vector<T>& numbers, T* temporaries) const {
    const int64_t n = std::min(kElements, memory.size - begin);
    const auto operand = [&](int place) -> Operand<T> {
      if (place < formula_.arrays) return {memory.arrays[place] + begin, false};
      if (place < formula_.first_number()) return {memory.tensors[place - formula_.arrays] + begin, false};
      if (place < formula_.first_temporary()) return {&numbers[place - formula_.first_number()], true};
      return {temporaries + (place - formula_.first_temporary()) * kElements, false};
    };
    for (int s = 0; s < formula_.size; ++s) {
      const FormulaStep& step = formula_.steps[s];
      T* to = temporaries + (step.to - formula_.first_temporary()) * kElements;
      Operate(step.operation, operand(step.a), operand(step.b), to, n);
    }
    for (int k = 0; k < formula_.arrays; ++k) {
      if (formula_.results[k] != k) std::copy_n(operand(formula_.results[k]).numbers, n, memory.arrays[k] + begin);
    }
  }
};

#define REGISTER(T)                                                                                                 \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiApplyFormula").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          MultiFormulaOp<T>)
REGISTER(float);
REGISTER(double);
REGISTER(Eigen::half);
REGISTER(Eigen::bfloat16);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
