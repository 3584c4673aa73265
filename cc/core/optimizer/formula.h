// An update that a program has put together of ordinary elementwise ops, as a short program that one op runs for many
// Variables: cc/tf/kernels/multi_formula_op.cc on the CPU, multi_formula_body.h on a card.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_FORMULA_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_FORMULA_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tf_booster {

enum class Operation : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kNeg,
  kAbs,
  kSign,
  kSquare,
  kSqrt,
  kRsqrt
};

// Those before take two operands, those from here on one.
inline constexpr Operation kFirstUnary = Operation::kNeg;

// tf_booster/passes/formula_matching.py has the same limits.
inline constexpr int kMostFormulaArrays = 6;
inline constexpr int kMostFormulaTensors = 6;
inline constexpr int kMostFormulaNumbers = 24;
inline constexpr int kMostFormulaSteps = 32;

// to = a operation b. Each is a place: first those of the arrays (a Variable and its slots), then of the tensors, the
// numbers and the temporaries. `to` is a temporary; b is a where there is one operand.
struct FormulaStep {
  Operation operation;
  uint8_t a, b, to;
};

struct Formula {
  int arrays = 0, tensors = 0, numbers = 0, temporaries = 0, size = 0;
  FormulaStep steps[kMostFormulaSteps] = {};
  uint8_t results[kMostFormulaArrays] = {};  // By array the place of its new value: a temporary, or itself.

  int first_number() const { return arrays + tensors; }
  int first_temporary() const { return arrays + tensors + numbers; }
};

// operations: names of TensorFlow's op types, AddV2 and RealDiv among them. operands: of one after another, one or two
// each: first the arrays, then the tensors and the numbers, then what the operations before give. results: of each
// array its new value, counted alike. Returns what is wrong with them, "" if nothing is.
std::string MakeFormula(int arrays, int tensors, int numbers, const std::vector<std::string>& operations,
                        const std::vector<int64_t>& operands, const std::vector<int64_t>& results, Formula* formula);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_FORMULA_H_
